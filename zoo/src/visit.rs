//! One row: boots its machine, runs the commands there, and holds what they
//! said against the row's truth.

mod judge;
mod reads;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::base::{self, Workshop};
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
    (
        "capture",
        30,
        "parachron capture /tmp/capture >/tmp/captured && cd /tmp/capture && \
        find . -type f | while read -r f; do echo \"@file $f $(wc -c <\"$f\")\"; cat \"$f\"; done",
    ),
    ("doctor", 60, "parachron doctor --format json"),
    ("clocks", 60, "parachron clocks --format json"),
    ("bench", 90, "parachron bench --each-source --duration 200ms --format json"),
    ("bench-source", 10, "cat $CLOCKSOURCE"),
    ("watch", 30, "parachron watch --duration 3s --format json"),
];

/// How long a machine may take to accept its first command, on a busy system.
const BOOT: Duration = Duration::from_secs(150);

/// For how long a machine of a long run may take, by this system's clock, s.
const LONG_S: u32 = 2400;

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

/// A row whose commands all ran.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// The checks, and what was skipped.
    pub(crate) done: Done,
    /// What the commands printed.
    #[serde(skip)]
    pub(crate) records: Vec<Record>,
}

impl Ran {
    /// The row's findings, and those of a busy system that the doctor found as well;
    /// nothing if it found others.
    pub(crate) fn found<'a>(&self, truth: &'a Truth) -> Option<Vec<&'a str>> {
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
}

impl Visit {
    /// Whether something was wrong; a skip is not.
    pub(crate) fn failed(&self) -> bool {
        match &self.end {
            End::Ran(ran) => ran.done.checks.iter().any(|check| !check.passed),
            End::Skipped(_) => false,
            End::Broken(_) => true,
        }
    }
}

/// The file of a row's folder that keeps its latest result.
const RESULT: &str = "result.json";

/// Runs a row; its files go to a folder of its name.
pub(crate) fn visit(workshop: &Workshop, row: &Row, folder: &Path) -> Visit {
    visit_with(row, folder, |folder| run(workshop, row, folder))
}

/// Runs what takes long in a row's machine.
pub(crate) fn long(workshop: &Workshop, row: &Row, folder: &Path) -> Visit {
    visit_with(row, folder, |folder| run_long(workshop, row, folder))
}

fn visit_with(row: &Row, folder: &Path, run: impl FnOnce(&Path) -> Result<Ran, Failure>) -> Visit {
    let (at, start) = (tools::now_utc(), Instant::now());
    let folder = folder.join(&row.name);
    // Of an earlier run; it may not be there.
    let _ = fs::remove_dir_all(&folder);
    let made = fs::create_dir_all(&folder)
        .map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())));
    let end = match made.and_then(|()| run(&folder)) {
        Ok(ran) => End::Ran(ran),
        Err(Failure::Unavailable(unavailable)) => End::Skipped(unavailable),
        Err(Failure::Failed(why)) => End::Broken(why),
    };
    let kernel = match &end {
        End::Ran(ran) => Outputs(&ran.records).stdout("boot").unwrap_or("none of Linux").to_owned(),
        End::Skipped(_) | End::Broken(_) => "none".to_owned(),
    };
    let (row, commit) = (row.name.clone(), tools::commit());
    let visit = Visit { row, at, commit, kernel, took_s: start.elapsed().as_secs_f64(), end };
    // Without it, `--record` does not know the row.
    let _ = serde_json::to_vec_pretty(&visit).map(|text| fs::write(folder.join(RESULT), text));
    visit
}

/// The latest result of a row, if it has run in this target folder.
pub(crate) fn latest(row: &Row, folder: &Path) -> Option<Visit> {
    let text = fs::read(folder.join(&row.name).join(RESULT)).ok()?;
    serde_json::from_slice(&text).ok()
}

fn run(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Ran, Failure> {
    let start = base::prepare(workshop, row, folder)?;
    let place = Place { workshop, row, folder, start: &start };
    let mut ran = Ran::default();
    let Ok(truth) = row.truth() else {
        deeds::alone(&place, &mut ran.done)?;
        return Ok(ran);
    };
    let mut machine = Machine::start(&start, folder)?;
    let mut all = || -> Result<(), String> {
        machine.line.ready(BOOT)?;
        for (name, limit_s, line) in COMMANDS {
            ran.records.push(machine.line.run(name, *limit_s, line)?);
        }
        ran.done.checks = judge::all(truth, &ran.records);
        reads::run(&place, &mut machine, &mut ran.done)?;
        deeds::run(&place, &mut machine, &mut ran.done)
    };
    all().map_err(|why| machine.failure(&why))?;
    Ok(ran)
}

fn run_long(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Ran, Failure> {
    let one_by_one = BUSY.lock();
    let start = Start { limit_s: LONG_S, ..base::prepare(workshop, row, folder)? };
    let place = Place { workshop, row, folder, start: &start };
    let mut ran = Ran::default();
    let mut machine = Machine::start(&start, folder)?;
    let all = || -> Result<(), String> {
        machine.line.ready(BOOT)?;
        let (name, limit_s, line) = COMMANDS[0];
        ran.records.push(machine.line.run(name, limit_s, line)?);
        drop(one_by_one);
        deeds::calm(&place, &mut machine, &mut ran.done)?;
        let _one_by_one = BUSY.lock();
        deeds::intervals(&place, &mut machine, &mut ran.done)
    };
    all().map_err(|why| machine.failure(&why))?;
    Ok(ran)
}
