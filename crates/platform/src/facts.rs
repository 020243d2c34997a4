//! What a Linux system says about its clocks.
//!
//! In each file below stand the types, how they are read from a tree, and
//! the parsers: pure functions from text, which never fail but say why a
//! fact is unknown.

pub mod clocksource;
pub mod cpu;
pub mod hardware;
pub mod kernel;
mod parse;
pub mod running;
pub mod steering;
pub mod system;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::probes::kernel_log::KernelLog;
use crate::tree::Tree;

/// Everything Parachron asks a machine about its clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The kernel's clock sources.
    pub clocksources: clocksource::Clocksources,
    /// The processor.
    pub cpu: cpu::Cpu,
    /// The kernel.
    pub kernel: kernel::Kernel,
    /// Who steers the clock.
    pub steering: steering::Steering,
    /// The battery-backed clock.
    pub rtc: hardware::Rtc,
    /// PTP hardware clocks.
    pub phcs: Fact<Vec<hardware::Phc>>,
    /// The VMClock page.
    pub vmclock: Fact<hardware::VmClock>,
    /// The kvm-clock page in use.
    pub pvclock_page: Fact<hardware::PvclockPage>,
    /// KVM, when this is a host.
    pub kvm_host: Fact<hardware::KvmHost>,
    /// Which machine.
    pub system: system::System,
    /// How busy.
    pub load: system::Load,
}

/// Reads everything a tree has to say. What is absent or forbidden is a fact
/// too: this never fails.
pub fn read(tree: &Tree) -> Facts {
    let log = KernelLog::default();
    let clocksources = clocksource::Clocksources::read(tree);
    Facts {
        cpu: cpu::Cpu::read(tree),
        kernel: kernel::Kernel::read(tree, &log),
        steering: steering::Steering::read(tree),
        rtc: hardware::Rtc::read(tree),
        phcs: hardware::read_phcs(tree),
        vmclock: hardware::read_vmclock(tree),
        pvclock_page: hardware::read_pvclock_page(tree, &clocksources),
        kvm_host: hardware::read_kvm_host(tree),
        system: system::System::read(tree, &log),
        load: system::Load::read(tree),
        clocksources,
    }
}
