//! Facts from a tree: each text through its pure parser.

mod clocksource;
mod cpu;
mod hardware;
mod idle;
mod kernel;
mod steering;
mod system;

use facts::Facts;

use crate::probes::kernel_log::KernelLog;
use crate::tree::Tree;

pub use kernel::unpack;

/// Reads all facts of a tree. It never fails: what is absent or forbidden is an
/// unknown fact.
pub fn read(tree: &Tree) -> Facts {
    let log = KernelLog::default();
    let clocksources = clocksource::clocksources(tree);
    let kernel = kernel::kernel(tree, &log);
    let system = system::system(tree, &log);
    Facts {
        cpu: cpu::cpu(tree, &kernel, &system),
        kernel,
        steering: steering::steering(tree),
        rtc: hardware::real_time_clock(tree),
        phcs: hardware::phcs(tree),
        vmclock: hardware::vmclock(tree),
        pvclock_page: hardware::pvclock_page(tree, &clocksources),
        kvm_host: hardware::kvm_host(tree),
        system,
        load: system::load(tree),
        idle: idle::idle(tree),
        clocksources,
    }
}
