//! `cargo xtask machines`: stock kernels under hypervisors, a row of
//! `zoo/machines.toml` each, and what `parachron` says in them, held against
//! what is true of them. The machines are deleted afterwards, so their clocks
//! and clock sources may be changed.

mod args;
mod artifacts;
mod base;
mod boot;
mod capture;
mod checks;
mod deeds;
mod drivers;
mod guard;
mod initramfs;
mod line;
mod long;
mod machine;
mod modules;
mod outcome;
mod packages;
mod qemu;
mod qmp;
mod records;
mod report;
mod several;
mod systems;
mod table;
mod tools;
mod visit;
mod wire;

use std::cmp::Reverse;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::args::Args;
use crate::base::Workshop;
use crate::deeds::Done;
use crate::outcome::Unavailable;
use crate::table::{Row, Table};
use crate::visit::{End, Ran, Visit};

/// The pages that `--record` writes.
const PAGE: &str = "docs/validation/machines.md";
const KEEP_PAGE: &str = "docs/validation/keep.md";

/// Exit code of a skip under `--require`, and of a wrong command line.
const SKIPPED: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == guard::WORD) {
        return guard::run(&words[1..]);
    }
    if words.first().is_some_and(|word| word == guard::GUARDED) {
        return guard::become_guarded(&words[1..]);
    }
    run(&Args::parse()).unwrap_or_else(|why| {
        eprintln!("machines: {why}");
        ExitCode::from(SKIPPED)
    })
}

fn run(args: &Args) -> Result<ExitCode, String> {
    if let Some(folder) = &args.timekeeper {
        return deeds::write_timekeeper_page(folder).map(|()| ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.linux_on_provider {
        return deeds::write_provider_page(folder).map(|()| ExitCode::SUCCESS);
    }
    let table = Table::read()?;
    if let Some(unknown) =
        args.only.iter().find(|name| table.rows.iter().all(|row| row.name != **name))
    {
        return Err(format!("there is no row {unknown}; --list names all"));
    }
    let wanted = |row: &&Row| {
        (args.only.is_empty() || args.only.contains(&row.name)) && (!args.quick || row.quick)
    };
    let mut rows: Vec<Row> = table.rows.iter().filter(wanted).cloned().collect();
    if args.list {
        rows.iter().for_each(list);
        return Ok(ExitCode::SUCCESS);
    }
    // The longest first: else the last of them runs alone.
    rows.sort_by_key(|row| Reverse(row.limit_s));
    let programs = args.programs.clone().map_or_else(artifacts::programs, Ok)?;
    let programs_arm64 = args.programs_arm64.clone();
    let packages = args.packages.clone().unwrap_or_else(|| tools::target_folder().join("packages"));
    let workshop = Workshop { table, cache: args.cache(), programs, programs_arm64, packages };
    let folder = tools::target_folder().join("machines");
    let at_once = |jobs| args.jobs.map_or(jobs, NonZeroUsize::get);
    if args.long {
        let folder = folder.join("long");
        let rows: Vec<Row> = rows.into_iter().filter(Row::has_truth).collect();
        let visits = several::each(&rows, at_once(long::AT_ONCE), |row| {
            let visit = visit::long(&workshop, row, &folder);
            print(&visit, args.verbose);
            Ok(visit)
        })?;
        if args.record {
            long::record(&workshop.table, &folder)?;
        }
        return Ok(summary(&visits, args.require));
    }
    let visits = several::each(&rows, at_once(1), |row| {
        let mut visit = visit::visit(&workshop, row, &folder);
        print(&visit, args.verbose);
        if args.again && visit.failed() {
            println!("machines: AGAIN: {}: failed above, run a second time", row.name);
            visit = visit::visit(&workshop, row, &folder);
            print(&visit, args.verbose);
        }
        if args.capture {
            keep_capture(row, &visit)?;
        }
        Ok(visit)
    })?;
    if args.record {
        record(&workshop, &folder)?;
    }
    Ok(summary(&visits, args.require))
}

/// Writes the pages, of the latest visit of each row.
fn record(workshop: &Workshop, folder: &Path) -> Result<(), String> {
    let rows = &workshop.table.rows;
    let latest: Vec<Visit> = rows.iter().filter_map(|row| visit::latest(row, folder)).collect();
    let missing = rows.iter().filter(|row| latest.iter().all(|visit| visit.row != row.name));
    let missing: Vec<&str> = missing.map(|row| row.name.as_str()).collect();
    let setting = setting(&latest);
    let pages = [
        (PAGE, report::page(&setting, &latest, &missing)),
        (KEEP_PAGE, report::keep_page(&setting, &latest)),
    ];
    pages.into_iter().try_for_each(|(path, page)| write(path, page))
}

/// Writes a page of this repository.
pub(crate) fn write(path: &str, page: String) -> Result<(), String> {
    let path = tools::root().join(path);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(&path, page));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Keeps the capture of a row in testdata/machines, if it has the row's findings.
fn keep_capture(row: &Row, visit: &Visit) -> Result<(), String> {
    let (End::Ran(ran), Ok(truth)) = (&visit.end, row.truth()) else { return Ok(()) };
    let Some(findings) = ran.found(truth) else {
        println!("{:<24} its capture is not kept: other findings", row.name);
        return Ok(());
    };
    let Some(record) = ran.records.iter().find(|record| record.name == "capture") else {
        return Ok(());
    };
    let folder = tools::root().join("testdata/machines").join(&row.name);
    capture::write(&folder, &record.stdout, &findings)
}

/// Date, version and duration.
fn setting(visits: &[Visit]) -> Vec<(&'static str, String)> {
    let took_s: f64 = visits.iter().map(|visit| visit.took_s).sum();
    vec![
        ("date", tools::now_utc()),
        ("emulator", tools::first_line(Command::new(qemu::PROGRAM).arg("--version"))),
        ("rows", visits.len().to_string()),
        ("took", format!("{:.0} min, the sum of the rows", took_s / 60.0)),
    ]
}

/// A line of `--list`.
fn list(row: &Row) {
    let quick = if row.quick { "quick" } else { "" };
    println!("{:<24} {:<6} Linux {:<5} {}", row.name, quick, row.kernel, row.options);
}

/// What became of a row, at once.
pub(crate) fn print(visit: &Visit, verbose: bool) {
    let Visit { row: name, took_s, end, .. } = visit;
    match end {
        End::Ran(Ran { done: Done { checks, skipped }, records }) => {
            if verbose {
                for record in records {
                    println!("--- {}\n{}{}", record.name, record.stdout, record.stderr);
                }
            }
            skipped.iter().for_each(|one| skip(name, one));
            let passed = checks.iter().filter(|check| check.passed).count();
            println!("{name:<24} {passed} of {} checks passed {took_s:7.1} s", checks.len());
            for check in checks.iter().filter(|check| !check.passed || verbose) {
                let verdict = if check.passed { "passed" } else { "FAILED" };
                println!("    {verdict}  {}\n            {}", check.what, check.found);
            }
        }
        End::Skipped(one) => skip(name, one),
        End::Broken(why) => println!("{name:<24} FAILED {took_s:7.1} s\n{}", why.trim_end()),
    }
}

/// The line that `.ci/run` counts.
fn skip(name: &str, Unavailable { why, remedy }: &Unavailable) {
    println!("machines: SKIPPED: {name}: {why}; try: {remedy}");
}

/// A failed check fails the run; a skip does only where nothing may be skipped.
fn summary(visits: &[Visit], require: bool) -> ExitCode {
    let skipped = visits.iter().filter(|visit| matches!(visit.end, End::Skipped(_))).count();
    let failed = visits.iter().filter(|visit| visit.failed()).count();
    let passed = visits.len() - failed - skipped;
    let parts = visits.iter().filter_map(|visit| match &visit.end {
        End::Ran(ran) => Some(ran.done.skipped.len()),
        End::Skipped(_) | End::Broken(_) => None,
    });
    let skipped = skipped + parts.sum::<usize>();
    println!("machines: {passed} passed, {failed} failed, {skipped} skipped");
    exit_code(failed == 0, skipped == 0, require)
}

fn exit_code(all_passed: bool, all_ran: bool, require: bool) -> ExitCode {
    if !all_passed {
        ExitCode::FAILURE
    } else if require && !all_ran {
        ExitCode::from(SKIPPED)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_fails_only_if_nothing_may_be_skipped() {
        assert_eq!(exit_code(true, true, true), ExitCode::SUCCESS);
        assert_eq!(exit_code(true, false, false), ExitCode::SUCCESS);
        assert_eq!(exit_code(true, false, true), ExitCode::from(2));
        assert_eq!(exit_code(false, false, true), ExitCode::FAILURE);
    }
}
