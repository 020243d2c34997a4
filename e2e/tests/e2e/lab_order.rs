//! The lab's experiments on the order and origin of time, on this machine's
//! KVM: whatever could be looked at is as it must be.

use std::sync::atomic::Ordering;
use std::time::Duration;

use e2e::{Case, Need, Program};
use experiments::results::{Findings, Outcome, Verdict};
use experiments::{Experiment, Settings};
use guest::request::Request;
use guest::source::Source;
use machine::{Backend, Machine};

const KVM: &[Need] = &[Need::Kvm];

pub(crate) const CASES: &[Case] = &[
    Case { name: "lab_conformance_holds", needs: KVM, run: lab_conformance_holds },
    Case { name: "lab_updates_hold", needs: KVM, run: lab_updates_hold },
    Case { name: "lab_pause_stops_a_busy_guest", needs: KVM, run: lab_pause_stops_a_busy_guest },
    Case { name: "lab_time_is_monotonic", needs: KVM, run: lab_time_is_monotonic },
];

/// Fewer reads than a person is shown.
fn run(experiment: Experiment) -> Outcome {
    let settings = Settings { monotonic_reads: 400_000, ..Settings::default() };
    let outcome = experiments::run(experiment, &settings, &mut ()).expect("the experiment is made");
    let failed: Vec<_> =
        outcome.checks.iter().filter(|check| check.verdict == Verdict::Failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    outcome
}

fn passed(outcome: &Outcome, begin: &str) -> usize {
    let passed = outcome.checks.iter().filter(|check| check.verdict == Verdict::Passed);
    passed.filter(|check| check.name.starts_with(begin)).count()
}

fn lab_conformance_holds(_: &Program) {
    let outcome = run(Experiment::Conformance);
    for maker in ["kernel: ", "kvm: ", "hyperv: ", "none: ", "legacy: ", "minimal: "] {
        assert!(passed(&outcome, maker) > 0, "{maker}{:#?}", outcome.checks);
    }
}

fn lab_updates_hold(_: &Program) {
    let outcome = run(Experiment::Updates);
    let Findings::Updates(rows) = &outcome.findings else { panic!("{:?}", outcome.findings) };
    // Ours can be told of every event, but a move takes two physical CPUs.
    let not_caused: Vec<_> = rows
        .iter()
        .filter(|row| row.backend == experiments::results::Backend::Own && row.not_caused.is_some())
        .filter(|row| !row.event.contains("moved"))
        .collect();
    assert!(not_caused.is_empty(), "{not_caused:#?}");
    assert!(passed(&outcome, "kernel: ") > 0, "{:#?}", outcome.checks);
}

/// What it publishes stands still as long as it is paused, and no longer.
fn lab_pause_stops_a_busy_guest(_: &Program) {
    let machine = Machine::start(&machine::Settings::new(Backend::Kernel)).expect("a machine");
    machine.discover(0).expect("a guest that answers");
    let published = || machine.ram().shared().last_time_ns.load(Ordering::Acquire);
    let (source, reads) = (Source::Tsc, u64::MAX);
    machine.post(0, Request::Monotonic { source, reads, participants: 1, guarded: false });
    for _ in 0..20 {
        let before = published();
        while published() == before {
            std::thread::yield_now();
        }
        machine.pause().expect("it pauses");
        let stood = published();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(published(), stood);
        machine.resume().expect("it goes on");
    }
}

fn lab_time_is_monotonic(_: &Program) {
    let outcome = run(Experiment::Monotonic);
    let Findings::Monotonic(rows) = &outcome.findings else { panic!("{:?}", outcome.findings) };
    for row in rows {
        assert_eq!(row.reads, 400_000, "{row:?}");
        assert!(!(row.stable || row.guarded) || row.backward == 0, "{row:?}");
    }
}
