//! One row: boots its machine, runs the commands there, and holds what they
//! printed against the row's truth.

mod busy;
mod judge;
mod rates;
mod reads;
mod room;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::{self, Workshop};
use crate::capture;
use crate::checks::{Outputs, Verdict};
use crate::deeds::{self, Done, Place};
use crate::load::Meter;
use crate::machine::{Machine, Start};
use crate::outcome::{Failure, Unavailable};
use crate::packages;
use crate::qemu;
use crate::records::Record;
use crate::table::{Row, Truth};
use crate::tools;

/// What every machine runs, in order: name, limit in the guest's seconds, line.
const COMMANDS: &[(&str, u32, &str)] = &[
    ("boot", 10, "uname -rv"),
    // Before bench switches sources, which the kernel logs.
    ("capture", 30, capture::LINE),
    ("doctor", 60, "parachron doctor --format json"),
    ("clocks", 60, "parachron clocks --format json"),
    ("bench", 90, "parachron bench --each-source --duration 200ms --format json"),
    ("bench-source", 10, "cat $CLOCKSOURCE"),
    ("watch", 30, "parachron watch --duration 3s --format json"),
];

/// For how long a machine of a long run may take, by this system's clock, s: and one that
/// measures intervals, for half an hour each, after up to four others.
const LONG_S: u32 = 2400;
const LONG_WITH_INTERVALS_S: u32 = 12_000;

/// Of a long run's machines one at a time is made ready, boots or measures: a
/// calm one beside two that are busy stands for hundreds of milliseconds.
static BUSY: Mutex<()> = Mutex::new(());

/// How a row ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum End {
    /// All was run; the checks say what was right.
    Ran(Ran),
    /// This system lacks something.
    Skipped(Unavailable),
    /// It did not get through: it hung, panicked, or could not be started.
    Broken(String),
}

/// A row whose machine ran, and what was checked in it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// The checks, and what was skipped.
    pub(crate) done: Done,
    /// Why it did not come to its end; what had been checked until then stays.
    #[serde(default)]
    pub(crate) stopped: Option<String>,
    /// What the commands printed.
    #[serde(skip)]
    pub(crate) records: Vec<Record>,
}

impl Ran {
    /// The row's findings, and those of a busy system that the doctor found as well;
    /// nothing if it found others, or stopped.
    pub(crate) fn found<'a>(&self, truth: &'a Truth) -> Option<Vec<&'a str>> {
        if self.stopped.is_some() {
            return None;
        }
        let check = self.done.checks.iter().find(|one| one.what.starts_with("doctor: finds"))?;
        let also = truth.may_find.iter().filter(|line| {
            line.split_once(": ").is_some_and(|(finding, _)| check.found.contains(finding))
        });
        check.passed.then(|| truth.findings.iter().chain(also).map(String::as_str).collect())
    }
}

/// The system below the machine. Results of 2026-11-23 and before do not have it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Host {
    /// Its processor and kernel.
    pub(crate) machine: String,
    /// The emulator, by its own words.
    pub(crate) emulator: String,
}

impl Host {
    fn here() -> Self {
        let version = stamp::first_line(Command::new(qemu::PROGRAM).arg("--version"));
        Self { machine: stamp::machine(), emulator: version }
    }
}

/// One row and what became of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Visit {
    /// The row's name.
    pub(crate) row: String,
    /// When it ran, in UTC.
    pub(crate) at: String,
    /// The state of this repository.
    pub(crate) commit: String,
    #[serde(default)]
    pub(crate) host: Host,
    /// The kernel that it booted, as that says.
    pub(crate) kernel: String,
    pub(crate) took_s: f64,
    pub(crate) end: End,
}

impl Visit {
    /// How many checks had a verdict. A row that did not come to its end failed one more.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        let is_failure = usize::from(verdict == Verdict::Failed);
        match &self.end {
            End::Ran(Ran { done, stopped, .. }) => {
                let checks = done.checks.iter().filter(|check| check.verdict() == verdict);
                checks.count() + usize::from(stopped.is_some()) * is_failure
            }
            End::Skipped(_) => 0,
            End::Broken(_) => is_failure,
        }
    }

    /// A row that ran, for tests of what is told of it.
    #[cfg(test)]
    pub(crate) fn ran(row: &str, done: Done) -> Self {
        let (at, commit, kernel, host) = Default::default();
        let end = End::Ran(Ran { done, ..Ran::default() });
        Self { row: row.into(), at, commit, host, kernel, took_s: 1.0, end }
    }
}

/// The file of a row's folder that keeps its latest result.
pub(crate) const RESULT: &str = "result.json";

/// Runs a row; its files go to a folder of its name.
pub(crate) fn visit(workshop: &Workshop, row: &Row, folder: &Path) -> Visit {
    visit_with((row, &workshop.cache), folder, |folder| run(workshop, row, folder))
}

/// Runs what takes long in a row's machine.
pub(crate) fn long(workshop: &Workshop, row: &Row, folder: &Path) -> Visit {
    visit_with((row, &workshop.cache), folder, |folder| run_long(workshop, row, folder))
}

fn visit_with(
    (row, cache): (&Row, &PathBuf),
    folder: &Path,
    run: impl Fn(&Path) -> Result<Ran, Failure>,
) -> Visit {
    let (lock, folder) = (folder.join(format!("{}.lock", row.name)), folder.join(&row.name));
    // Another run may have this row's machine. On a disk that is full none can begin.
    let _ = folder.parent().map(fs::create_dir_all);
    let _alone = packages::locked(&lock);
    let (at, start) = (stamp::now_utc(), Instant::now());
    // Of an earlier run; it may not be there.
    let _ = fs::remove_dir_all(&folder);
    let result = room::wanted(&folder).and_then(|()| made(&folder)).and_then(|()| run(&folder));
    let used_up = |why: &str| [&folder, cache].into_iter().find_map(|one| room::used_up(one, why));
    let end = match result {
        Ok(ran) => match ran.stopped.as_deref().and_then(used_up) {
            Some(unavailable) => End::Skipped(unavailable),
            None => End::Ran(ran),
        },
        Err(Failure::Unavailable(one)) => End::Skipped(one),
        Err(Failure::Failed(why)) => match used_up(&why) {
            Some(unavailable) => End::Skipped(unavailable),
            None => End::Broken(why),
        },
    };
    let kernel = match &end {
        End::Ran(ran) => Outputs(&ran.records).stdout("boot").unwrap_or("none of Linux").to_owned(),
        End::Skipped(_) | End::Broken(_) => "none".to_owned(),
    };
    let (row, commit) = (row.name.clone(), tools::commit());
    let took_s = start.elapsed().as_secs_f64();
    let visit = Visit { row, at, commit, host: Host::here(), kernel, took_s, end };
    keep(&visit, &folder);
    visit
}

/// Without it, `--record` does not know the row.
fn keep(visit: &Visit, folder: &Path) {
    let _ = serde_json::to_vec_pretty(visit).map(|text| fs::write(folder.join(RESULT), text));
}

/// What had been checked when something failed is not lost with it.
fn stopped(mut ran: Ran, failed: Result<(), Failure>) -> Result<Ran, Failure> {
    match failed {
        Err(failure) if ran.done.checks.is_empty() => return Err(failure),
        Err(Failure::Failed(why)) => ran.stopped = Some(why),
        Err(Failure::Unavailable(one)) => ran.done.skipped.push(one),
        Ok(()) => {}
    }
    Ok(ran)
}

fn made(folder: &Path) -> Result<(), Failure> {
    let cannot = |error| Failure::Failed(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(cannot)
}

fn run(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Ran, Failure> {
    let start = base::prepare(workshop, row, folder)?;
    let (meter, begun) = (Meter::start(), Instant::now());
    let place = Place { workshop, row, folder, start: &start, meter: &meter, begun };
    let mut ran = Ran::default();
    let worked = match row.truth() {
        Ok(truth) => run_commands(&place, truth, &mut ran),
        Err(_) => deeds::alone(&place, &mut ran.done),
    };
    let worked = busy::excuse(&place, &mut ran.done.checks, worked);
    stopped(ran, worked)
}

/// The commands that every machine runs, and the row's deeds after them.
fn run_commands(place: &Place<'_>, truth: &Truth, ran: &mut Ran) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    let mut commands = || -> Result<(), String> {
        machine.line.ready(place.workshop.boot)?;
        for (name, limit_s, line) in COMMANDS {
            ran.records.push(machine.line.run(name, *limit_s, line)?);
        }
        Ok(())
    };
    commands().map_err(|why| machine.failure(&why))?;
    ran.done.checks = judge::all(truth, &ran.records);
    let load = place.meter.since(place.begun);
    ran.done.settle(0, &load);
    if busy::lost_its_tsc(truth, &mut ran.done.checks, &load, || machine.execute(busy::LOG)) {
        return Ok(());
    }
    let mut all = || -> Result<(), String> {
        let (begun, from) = (Instant::now(), ran.done.checks.len());
        ran.done.checks.extend(rates::run(place, &mut machine, Outputs(&ran.records))?);
        reads::run(place, &mut machine, &mut ran.done)?;
        ran.done.settle(from, &place.meter.since(begun));
        deeds::run(place, &mut machine, &mut ran.done)
    };
    Ok(all().map_err(|why| machine.failure(&why))?)
}

fn run_long(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Ran, Failure> {
    let one_by_one = BUSY.lock();
    let with_intervals = deeds::intervals::wanted(&row.does);
    let limit_s = if with_intervals { LONG_WITH_INTERVALS_S } else { LONG_S };
    let start = Start { limit_s, ..base::prepare(workshop, row, folder)? };
    let (meter, begun) = (Meter::start(), Instant::now());
    let place = Place { workshop, row, folder, start: &start, meter: &meter, begun };
    let mut ran = Ran::default();
    let mut machine = Machine::start(&start, folder)?;
    let all = || -> Result<(), String> {
        machine.line.ready(workshop.boot)?;
        let (name, limit_s, line) = COMMANDS[0];
        ran.records.push(machine.line.run(name, limit_s, line)?);
        drop(one_by_one);
        deeds::calm(&place, &mut machine, &mut ran.done)?;
        // The others need not wait, and take a part of a CPU while they do.
        if with_intervals {
            let _one_by_one = BUSY.lock();
            deeds::intervals::run(&place, &mut machine, &mut ran.done.checks)?;
        }
        Ok(())
    };
    let worked = all().map_err(|why| machine.failure(&why).into());
    drop(machine);
    let worked = busy::excuse(&place, &mut ran.done.checks, worked);
    stopped(ran, worked)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::checks::Check;
    use crate::table::Table;

    #[test]
    fn a_deed_that_fails_costs_no_check_of_those_before_it() {
        let with = |checks: Vec<Check>| Ran {
            done: Done { checks, skipped: Vec::new() },
            ..Ran::default()
        };
        let wrong = || vec![Check::new("watch: x", "y", false)];
        let failed = || Err(Failure::Failed("QMP: no STOP within 10 s".to_owned()));
        let ran = stopped(with(wrong()), failed()).unwrap();
        assert_eq!(ran.done.checks, wrong());
        assert_eq!(ran.stopped.as_deref(), Some("QMP: no STOP within 10 s"));
        let right = stopped(with(vec![Check::new("watch: x", "y", true)]), failed()).unwrap();
        let visit = Visit { end: End::Ran(right), ..Visit::ran("a", Done::default()) };
        assert_eq!(visit.count(Verdict::Failed), 1, "it did not come to its end");
        assert_eq!(visit.count(Verdict::Passed), 1);
        assert!(stopped(with(Vec::new()), failed()).is_err(), "nothing was checked");
        let lacking = Err(Unavailable::new("no KVM", "another").into());
        assert_eq!(stopped(with(wrong()), lacking).unwrap().done.skipped.len(), 1);
        assert_eq!(stopped(with(wrong()), Ok(())).unwrap().stopped, None);
    }

    #[test]
    fn two_runs_of_a_row_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let (row, cache) = (&Table::read().unwrap().rows[0], folder.path().join("cache"));
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let run = |folder: &Path| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            fs::write(folder.join("mine"), "").unwrap();
            thread::sleep(Duration::from_millis(50));
            assert!(folder.join("mine").exists(), "the other took its folder");
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Ran::default())
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| visit_with((row, &cache), folder.path(), run));
            }
        });
        assert_eq!(most.into_inner(), 1);
        assert!(folder.path().join(&row.name).join(RESULT).exists());
    }

    #[test]
    fn a_result_of_an_earlier_version_is_read() {
        let old = r#"{"row":"a","at":"","commit":"","kernel":"","took_s":1.0,"end":{"Ran":{"done":
            {"checks":[{"what":"x","found":"y","passed":true}],"skipped":[]}}},"before":null}"#;
        let visit = serde_json::from_str::<Visit>(old).unwrap();
        assert_eq!((visit.count(Verdict::Passed), visit.count(Verdict::Failed)), (1, 0));
    }
}
