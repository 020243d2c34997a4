use std::cell::Cell;
use std::rc::Rc;

use instruments::drift::Span;

use super::super::clocks::Reader;
use super::*;

const S: u64 = 1_000_000_000;
const SINCE_1970: u64 = 1_795_000_000 * S;

/// A time that goes by when it is told to, and 20 ns with each look.
#[derive(Clone, Default)]
struct Time(Rc<Cell<u64>>);

impl Time {
    fn look(&self) -> u64 {
        self.0.set(self.0.get() + 20);
        self.0.get()
    }

    fn reads(&self, of: impl Fn(u64) -> u64 + 'static) -> Reader {
        let time = self.clone();
        Box::new(move || Some(Span::at(of(time.look()))))
    }
}

/// A session of CLOCK_MONOTONIC, which is right, and CLOCK_REALTIME, against
/// a reference.
fn session(
    time: &Time,
    realtime: impl Fn(u64) -> u64 + 'static,
    reference: impl Fn(u64) -> Option<u64> + 'static,
) -> Session {
    let clocks = Clocks::of(vec![
        (ClockName::Monotonic, time.reads(|now| 5 * S + now)),
        (ClockName::Realtime, time.reads(realtime)),
    ]);
    let looks = time.clone();
    let reference = Reference::clock(
        "ntp 192.0.2.1",
        Duration::from_secs(1),
        Box::new(move || reference(looks.look())),
    );
    Session::new(clocks, vec![reference], "this boot".into())
}

/// Compares once a second for a minute.
fn minute(session: &mut Session, time: &Time) {
    for _ in 0..60 {
        time.0.set(time.0.get() + S);
        session.compare(0).unwrap();
    }
    session.pairs.iter_mut().for_each(|pair| pair.series.finish());
}

#[test]
fn a_clock_set_back_is_told_and_its_comparisons_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let time = Time::default();
    let set_back = |now: u64| SINCE_1970 + now - if now > 30 * S { 3 * S } else { 0 };
    let mut session = session(&time, set_back, |now| Some(SINCE_1970 + now));
    session.record(&path).unwrap();
    minute(&mut session, &time);
    session.finish_records().unwrap();
    let report = session.report(Budget::default()).unwrap();
    assert_eq!(report.disturbed, ["realtime was set back by 3.00 s at 29.0 s."]);
    // The frequency is of the time around it.
    let ppm = |pair: &PairReport| pair.drift.frequency.unwrap().ppm;
    assert!(report.pairs.iter().all(|pair| ppm(pair).abs() < 0.01), "{report:?}");
    assert_eq!(report.pairs[1].drift.steps.len(), 1);
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(lines, 2 + 2 * 60);
}

#[test]
fn a_reference_that_goes_back_before_the_start_is_told() {
    let time = Time::default();
    let back = |now: u64| Some(SINCE_1970 + now - if now > 30 * S { 3600 * S } else { 0 });
    let mut session = session(&time, |now| SINCE_1970 + now, back);
    minute(&mut session, &time);
    let report = session.report(Budget::default()).unwrap();
    let left_out = "monotonic against ntp 192.0.2.1: 31 readings left out: the reference went \
                    back, to 59.0 min before the start.";
    assert_eq!(report.disturbed[0], left_out);
    assert!(report.pairs.iter().all(|pair| pair.drift.readings == 29), "{report:?}");
}

#[test]
fn a_reference_that_goes_away_for_a_while_leaves_a_gap() {
    let time = Time::default();
    let away = |now: u64| Some(SINCE_1970 + now).filter(|_| !(20 * S..40 * S).contains(&now));
    let mut session = session(&time, |now| SINCE_1970 + now + now / 20_000, away);
    minute(&mut session, &time);
    let report = session.report(Budget::default()).unwrap();
    assert!(report.disturbed.is_empty() && report.notes.is_empty(), "{report:?}");
    let [monotonic, realtime] = &report.pairs[..] else { panic!("{report:?}") };
    assert_eq!((monotonic.drift.readings, realtime.drift.readings), (40, 40));
    assert!((realtime.drift.frequency.unwrap().ppm - 50.0).abs() < 0.01, "{realtime:?}");
    assert_eq!(realtime.drift.steps, []);
}

/// The machine was started again: the clock counts from another moment, the
/// frequency is the same.
#[test]
fn a_record_goes_on_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let fast = |now: u64| SINCE_1970 + now + now / 20_000;
    let first = Time::default();
    let mut one = session(&first, fast, |now| Some(SINCE_1970 + now));
    one.boot = "boot before".into();
    one.record(&path).unwrap();
    minute(&mut one, &first);
    one.finish_records().unwrap();
    let second = Time(Rc::new(Cell::new(7000 * S)));
    let offset = |now: u64| SINCE_1970 + now + now / 20_000 - 8 * S;
    let mut two = session(&second, offset, |now| Some(SINCE_1970 + now));
    two.resume(&path, &Resuming::default()).unwrap();
    minute(&mut two, &second);
    let report = two.report(Budget::default()).unwrap();
    assert!(report.notes[0].starts_with("This machine was started again"), "{:?}", report.notes);
    assert!(report.disturbed.is_empty(), "{:?}", report.disturbed);
    let realtime = &report.pairs[1].drift;
    assert_eq!((realtime.readings, realtime.steps.len()), (120, 0));
    assert!((realtime.frequency.unwrap().ppm - 50.0).abs() < 0.01, "{realtime:?}");
}

#[test]
fn a_reference_that_stands_still_is_none() {
    let time = Time::default();
    let mut session = session(&time, |now| SINCE_1970 + now, |_| Some(SINCE_1970));
    minute(&mut session, &time);
    let error = session.report(Budget::default()).unwrap_err().to_string();
    assert!(
        error.contains("ntp 192.0.2.1 stood still while monotonic advanced by 59.0 s"),
        "{error}"
    );
}

/// A record of `ntp 192.0.2.1`, with half a line at its end.
fn recorded(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("run.csv");
    let time = Time::default();
    let mut session = session(&time, |now| SINCE_1970 + now, |now| Some(SINCE_1970 + now));
    session.record(&path).unwrap();
    minute(&mut session, &time);
    session.finish_records().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "half a li").unwrap();
    path
}

#[test]
fn what_only_computes_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path());
    let before = std::fs::read(&path).unwrap();
    let mut session = Session::new(Clocks::of(Vec::new()), Vec::new(), "this boot".into());
    let clocks = [ClockName::Realtime];
    let how = Resuming { clocks: &clocks, only_computes: true, by_stopwatch: false };
    session.resume(&path, &how).unwrap();
    session.run(Duration::ZERO, &mut Live::new()).unwrap();
    session.finish_records().unwrap();
    let report = session.report(Budget::default()).unwrap();
    // Of the clocks that are asked for.
    let clocks: Vec<&str> = report.pairs.iter().map(|pair| pair.clock.as_str()).collect();
    assert_eq!(clocks, ["realtime"]);
    let [note] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert!(note.ends_with("its last line is not whole; 9 bytes left out"), "{note}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_reference_of_the_record_that_is_not_asked_again_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path());
    let raw = Reference::clock("raw", Duration::from_secs(1), Box::new(|| None));
    let mut session = Session::new(Clocks::of(Vec::new()), vec![raw], "this boot".into());
    session.resume(&path, &Resuming::default()).unwrap();
    let said = "ntp 192.0.2.1 is in the record, and was not compared with in this run: `--ntp \
                192.0.2.1` goes on with it.";
    assert_eq!(session.notes.last().unwrap(), said);
}

#[test]
fn a_hosts_clock_gives_utc_by_its_drivers_name_and_a_card_of_the_same_name_does_not() {
    for is_hosts in [true, false] {
        let time = Time::default();
        let mut session = session(&time, |now| SINCE_1970 + now, |now| Some(SINCE_1970 + now));
        let looks = time.clone();
        let read = Box::new(move || Some(SINCE_1970 + looks.look()));
        let mut reference = Reference::clock("phc /dev/ptp0", Duration::from_secs(1), read);
        reference.gives_utc |= is_hosts;
        session.references = vec![reference];
        let budget = Budget { max_offset_ns: Some(1e6), ..Budget::default() };
        assert_eq!(session.may_hold(budget).is_ok(), is_hosts);
        minute(&mut session, &time);
        let report = session.report(Budget::default()).unwrap();
        let realtime = report.pairs.iter().find(|pair| pair.clock == "realtime").unwrap();
        assert_eq!(realtime.offset_is_error, is_hosts);
    }
}
