//! One row: boots its machine, runs the commands there, and holds what they
//! said against the row's truth.

mod disturbed;
mod judge;
mod rates;
mod reads;
mod room;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::{self, Workshop};
use crate::capture;
use crate::checks::Outputs;
use crate::deeds::{self, Done, Place};
use crate::machine::{Machine, Start};
use crate::outcome::{Failure, Unavailable};
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

/// One row and what became of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Visit {
    /// The row's name.
    pub(crate) row: String,
    /// When it ran, in UTC.
    pub(crate) at: String,
    /// The state of this repository.
    pub(crate) commit: String,
    /// The kernel that it booted, as that says.
    pub(crate) kernel: String,
    pub(crate) took_s: f64,
    pub(crate) end: End,
    /// Of a row that was run again as it failed: that time.
    #[serde(default)]
    pub(crate) before: Option<Box<Visit>>,
}

impl Visit {
    /// This one, and those before it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |visit| visit.before.as_deref())
    }

    /// Whether something was wrong; a skip is not.
    pub(crate) fn failed(&self) -> bool {
        match &self.end {
            End::Ran(ran) => {
                ran.stopped.is_some() || ran.done.checks.iter().any(|check| !check.passed)
            }
            End::Skipped(_) => false,
            End::Broken(_) => true,
        }
    }

    /// A row that ran, for tests of what is told of it.
    #[cfg(test)]
    pub(crate) fn ran(row: &str, done: Done) -> Self {
        let (at, commit, kernel) = Default::default();
        let end = End::Ran(Ran { done, ..Ran::default() });
        Self { row: row.into(), at, commit, kernel, took_s: 1.0, end, before: None }
    }
}

/// The file of a row's folder that keeps its latest result.
pub(crate) const RESULT: &str = "result.json";

/// Runs a row; its files go to a folder of its name.
pub(crate) fn visit(workshop: &Workshop, row: &Row, folder: &Path) -> Visit {
    visit_with(row, folder, |folder| run(workshop, row, folder))
}

/// Runs a row that failed once more: the first result stays beside the next.
pub(crate) fn again(workshop: &Workshop, row: &Row, folder: &Path, first: Visit) -> Visit {
    let mut visit = visit(workshop, row, folder);
    visit.before = Some(Box::new(first));
    keep(&visit, &folder.join(&row.name));
    visit
}

/// Runs what takes long in a row's machine.
pub(crate) fn long(workshop: &Workshop, row: &Row, folder: &Path) -> Visit {
    visit_with(row, folder, |folder| run_long(workshop, row, folder))
}

fn visit_with(row: &Row, folder: &Path, run: impl Fn(&Path) -> Result<Ran, Failure>) -> Visit {
    let (at, start) = (tools::now_utc(), Instant::now());
    let folder = folder.join(&row.name);
    let attempt = || {
        // Of an earlier run; it may not be there.
        let _ = fs::remove_dir_all(&folder);
        room::wanted(&folder).and_then(|()| made(&folder)).and_then(|()| run(&folder))
    };
    let mut result = attempt();
    for _ in 1..disturbed::ATTEMPTS {
        let Err(Failure::Disturbed(Unavailable { why, .. })) = &result else { break };
        println!("machines: AGAIN: {}: {why}", row.name);
        result = attempt();
    }
    let end = match result {
        Ok(ran) => match ran.stopped.as_deref().and_then(|why| room::used_up(&folder, why)) {
            Some(unavailable) => End::Skipped(unavailable),
            None => End::Ran(ran),
        },
        Err(Failure::Unavailable(one) | Failure::Disturbed(one)) => End::Skipped(one),
        Err(Failure::Failed(why)) => match room::used_up(&folder, &why) {
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
    let visit = Visit { row, at, commit, kernel, took_s, end, before: None };
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
        Err(Failure::Unavailable(one) | Failure::Disturbed(one)) => ran.done.skipped.push(one),
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
    let place = Place { workshop, row, folder, start: &start };
    let mut ran = Ran::default();
    let Ok(truth) = row.truth() else {
        let done = deeds::alone(&place, &mut ran.done);
        return stopped(ran, done);
    };
    let mut machine = Machine::start(&start, folder)?;
    let mut commands = || -> Result<(), String> {
        machine.line.ready(workshop.boot)?;
        for (name, limit_s, line) in COMMANDS {
            ran.records.push(machine.line.run(name, *limit_s, line)?);
        }
        ran.done.checks = judge::all(truth, &ran.records);
        Ok(())
    };
    if let Err(why) = commands() {
        return stopped(ran, Err(machine.failure(&why).into()));
    }
    disturbed::refused(truth, &ran.done.checks, || machine.execute(disturbed::LOG))?;
    let mut all = || -> Result<(), String> {
        ran.done.checks.extend(rates::run(&place, &mut machine, Outputs(&ran.records))?);
        reads::run(&place, &mut machine, &mut ran.done)?;
        deeds::run(&place, &mut machine, &mut ran.done)
    };
    let failed = all().map_err(|why| machine.failure(&why).into());
    stopped(ran, failed)
}

fn run_long(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Ran, Failure> {
    let one_by_one = BUSY.lock();
    let with_intervals = deeds::intervals::wanted(&row.does);
    let limit_s = if with_intervals { LONG_WITH_INTERVALS_S } else { LONG_S };
    let start = Start { limit_s, ..base::prepare(workshop, row, folder)? };
    let place = Place { workshop, row, folder, start: &start };
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
    let failed = all().map_err(|why| machine.failure(&why).into());
    stopped(ran, failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Check;

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
        assert!(visit.failed(), "it did not come to its end");
        assert!(stopped(with(Vec::new()), failed()).is_err(), "nothing was checked");
        let lacking = Err(Unavailable::new("no KVM", "another").into());
        assert_eq!(stopped(with(wrong()), lacking).unwrap().done.skipped.len(), 1);
        assert_eq!(stopped(with(wrong()), Ok(())).unwrap().stopped, None);
    }

    #[test]
    fn a_result_of_before_is_read_and_one_of_two_runs_is_kept_whole() {
        let mut second = Visit::ran("a", Done::default());
        second.before = Some(Box::new(Visit::ran("a", Done::default())));
        let text = serde_json::to_string(&second).unwrap();
        assert_eq!(serde_json::from_str::<Visit>(&text).unwrap().all().count(), 2);
        let old = r#"{"row":"a","at":"","commit":"","kernel":"","took_s":1.0,"end":{"Ran":{"done":
            {"checks":[{"what":"x","found":"y","passed":true}],"skipped":[]}}}}"#;
        assert_eq!(serde_json::from_str::<Visit>(old).unwrap().all().count(), 1);
    }
}
