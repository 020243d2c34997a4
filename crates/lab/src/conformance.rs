//! What KVM's own tests ask of a clock (kvm-unit-tests: kvmclock_test,
//! tsc_adjust, hyperv_clock; selftests: kvm_clock_test, tsc_msrs_test,
//! system_counter_offset_test, steal_time, hyperv_clock), of the kernel's
//! clock and of ours.

mod absent;
mod addresses;
mod checklist;
mod hyperv;
mod kvm_clock;
mod setting;
mod switched_off;
mod tsc;

use host::Kind;

use crate::bench::{Bench, Maker};
use crate::results::Findings;
use crate::run::Found;
use crate::settings::{LabError, Progress};
use checklist::{Checklist, Subject};

/// One thing that is looked at, on a machine that others have used.
struct Test {
    name: &'static str,
    run: fn(&Subject<'_>, &mut Checklist) -> Result<(), LabError>,
}

const fn test(
    name: &'static str,
    run: fn(&Subject<'_>, &mut Checklist) -> Result<(), LabError>,
) -> Test {
    Test { name, run }
}

/// Of kvm-clock, the kernel's or ours.
const KVM: &[Test] = &[
    test("announced", kvm_clock::announced),
    test("page", kvm_clock::page),
    test("MSR reads back", kvm_clock::register),
    test("wall clock", kvm_clock::wall_clock),
    test("steal time", kvm_clock::steal_time),
    test("GUEST_STOPPED", kvm_clock::guest_stopped),
    test("monotonic on all vCPUs", kvm_clock::monotonic),
    test("clock set", setting::clock),
    test("clock set by real time", setting::by_real_time),
    test("disabled page", switched_off::page),
    test("addresses", addresses::of_kvm_clock),
    test("IA32_TSC", tsc::written),
    test("IA32_TSC_ADJUST", tsc::adjusted),
    test("TSC offset", tsc::offset),
];

/// Of ours alone: the kernel's KVM answers other providers' MSRs too.
const OWN_KVM: &[Test] = &[test("MSRs of others", absent::others_of_kvm)];

const HYPERV: &[Test] = &[
    test("announced", hyperv::announced),
    test("OS id first", hyperv::os_id_first),
    test("frequency MSRs", hyperv::frequencies),
    test("page", hyperv::page),
    test("counter against TSC", hyperv::counter_against_tsc),
    test("counter against page", hyperv::counter_against_page),
    test("monotonic on all vCPUs", hyperv::monotonic),
    test("page off", hyperv::page_off),
    test("clock set", hyperv::clock_set),
    test("disabled page", switched_off::reference_page),
    test("addresses", addresses::of_hyperv),
    test("reserved bits", hyperv::reserved_bits),
    test("MSRs of others", absent::others_of_hyperv),
];

const NOTHING: &[Test] = &[test("announced", absent::announced), test("MSRs", absent::all)];

const SUBJECTS: [(Maker, &[&[Test]]); 6] = [
    (Maker::Kernel, &[KVM]),
    (Maker::Own(Kind::Kvm), &[KVM, OWN_KVM]),
    (Maker::Own(Kind::HyperV), &[HYPERV]),
    (Maker::Own(Kind::None), &[NOTHING]),
    (Maker::Own(Kind::Legacy), &[NOTHING]),
    (Maker::Own(Kind::Minimal), &[NOTHING]),
];

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let count: usize =
        SUBJECTS.iter().flat_map(|(_, groups)| *groups).map(|tests| tests.len()).sum();
    let mut checks = Vec::new();
    let mut done = 0;
    for (maker, groups) in SUBJECTS {
        let subject = Subject::start(bench, maker)?;
        for test in groups.iter().copied().flatten() {
            progress.step(&format!("{}: {}", maker.label(), test.name), done as f64 / count as f64);
            let mut checklist = Checklist::of(maker);
            if let Err(error) = (test.run)(&subject, &mut checklist) {
                checklist.fails(test.name, &error);
            }
            checks.append(&mut checklist.checks);
            done += 1;
        }
    }
    Ok((Findings::Conformance, checks))
}
