use std::cell::Cell;
use std::rc::Rc;

use inspect::comparison::{ClockName, PairReport, Reader};
use instruments::drift::Span;

use super::super::resumed::Resuming;
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
    DriftRun::new(clocks, vec![reference], "this boot".into())
}

/// Compares once a second for a minute.
fn minute(run: &mut DriftRun, time: &Time) {
    for _ in 0..60 {
        time.0.set(time.0.get() + S);
        let round = run.session.compare(0).unwrap();
        run.write(&round.reference, &round.compared).unwrap();
    }
    run.session.finish();
}

#[test]
fn a_clock_set_back_is_noted_and_its_comparisons_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv");
    let time = Time::default();
    let set_back = |now: u64| SINCE_1970 + now - if now > 30 * S { 3 * S } else { 0 };
    let mut run = run_of(&time, set_back, |now| Some(SINCE_1970 + now));
    run.record(&path, u64::MAX).unwrap();
    minute(&mut run, &time);
    run.finish_records().unwrap();
    let report = run.report(Budget::default()).unwrap();
    assert_eq!(report.disturbed, ["realtime was set back by 3.00 s at 29.0 s."]);
    // The frequency is of the time around it.
    let ppm = |pair: &PairReport| pair.drift.frequency.unwrap().ppm;
    assert!(report.pairs.iter().all(|pair| ppm(pair).abs() < 0.01), "{report:?}");
    assert_eq!(report.pairs[1].drift.steps.len(), 1);
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(lines, 2 + 2 * 60);
}

/// The machine was restarted: the clock counts from another moment, the
/// frequency is the same.
#[test]
fn a_record_continues_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let fast = |now: u64| SINCE_1970 + now + now / 20_000;
    let first = Time::default();
    let mut one = run_of(&first, fast, |now| Some(SINCE_1970 + now));
    one.boot = "boot before".into();
    one.record(&path, u64::MAX).unwrap();
    minute(&mut one, &first);
    one.finish_records().unwrap();
    let second = Time(Rc::new(Cell::new(7000 * S)));
    let offset = |now: u64| SINCE_1970 + now + now / 20_000 - 8 * S;
    let mut two = run_of(&second, offset, |now| Some(SINCE_1970 + now));
    two.resume(&path, &Resuming::default()).unwrap();
    minute(&mut two, &second);
    let report = two.report(Budget::default()).unwrap();
    assert!(report.notes[0].starts_with("This machine was restarted"), "{:?}", report.notes);
    assert!(report.disturbed.is_empty(), "{:?}", report.disturbed);
    let realtime = &report.pairs[1].drift;
    assert_eq!((realtime.readings, realtime.steps.len()), (120, 0));
    assert!((realtime.frequency.unwrap().ppm - 50.0).abs() < 0.01, "{realtime:?}");
}

/// A record of `ntp 192.0.2.1`, with half a line at its end.
fn recorded(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("run.csv");
    let time = Time::default();
    let mut run = run_of(&time, |now| SINCE_1970 + now, |now| Some(SINCE_1970 + now));
    run.record(&path, u64::MAX).unwrap();
    minute(&mut run, &time);
    run.finish_records().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + "half a li").unwrap();
    path
}

#[test]
fn what_only_computes_leaves_the_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path());
    let before = std::fs::read(&path).unwrap();
    let mut run =
        DriftRun::new(ComparedClocks::from_readers(Vec::new()), Vec::new(), "this boot".into());
    let clocks = [ClockName::Realtime];
    let how = Resuming { clocks: &clocks, only_computes: true, by_stopwatch: false };
    run.resume(&path, &how).unwrap();
    run.measure(Duration::ZERO).unwrap();
    run.finish_records().unwrap();
    let report = run.report(Budget::default()).unwrap();
    // Of the clocks that are wanted.
    let clocks: Vec<&str> = report.pairs.iter().map(|pair| pair.clock.name()).collect();
    assert_eq!(clocks, ["realtime"]);
    let [note] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert!(note.ends_with("its last line is incomplete: 9 bytes left out"), "{note}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_reference_of_the_record_that_is_not_compared_with_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path());
    let raw = ComparisonReference::clock("raw", Duration::from_secs(1), Box::new(|| None));
    let mut run =
        DriftRun::new(ComparedClocks::from_readers(Vec::new()), vec![raw], "this boot".into());
    run.resume(&path, &Resuming::default()).unwrap();
    let expected = "ntp 192.0.2.1 is in the record, but this run did not compare with it: `--ntp \
                192.0.2.1` continues it.";
    assert_eq!(run.notes.last().unwrap(), expected);
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_folder_has_days_and_hosts_and_a_killed_run_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let measured = || {
        let time = Time::default();
        let mut run = run_of(&time, |now| SINCE_1970 + now, |now| Some(SINCE_1970 + now));
        run.record(folder.path(), u64::MAX).unwrap();
        minute(&mut run, &time);
        run
    };
    let lines = || -> usize {
        let texts = files(folder.path()).into_iter().map(std::fs::read_to_string);
        texts.map(|text| text.unwrap().lines().count()).sum()
    };
    // Killed: it does not end its record.
    drop(measured());
    assert_eq!(lines(), 2 * 60);
    let mut again = measured();
    assert_eq!(lines(), 2 * 2 * 60);
    again.finish_records().unwrap();
    let left = files(folder.path());
    assert!(!left.is_empty());
    for path in left {
        let below = path.strip_prefix(folder.path()).unwrap().to_str().unwrap();
        assert!(below.starts_with("date=20") && below.contains("/host="), "{below}");
        assert!(below.contains("/drift-") && below.ends_with(".parquet"), "{below}");
    }
}
