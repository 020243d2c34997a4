use std::cell::Cell;
use std::rc::Rc;

use inspect::comparison::{ClockName, PairReport, Reader};
use instruments::drift::Span;

use super::*;

const S: u64 = 1_000_000_000;
const SINCE_1970: u64 = 1_795_000_000 * S;

/// A time that advances when a test lets it, and 20 ns with each read.
#[derive(Clone, Default)]
struct Time(Rc<Cell<u64>>);

impl Time {
    fn read(&self) -> u64 {
        self.0.set(self.0.get() + 20);
        self.0.get()
    }

    fn reader(&self, of: impl Fn(u64) -> u64 + 'static) -> Reader {
        let time = self.clone();
        Box::new(move || Some(Span::instant(of(time.read()))))
    }
}

/// A run of CLOCK_MONOTONIC, which is right, and CLOCK_REALTIME, against
/// a reference.
fn run_of(
    time: &Time,
    realtime: impl Fn(u64) -> u64 + 'static,
    reference: impl Fn(u64) -> Option<u64> + 'static,
) -> DriftRun {
    let clocks = ComparedClocks::from_readers(vec![
        (ClockName::Monotonic, time.reader(|now| 5 * S + now)),
        (ClockName::Realtime, time.reader(realtime)),
    ]);
    let its_time = time.clone();
    let reference = ComparisonReference::clock(
        "ntp 192.0.2.1",
        Duration::from_secs(1),
        Box::new(move || reference(its_time.read())),
    );
    DriftRun::new(clocks, vec![reference])
}

/// Compares once a second for a minute.
fn minute(run: &mut DriftRun, time: &Time) {
    for _ in 0..60 {
        time.0.set(time.0.get() + S);
        run.session.compare(0).unwrap();
    }
    run.session.finish();
}

#[test]
fn a_clock_set_back_is_noted_and_its_comparisons_are_kept() {
    let time = Time::default();
    let set_back = |now: u64| SINCE_1970 + now - if now > 30 * S { 3 * S } else { 0 };
    let mut run = run_of(&time, set_back, |now| Some(SINCE_1970 + now));
    minute(&mut run, &time);
    let report = run.report(Budget::default()).unwrap();
    assert_eq!(report.disturbed, ["realtime was set back by 3.00 s at 29.0 s."]);
    // The frequency is of the time around it.
    let ppm = |pair: &PairReport| pair.drift.frequency.unwrap().ppm;
    assert!(report.pairs.iter().all(|pair| ppm(pair).abs() < 0.01), "{report:?}");
    assert_eq!(report.pairs[1].drift.steps.len(), 1);
    assert!(report.pairs.iter().all(|pair| pair.drift.readings == 60), "{report:?}");
}
