//! What KVM's own tests check of a clock (kvm-unit-tests: kvmclock_test,
//! tsc_adjust, hyperv_clock; selftests: kvm_clock_test, tsc_msrs_test,
//! system_counter_offset_test, steal_time, hyperv_clock), on the kernel's
//! clock and on ours.

mod absent;
mod addresses;
mod asked;
mod disabled_page;
mod discovery;
mod hyperv;
mod kvm_clock;
mod machine;
mod setting;
mod subject;
mod tsc;

use host::Kind;
use vmm::Machine;

use crate::bench::{Bench, Provider};
use crate::in_process::time::Simulated;
use crate::in_process::vm::InProcessVm;
use crate::results::{Check, Findings};
use crate::run::Found;
use crate::sample::not_read;
use crate::settings::{Progress, Result};
use subject::Subject;

/// One test; each begins with what those before it left.
struct Test {
    name: &'static str,
    run: Run,
}

enum Run {
    /// On every subject.
    Any(fn(&Subject<'_>) -> Result),
    /// On a virtual machine only: it is about vCPUs or the hardware TSC.
    Machine(fn(&Subject<'_>, &Machine) -> Result),
}

const fn any(name: &'static str, run: fn(&Subject<'_>) -> Result) -> Test {
    Test { name, run: Run::Any(run) }
}

const fn on_machine(name: &'static str, run: fn(&Subject<'_>, &Machine) -> Result) -> Test {
    Test { name, run: Run::Machine(run) }
}

/// kvm-clock, the kernel's or ours.
const KVM: &[Test] = &[
    any("discovery", discovery::discovered),
    any("announced", kvm_clock::announced),
    any("page", kvm_clock::page),
    any("page against host", kvm_clock::page_against_host),
    any("MSR reads back", kvm_clock::register),
    any("wall clock", kvm_clock::wall_clock),
    on_machine("steal time", machine::steal_time),
    any("GUEST_STOPPED", kvm_clock::guest_stopped),
    any("monotonic through updates", kvm_clock::monotonic_through_updates),
    on_machine("monotonic on all vCPUs", machine::kvm_clock_monotonic),
    any("clock set", setting::clock),
    on_machine("clock set by real time", setting::by_real_time),
    any("disabled page", disabled_page::page),
    any("addresses", addresses::of_kvm_clock),
    on_machine("IA32_TSC", tsc::written),
    on_machine("IA32_TSC_ADJUST", tsc::adjusted),
    on_machine("TSC offset", tsc::offset),
];

/// Only our kvm-clock: the kernel's KVM serves other providers' MSRs too.
const OWN_KVM: &[Test] = &[any("MSRs of others", absent::others_of_kvm)];

const HYPERV: &[Test] = &[
    any("discovery", discovery::discovered),
    any("announced", hyperv::announced),
    any("asked: discovery", asked::discovery),
    any("asked: guest OS id", asked::os_id),
    on_machine("asked: VP index", asked::vp_index),
    on_machine("asked: hypercall page", asked::hypercall_page),
    any("asked: invariant-TSC control", asked::invariant_tsc),
    any("OS id first", hyperv::os_id_first),
    any("frequency MSRs", hyperv::frequencies),
    any("page", hyperv::page),
    any("counter against TSC", hyperv::counter_against_tsc),
    any("counter against page", hyperv::counter_against_page),
    on_machine("monotonic on all vCPUs", machine::hyperv_monotonic),
    any("page off", hyperv::page_off),
    any("clock set", hyperv::clock_set),
    any("disabled page", disabled_page::reference_page),
    any("addresses", addresses::of_hyperv),
    any("reserved bits", hyperv::reserved_bits),
    any("the host's own MSRs", hyperv::host_s_own),
    any("MSRs of others", absent::others_of_hyperv),
];

/// The kernel's Hyper-V clock, where KVM has it.
const KERNEL_HYPERV: &[Test] = &[
    any("discovery", discovery::discovered),
    any("announced", hyperv::announced),
    any("asked: discovery", asked::discovery),
    any("asked: guest OS id", asked::os_id),
    on_machine("asked: VP index", asked::vp_index),
    on_machine("asked: hypercall page", asked::hypercall_page),
    any("frequency MSRs", hyperv::frequencies),
    any("page", hyperv::page),
    any("counter against TSC", hyperv::counter_against_tsc),
    any("counter against page", hyperv::counter_against_page),
    on_machine("monotonic on all vCPUs", machine::hyperv_monotonic),
    any("clock set", hyperv::clock_set),
    any("disabled page", disabled_page::reference_page),
    any("the host's own MSRs", hyperv::host_s_own),
];

const NOTHING: &[Test] = &[
    any("discovery", discovery::discovered),
    any("announced", absent::announced),
    any("MSRs", absent::all),
];

const PROVIDERS: [Provider; 7] = [
    Provider::Kernel,
    Provider::KernelHyperV,
    Provider::Own(Kind::Kvm),
    Provider::Own(Kind::HyperV),
    Provider::Own(Kind::None),
    Provider::Own(Kind::Legacy),
    Provider::Own(Kind::Minimal),
];

fn tests(provider: Provider) -> impl Iterator<Item = &'static Test> {
    let groups: &[&[Test]] = match provider {
        Provider::Kernel => &[KVM],
        Provider::KernelHyperV => &[KERNEL_HYPERV],
        Provider::Own(Kind::Kvm) => &[KVM, OWN_KVM],
        Provider::Own(Kind::HyperV) => &[HYPERV],
        Provider::Own(_) => &[NOTHING],
    };
    groups.iter().copied().flatten()
}

/// Runs every test that `subject` can.
fn checks(subject: Subject<'_>, step: &mut dyn FnMut(&str, f64)) -> Vec<Check> {
    let provider = subject.provider;
    for (index, test) in tests(provider).enumerate() {
        let done = index as f64 / tests(provider).count() as f64;
        step(&format!("{}: {}", provider.label(), test.name), done);
        let result = match (&test.run, subject.machine()) {
            (Run::Any(run), _) => run(&subject),
            (Run::Machine(run), Some(machine)) => run(&subject, machine),
            (Run::Machine(_), None) => Ok(()),
        };
        if let Err(error) = result {
            subject.holds(test.name, "the guest replies", error.to_string(), false);
        }
    }
    subject.into_checks()
}

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found> {
    all(&PROVIDERS, progress, |provider, step| {
        Ok(match Subject::on_kvm(bench, provider) {
            Ok(subject) => checks(subject, step),
            Err(error) => {
                vec![not_read(provider.label().to_owned(), "the guest starts".to_owned(), &error)]
            }
        })
    })
}

/// Without a virtual machine: our providers only.
pub(crate) fn in_process(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found> {
    all(&Kind::ALL, progress, |kind, step| {
        let vm = InProcessVm::new(bench.host_settings(kind), Simulated::new(bench.host_tsc))?;
        Ok(checks(Subject::in_process(bench, kind, &vm), step))
    })
}

fn all<T: Copy>(
    subjects: &[T],
    progress: &mut dyn Progress,
    checks: impl Fn(T, &mut dyn FnMut(&str, f64)) -> Result<Vec<Check>>,
) -> Result<Found> {
    let mut found = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        let mut step = |what: &str, done| {
            progress.step(what, (index as f64 + done) / subjects.len() as f64);
        };
        found.append(&mut checks(*subject, &mut step)?);
    }
    Ok((Findings::Conformance, found))
}
