//! One row: boots its machine, runs the commands there, and holds what they
//! printed against the row's truth.

mod judge;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::base::{self, Workshop};
use crate::capture;
use crate::checks::Outputs;
use crate::deeds::{self, Done, Place};
use crate::machine::Machine;
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
    ("clocks", 60, "parachron bench --list --format json"),
    ("bench", 90, "parachron bench --each-source --duration 200ms --format json"),
    ("bench-source", 10, "cat $CLOCKSOURCE"),
    ("watch", 30, "parachron watch --duration 3s --format json"),
];

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
    /// The row's findings, and those that it may have and the doctor found as well;
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
    /// The processor and kernel of the system below it, and its emulator by its own words.
    pub(crate) host: [String; 2],
    /// The kernel that it booted, as that says.
    pub(crate) kernel: String,
    pub(crate) took_s: f64,
    pub(crate) end: End,
}

impl Visit {
    pub(crate) fn passed(&self) -> usize {
        match &self.end {
            End::Ran(ran) => ran.done.checks.iter().filter(|check| check.passed).count(),
            End::Skipped(_) | End::Broken(_) => 0,
        }
    }

    /// What was wrong: the conditions, and why it did not come to its end.
    pub(crate) fn wrong(&self) -> Vec<&str> {
        let first = |why: &'_ str| why.lines().next().unwrap_or_default().len();
        match &self.end {
            End::Ran(Ran { done, stopped, .. }) => {
                let checks = done.checks.iter().filter(|check| !check.passed);
                let stopped = stopped.iter().map(|why| &why[..first(why)]);
                checks.map(|check| check.what.as_str()).chain(stopped).collect()
            }
            End::Skipped(_) => Vec::new(),
            End::Broken(why) => vec![&why[..first(why)]],
        }
    }

    pub(crate) fn failed(&self) -> usize {
        self.wrong().len()
    }

    pub(crate) fn skipped(&self) -> usize {
        match &self.end {
            End::Ran(ran) => ran.done.skipped.len(),
            End::Skipped(_) => 1,
            End::Broken(_) => 0,
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
const RESULT: &str = "result.json";

/// Whether the latest result below a folder is one of this commit, without a fault.
pub(crate) fn has_passed(results: &Path, row: &str) -> bool {
    let text = fs::read(results.join(row).join(RESULT)).unwrap_or_default();
    serde_json::from_slice::<Visit>(&text).is_ok_and(|visit| {
        visit.commit == tools::commit() && matches!(&visit.end, End::Ran(_)) && visit.failed() == 0
    })
}

/// Runs a row; its files go to a folder of its name.
pub(crate) fn visit(workshop: &Workshop, row: &Row, results: &Path) -> Visit {
    visit_with(row, results, |folder| run(workshop, row, folder))
}

fn visit_with(row: &Row, results: &Path, run: impl Fn(&Path) -> Result<Ran, Failure>) -> Visit {
    let (lock, folder) = (results.join(format!("{}.lock", row.name)), results.join(&row.name));
    // Another run may have this row's machine. On a disk that is full none can begin.
    let _ = fs::create_dir_all(results);
    let _alone = packages::locked(&lock);
    let (at, start) = (stamp::now_utc(), Instant::now());
    // Of an earlier run; it may not be there.
    let _ = fs::remove_dir_all(&folder);
    let made = fs::create_dir_all(&folder)
        .map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())));
    let end = match made.and_then(|()| run(&folder)) {
        Ok(ran) => End::Ran(ran),
        Err(Failure::Unavailable(one)) => End::Skipped(one),
        Err(Failure::Failed(why)) => End::Broken(why),
    };
    let kernel = match &end {
        End::Ran(ran) => Outputs(&ran.records).stdout("boot").unwrap_or("none of Linux").to_owned(),
        End::Skipped(_) | End::Broken(_) => "none".to_owned(),
    };
    let emulator = stamp::first_line(Command::new(qemu::PROGRAM).arg("--version"));
    let visit = Visit {
        row: row.name.clone(),
        at,
        commit: tools::commit(),
        host: [stamp::machine(), emulator],
        kernel,
        took_s: start.elapsed().as_secs_f64(),
        end,
    };
    // Without it, `--resume` runs the row again.
    let _ = serde_json::to_vec_pretty(&visit).map(|text| fs::write(folder.join(RESULT), text));
    visit
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

fn run(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Ran, Failure> {
    let start = base::prepare(workshop, row, folder)?;
    let place = Place { workshop, row, folder, start: &start };
    let mut ran = Ran::default();
    let worked = match row.truth() {
        Ok(truth) => run_commands(&place, truth, &mut ran),
        Err(_) => deeds::alone(&place, &mut ran.done),
    };
    stopped(ran, worked)
}

/// The commands that every machine runs, and the row's deeds after them.
fn run_commands(place: &Place<'_>, truth: &Truth, ran: &mut Ran) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    let mut all = || -> Result<(), String> {
        machine.line.ready(place.workshop.boot)?;
        for (name, limit_s, line) in COMMANDS {
            ran.records.push(machine.line.run(name, *limit_s, line)?);
        }
        ran.done.checks = judge::all(truth, &ran.records, place.workshop.quick);
        deeds::run(place, &mut machine, &mut ran.done)
    };
    Ok(all().map_err(|why| machine.failure(&why))?)
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
        let failed = || Err(Failure::Failed("QMP: no STOP within 10 s\nits console".to_owned()));
        let ran = stopped(with(wrong()), failed()).unwrap();
        assert_eq!(ran.done.checks, wrong());
        let right = stopped(with(vec![Check::new("watch: x", "y", true)]), failed()).unwrap();
        let visit = Visit { end: End::Ran(right), ..Visit::ran("a", Done::default()) };
        assert_eq!(visit.wrong(), ["QMP: no STOP within 10 s"], "it did not come to its end");
        assert_eq!(visit.passed(), 1);
        assert!(stopped(with(Vec::new()), failed()).is_err(), "nothing was checked");
        let lacking = Err(Unavailable::new("no KVM", "another").into());
        assert_eq!(stopped(with(wrong()), lacking).unwrap().done.skipped.len(), 1);
        assert_eq!(stopped(with(wrong()), Ok(())).unwrap().stopped, None);
    }

    #[test]
    fn only_a_row_that_passed_at_this_commit_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let row = Table::read().unwrap().rows.remove(0);
        let with = |passed| {
            visit_with(&row, folder.path(), move |_| {
                let mut ran = Ran::default();
                ran.done.checks.push(Check::new("boot: a", "", passed));
                Ok(ran)
            })
        };
        assert!(!has_passed(folder.path(), &row.name), "it has not run");
        with(false);
        assert!(!has_passed(folder.path(), &row.name));
        with(true);
        assert!(has_passed(folder.path(), &row.name));
        let file = folder.path().join(&row.name).join(RESULT);
        let other = fs::read_to_string(&file).unwrap().replace(&tools::commit(), "another");
        fs::write(&file, other).unwrap();
        assert!(!has_passed(folder.path(), &row.name), "of another commit");
    }

    #[test]
    fn two_runs_of_a_row_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let row = &Table::read().unwrap().rows[0];
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
                scope.spawn(|| visit_with(row, folder.path(), run));
            }
        });
        assert_eq!(most.into_inner(), 1);
        assert!(folder.path().join(&row.name).join(RESULT).exists());
    }
}
