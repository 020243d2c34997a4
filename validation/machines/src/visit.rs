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
use crate::machine::{Machine, QEMU};
use crate::outcome::Failure;
use crate::records::Record;
use crate::table::{Row, Truth};
use crate::tools;
use crate::trees;

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

/// One row and what became of it.
#[derive(Debug, Default, Serialize, Deserialize)]
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
    /// The checks, and what was skipped.
    pub(crate) done: Done,
    /// Why it did not come to its end: it hung, panicked, or could not be started. What had been
    /// checked until then stays.
    pub(crate) stopped: Option<String>,
    /// What the commands printed.
    #[serde(skip)]
    pub(crate) records: Vec<Record>,
}

impl Visit {
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

    pub(crate) fn passed(&self) -> usize {
        self.done.checks.iter().filter(|check| check.passed).count()
    }

    /// What was wrong: the conditions, and why it did not come to its end.
    pub(crate) fn wrong(&self) -> Vec<&str> {
        let checks = self.done.checks.iter().filter(|check| !check.passed);
        let stopped = self.stopped.iter().map(|why| why.lines().next().unwrap_or_default());
        checks.map(|check| check.what.as_str()).chain(stopped).collect()
    }

    pub(crate) fn failed(&self) -> usize {
        self.wrong().len()
    }

    pub(crate) fn skipped(&self) -> usize {
        self.done.skipped.len()
    }

    fn end(&mut self, worked: Result<(), Failure>) {
        match worked {
            Err(Failure::Failed(why)) => self.stopped = Some(why),
            Err(Failure::Unavailable(one)) => self.done.skipped.push(one),
            Ok(()) => {}
        }
    }
}

/// The file of a row's folder that keeps its latest result.
const RESULT: &str = "result.json";

/// Whether the latest result below a folder is one of this commit, without a fault.
pub(crate) fn has_passed(results: &Path, row: &str) -> bool {
    let text = fs::read(results.join(row).join(RESULT)).unwrap_or_default();
    serde_json::from_slice::<Visit>(&text).is_ok_and(|visit| {
        visit.commit == tools::commit() && visit.passed() > 0 && visit.failed() == 0
    })
}

/// Runs a row; its files go to a folder of its name.
pub(crate) fn visit(workshop: &Workshop, row: &Row, results: &Path) -> Visit {
    visit_with(row, results, |folder, visit| run(workshop, row, folder, visit))
}

fn visit_with(
    row: &Row,
    results: &Path,
    run: impl Fn(&Path, &mut Visit) -> Result<(), Failure>,
) -> Visit {
    let (lock, folder) = (results.join(format!("{}.lock", row.name)), results.join(&row.name));
    // Another run may have this row's machine. On a disk that is full none can begin.
    let _ = fs::create_dir_all(results);
    let _alone = trees::locked(&lock);
    let emulator = stamp::first_line(Command::new(QEMU).arg("--version"));
    let mut visit = Visit {
        row: row.name.clone(),
        at: stamp::now_utc(),
        commit: tools::commit(),
        host: [stamp::machine(), emulator],
        ..Visit::default()
    };
    let start = Instant::now();
    // Of an earlier run; it may not be there.
    let _ = fs::remove_dir_all(&folder);
    let made = fs::create_dir_all(&folder)
        .map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())));
    let worked = made.and_then(|()| run(&folder, &mut visit));
    visit.end(worked);
    visit.took_s = start.elapsed().as_secs_f64();
    visit.kernel = Outputs(&visit.records).stdout("boot").unwrap_or("none of Linux").to_owned();
    // Without it, `--resume` runs the row again.
    let _ = serde_json::to_vec_pretty(&visit).map(|text| fs::write(folder.join(RESULT), text));
    visit
}

fn run(workshop: &Workshop, row: &Row, folder: &Path, visit: &mut Visit) -> Result<(), Failure> {
    let start = base::prepare(workshop, row, folder)?;
    let place = Place { workshop, row, folder, start: &start };
    match row.truth() {
        Ok(truth) => run_commands(&place, truth, visit),
        Err(_) => deeds::alone(&place, &mut visit.done),
    }
}

/// The commands that every machine runs, and the row's deeds after them.
fn run_commands(place: &Place<'_>, truth: &Truth, visit: &mut Visit) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    let mut all = || -> Result<(), String> {
        machine.line.ready(place.workshop.boot)?;
        for (name, limit_s, line) in COMMANDS {
            visit.records.push(machine.line.run(name, *limit_s, line)?);
        }
        visit.done.checks = judge::all(truth, &visit.records, place.workshop.quick);
        deeds::run(place, &mut machine, &mut visit.done)
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
    use crate::outcome::Unavailable;
    use crate::table::Table;

    #[test]
    fn a_deed_that_fails_costs_no_check_of_those_before_it() {
        let checks = vec![Check::new("watch: x", "y", true)];
        let done = Done { checks, skipped: Vec::new() };
        let mut visit = Visit { done, ..Visit::default() };
        visit.end(Ok(()));
        assert_eq!((visit.passed(), visit.failed()), (1, 0));
        visit.end(Err(Unavailable::new("no KVM", "another").into()));
        assert_eq!((visit.passed(), visit.failed(), visit.skipped()), (1, 0, 1));
        visit.end(Err("QMP: no STOP within 10 s\nits console".to_owned().into()));
        assert_eq!(visit.wrong(), ["QMP: no STOP within 10 s"], "it did not come to its end");
        assert_eq!(visit.passed(), 1);
    }

    #[test]
    fn only_a_row_that_passed_at_this_commit_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let row = Table::read().unwrap().rows.remove(0);
        let with = |passed| {
            visit_with(&row, folder.path(), move |_, visit| {
                visit.done.checks.push(Check::new("boot: a", "", passed));
                Ok(())
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
        let run = |folder: &Path, _: &mut Visit| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            fs::write(folder.join("mine"), "").unwrap();
            thread::sleep(Duration::from_millis(50));
            assert!(folder.join("mine").exists(), "the other took its folder");
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
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
