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

use crate::bench::{LabBench, Provider};
use crate::results::{Check, ExperimentResult, Findings};
use crate::sample::not_read;
use crate::settings::{LabProgress, Result};
use host::Kind;
use subject::ConformanceSubject;

/// One test; each begins with what those before it left.
struct Test {
    name: &'static str,
    run: fn(&ConformanceSubject<'_>) -> Result,
}

const fn test(name: &'static str, run: fn(&ConformanceSubject<'_>) -> Result) -> Test {
    Test { name, run }
}

/// kvm-clock, the kernel's or ours.
const KVM: &[Test] = &[
    test("discovery", discovery::discovered),
    test("announced", kvm_clock::announcement),
    test("page", kvm_clock::page),
    test("page against host", kvm_clock::page_against_host),
    test("MSR reads back", kvm_clock::register),
    test("wall clock", kvm_clock::wall_clock),
    test("steal time", machine::steal_time),
    test("GUEST_STOPPED", kvm_clock::guest_stopped),
    test("monotonic through updates", kvm_clock::monotonic_through_updates),
    test("monotonic on all vCPUs", machine::kvm_clock_monotonic),
    test("clock set", setting::clock),
    test("clock set by real time", setting::by_real_time),
    test("disabled page", disabled_page::page),
    test("addresses", addresses::of_kvm_clock),
    test("IA32_TSC", tsc::write_tsc),
    test("IA32_TSC_ADJUST", tsc::write_tsc_adjust),
    test("TSC offset", tsc::offset),
];

/// Only our kvm-clock: the kernel's KVM serves other providers' MSRs too.
const OWN_KVM: &[Test] = &[test("MSRs of others", absent::others_of_kvm)];

/// Hyper-V's clock, the kernel's, where KVM has it, or ours.
const HYPERV: &[Test] = &[
    test("discovery", discovery::discovered),
    test("announced", hyperv::announcement),
    test("asked: discovery", asked::discovery),
    test("asked: guest OS id", asked::os_id),
    test("asked: VP index", asked::vp_index),
    test("asked: hypercall page", asked::hypercall_page),
    test("frequency MSRs", hyperv::frequencies),
    test("page", hyperv::page),
    test("counter against TSC", hyperv::counter_against_tsc),
    test("counter against page", hyperv::counter_against_page),
    test("monotonic on all vCPUs", machine::hyperv_monotonic),
    test("clock set", hyperv::clock_set),
    test("disabled page", disabled_page::reference_page),
    test("the host's own MSRs", hyperv::host_s_own),
];

/// Only our Hyper-V clock.
const OWN_HYPERV: &[Test] = &[
    test("asked: invariant-TSC control", asked::invariant_tsc),
    test("OS id first", hyperv::os_id_first),
    test("page off", hyperv::page_off),
    test("addresses", addresses::of_hyperv),
    test("reserved bits", hyperv::reserved_bits),
    test("MSRs of others", absent::others_of_hyperv),
];

const NOTHING: &[Test] = &[
    test("discovery", discovery::discovered),
    test("announced", absent::announcement),
    test("MSRs", absent::check_all),
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
        Provider::KernelHyperV => &[HYPERV],
        Provider::Own(Kind::Kvm) => &[KVM, OWN_KVM],
        Provider::Own(Kind::HyperV) => &[HYPERV, OWN_HYPERV],
        Provider::Own(_) => &[NOTHING],
    };
    groups.iter().copied().flatten()
}

/// Runs every test of `subject`'s provider.
fn checks(subject: ConformanceSubject<'_>, step: &mut dyn FnMut(&str, f64)) -> Vec<Check> {
    let provider = subject.provider;
    for (index, test) in tests(provider).enumerate() {
        let done = index as f64 / tests(provider).count() as f64;
        step(&format!("{}: {}", provider.label(), test.name), done);
        if let Err(error) = (test.run)(&subject) {
            subject.holds(test.name, "the guest replies", error.to_string(), false);
        }
    }
    subject.into_checks()
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult> {
    let mut found = Vec::new();
    for (index, provider) in PROVIDERS.into_iter().enumerate() {
        let mut step = |what: &str, done| {
            progress.step(what, (index as f64 + done) / PROVIDERS.len() as f64);
        };
        match ConformanceSubject::start(bench, provider) {
            Ok(subject) => found.append(&mut checks(subject, &mut step)),
            Err(error) => {
                found.push(not_read(provider.label().into(), "the guest starts".into(), &error));
            }
        }
    }
    Ok((Findings::Conformance, found))
}
