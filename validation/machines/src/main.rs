//! `cargo xtask machines`: stock kernels under hypervisors, a row of
//! `validation/machines/machines.toml` each, and what `parachron` says in them, held against
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
mod load;
mod machine;
mod modules;
mod moved;
mod outcome;
mod packages;
mod qemu;
mod qmp;
mod records;
mod results;
mod several;
mod shell;
mod sources;
mod systems;
mod table;
mod tools;
mod visit;
mod whole;
mod wire;
mod workshop;

use std::cmp::Reverse;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::args::Args;
use crate::base::Workshop;
use crate::checks::{Check, Verdict};
use crate::deeds::Done;
use crate::outcome::Unavailable;
use crate::results::Results;
use crate::table::{Row, Table};
use crate::visit::{End, Ran, Visit};
use crate::whole::Whole;

/// Machines of a long run at a time: an idle one under emulation takes a twentieth of a CPU.
const LONG_AT_ONCE: usize = 8;

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
        return deeds::write_timekeeper_results(folder).map(|()| ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.linux_on_provider {
        return deeds::write_provider_results(folder).map(|()| ExitCode::SUCCESS);
    }
    let table = Table::read()?;
    if let Some(unknown) =
        args.only.iter().find(|name| table.rows.iter().all(|row| row.name != **name))
    {
        return Err(format!("there is no row {unknown}; --list names all"));
    }
    let wanted = |row: &&Row| {
        let is_asked = if args.only.is_empty() {
            args.list || row.only_named.is_none()
        } else {
            args.only.contains(&row.name)
        };
        is_asked && (!args.quick || row.quick)
    };
    let mut rows: Vec<Row> = table.rows.iter().filter(wanted).cloned().collect();
    if args.list {
        rows.iter().for_each(list);
        return Ok(ExitCode::SUCCESS);
    }
    // The longest first: else the last of them runs alone.
    rows.sort_by_key(|row| Reverse(row.limit_s));
    let (at, start) = (stamp::now_utc(), Instant::now());
    let programs = args.programs.clone().map_or_else(artifacts::programs, Ok)?;
    let build_s = start.elapsed().as_secs_f64();
    let programs_arm64 = args.programs_arm64.clone();
    let packages = args.packages.clone().unwrap_or_else(|| tools::target_folder().join("packages"));
    let boot = Duration::from_secs(args.boot.into());
    let cache = args.cache();
    let apt = args.apt.clone();
    let restores = args.restores;
    let workshop =
        Workshop { table, cache, apt, programs, programs_arm64, packages, boot, restores };
    let visits = if args.long {
        run_long(args, &workshop, rows)?
    } else {
        run_usual(args, &workshop, &rows, (at, build_s))?
    };
    Ok(summary(&visits, args.require))
}

fn run_long(args: &Args, workshop: &Workshop, rows: Vec<Row>) -> Result<Vec<Visit>, String> {
    let results = Results::of_long_runs();
    let rows: Vec<Row> = rows.into_iter().filter(Row::has_truth).collect();
    let visits = several::each(&rows, args.at_once(LONG_AT_ONCE), |row| {
        let visit = visit::long(workshop, row, results.folder());
        print(&visit, args.verbose);
        Ok(visit)
    })?;
    if args.record {
        results.keep(&workshop.table)?;
    }
    Ok(visits)
}

/// Of a run that began at a time, and first built its programs.
fn run_usual(
    args: &Args,
    workshop: &Workshop,
    rows: &[Row],
    (at, build_s): (String, f64),
) -> Result<Vec<Visit>, String> {
    let (results, at_once) = (Results::of_rows(), args.at_once(whole::at_once()));
    let start = Instant::now();
    let visits = several::each(rows, at_once, |row| {
        let visit = visit::visit(workshop, row, results.folder());
        print(&visit, args.verbose);
        if args.capture {
            keep_capture(row, &visit, &results.folder().join(&row.name))?;
        }
        Ok(visit)
    })?;
    let whole = Whole {
        at,
        commit: tools::commit(),
        rows: rows.len(),
        skipped: skipped(&visits),
        at_once,
        cpus: tools::cpus(),
        build_s,
        rows_s: start.elapsed().as_secs_f64(),
        allowed_s: args.whole().map(|kind| kind.allowed().as_secs_f64()),
    };
    match args.whole() {
        Some(kind) => {
            println!("machines: {}", whole.judged(kind));
            whole::remember(kind, &whole)?;
        }
        None => println!("machines: {whole}"),
    }
    if args.record {
        results.keep(&workshop.table)?;
        whole::keep()?;
    }
    Ok(visits)
}

/// Keeps the capture of a row in testdata/machines, if it has the row's findings, and those
/// that deeds left in the row's folder.
fn keep_capture(row: &Row, visit: &Visit, ran_in: &Path) -> Result<(), String> {
    let (End::Ran(ran), Ok(truth)) = (&visit.end, row.truth()) else { return Ok(()) };
    let Some(findings) = ran.found(truth) else {
        println!("{:<24} its capture was not kept: its findings are not the row's", row.name);
        return Ok(());
    };
    let Some(record) = ran.records.iter().find(|record| record.name == "capture") else {
        return Ok(());
    };
    let folder = tools::root().join("testdata/machines").join(&row.name);
    capture::write(&folder, &record.stdout, &findings)?;
    capture::left(ran_in)?.iter().try_for_each(|left| left.write(&folder, &findings))
}

/// A line of `--list`.
fn list(row: &Row) {
    let when = match &row.only_named {
        Some(_) => "named",
        None if row.quick => "quick",
        None => "",
    };
    println!("{:<24} {:<6} Linux {:<5} {}", row.name, when, row.kernel, row.options);
    if let Some(other) = &row.drift_as {
        println!("{:<24} drift: as in {other}", "");
    }
}

/// What became of a row, at once.
pub(crate) fn print(visit: &Visit, verbose: bool) {
    let Visit { row: name, took_s, end, .. } = visit;
    match end {
        End::Ran(Ran { done: Done { checks, skipped }, records, stopped }) => {
            if verbose {
                for record in records {
                    println!("--- {}\n{}{}", record.name, record.stdout, record.stderr);
                }
            }
            skipped.iter().for_each(|one| skip(name, one));
            println!("{name:<24} {} {took_s:7.1} s", counted(visit, checks.len()));
            for check in checks {
                print_check(check, verbose);
            }
            if let Some(why) = stopped {
                println!("{name:<24} FAILED after these checks\n{}", why.trim_end());
            }
        }
        End::Skipped(one) => skip(name, one),
        End::Broken(why) => println!("{name:<24} FAILED {took_s:7.1} s\n{}", why.trim_end()),
    }
}

/// How many checks of a row passed, and how many were not measured.
fn counted(visit: &Visit, checks: usize) -> String {
    let passed = visit.count(Verdict::Passed);
    match visit.count(Verdict::NotMeasured) {
        0 => format!("{passed} of {checks} checks passed"),
        not_measured => {
            format!("{passed} of {checks} checks passed, {not_measured} not measured (busy)")
        }
    }
}

fn print_check(check: &Check, verbose: bool) {
    let Check { what, found, not_measured, .. } = check;
    let verdict = match check.verdict() {
        Verdict::Passed if !verbose => return,
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::NotMeasured => "not measured",
    };
    println!("    {verdict}  {what}\n            {found}");
    if let Some(why) = not_measured {
        println!("            {why}");
    }
}

/// The line that `.ci/run` counts.
fn skip(name: &str, Unavailable { why, remedy }: &Unavailable) {
    println!("machines: SKIPPED: {name}: {why}; remedy: {remedy}");
}

/// How many could not run here.
fn skipped(visits: &[Visit]) -> usize {
    visits.iter().filter(|visit| matches!(visit.end, End::Skipped(_))).count()
}

/// A failed check fails the run. A skip fails it only where nothing may be skipped, and what
/// was not measured never does.
fn summary(visits: &[Visit], require: bool) -> ExitCode {
    let (line, code) = summarize(visits, require);
    println!("{line}");
    code
}

/// The last line, which counts checks, and of what was skipped rows and parts of rows.
fn summarize(visits: &[Visit], require: bool) -> (String, ExitCode) {
    let count = |verdict| visits.iter().map(|visit| visit.count(verdict)).sum::<usize>();
    let parts = visits.iter().filter_map(|visit| match &visit.end {
        End::Ran(ran) => Some(ran.done.skipped.len()),
        End::Skipped(_) | End::Broken(_) => None,
    });
    let skipped = skipped(visits) + parts.sum::<usize>();
    let failed = count(Verdict::Failed);
    let line = format!(
        "machines: {} passed, {failed} failed, {} not measured, {skipped} skipped",
        count(Verdict::Passed),
        count(Verdict::NotMeasured),
    );
    (line, exit_code(failed == 0, skipped == 0, require))
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
    use crate::load::Load;

    #[test]
    fn what_was_not_measured_is_counted_and_fails_no_run() {
        let busy =
            Load::busy(Duration::from_secs(9), Duration::from_secs(8), Duration::from_secs(1));
        let with = |wrong_by_s: f64| {
            let mut done = Done::default();
            done.checks.push(Check::new("boot: a", "", true));
            done.checks.push(Check::new("watch: b", "", false).missed_by_s(wrong_by_s));
            done.settle(0, &busy);
            [Visit::ran("a", done)]
        };
        let visits = with(0.5);
        assert_eq!(counted(&visits[0], 2), "1 of 2 checks passed, 1 not measured (busy)");
        let line = "machines: 1 passed, 0 failed, 1 not measured, 0 skipped".to_owned();
        assert_eq!(summarize(&visits, true), (line, ExitCode::SUCCESS));
        let line = "machines: 1 passed, 1 failed, 0 not measured, 0 skipped".to_owned();
        assert_eq!(summarize(&with(1.5), false), (line, ExitCode::FAILURE));
    }

    #[test]
    fn a_skip_fails_only_if_nothing_may_be_skipped() {
        assert_eq!(exit_code(true, true, true), ExitCode::SUCCESS);
        assert_eq!(exit_code(true, false, false), ExitCode::SUCCESS);
        assert_eq!(exit_code(true, false, true), ExitCode::from(2));
        assert_eq!(exit_code(false, false, true), ExitCode::FAILURE);
    }
}
