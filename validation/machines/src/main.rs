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
mod machine;
mod outcome;
mod qmp;
mod records;
mod shell;
mod table;
mod tools;
mod trees;
mod visit;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::Args;
use crate::base::Workshop;
use crate::deeds::Done;
use crate::outcome::Unavailable;
use crate::table::{Row, Table};
use crate::visit::Visit;

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
    let table = Table::read()?;
    if let Some(unknown) =
        args.only.iter().find(|name| table.rows.iter().all(|row| row.name != **name))
    {
        return Err(format!("there is no row {unknown}; --list names all"));
    }
    let results = tools::target_folder().join("machines");
    let is_asked = |row: &&Row| match (args.quick, args.only.as_slice()) {
        (true, _) => row.quick,
        (false, []) => args.list || row.only_named.is_none(),
        (false, only) => only.contains(&row.name),
    };
    let asked = table.rows.iter().filter(is_asked);
    let rows: Vec<Row> = asked
        .filter(|row| !args.resume || !visit::has_passed(&results, &row.name))
        .cloned()
        .collect();
    if args.list {
        rows.iter().for_each(list);
        return Ok(ExitCode::SUCCESS);
    }
    let workshop = Workshop {
        table,
        cache: args.cache(),
        programs: args.programs.clone().map_or_else(artifacts::programs, Ok)?,
        packages: tools::target_folder().join("packages"),
        boot: Duration::from_secs(args.boot.into()),
        restores: args.restores,
        quick: args.quick,
    };
    let mut visits = Vec::new();
    for row in &rows {
        let mut visit = visit::visit(&workshop, row, &results);
        print(&visit, args.verbose);
        // Of those by day none depends on timing, and a kernel that dies is no matter of that.
        if !args.quick && !visit.done.checks.is_empty() && visit.failed() > 0 {
            println!("{:<24} once more", row.name);
            let first = visit.wrong().join("; ");
            visit = visit::visit(&workshop, row, &results);
            print(&visit, args.verbose);
            println!("{:<24} failed at first: {first}", row.name);
        }
        if args.capture {
            keep_capture(row, &visit)?;
        }
        visits.push(visit);
    }
    let (line, code) = summarize(&visits, args.require);
    println!("{line}");
    Ok(code)
}

/// Keeps the capture of a row in testdata/machines, if it has the row's findings.
fn keep_capture(row: &Row, visit: &Visit) -> Result<(), String> {
    let Ok(truth) = row.truth() else { return Ok(()) };
    let Some(findings) = visit.found(truth) else {
        println!("{:<24} its capture was not kept: its findings are not the row's", row.name);
        return Ok(());
    };
    let Some(record) = visit.records.iter().find(|record| record.name == "capture") else {
        return Ok(());
    };
    let folder = tools::root().join("testdata/machines").join(&row.name);
    capture::write(&folder, &record.stdout, &findings)
}

/// A line of `--list`.
fn list(row: &Row) {
    let when = match &row.only_named {
        Some(_) => "named",
        None if row.quick => "quick",
        None => "",
    };
    println!("{:<24} {:<6} Linux {:<5} {}", row.name, when, row.kernel, row.options);
}

/// What became of a row, at once.
fn print(visit: &Visit, verbose: bool) {
    let Visit { row: name, took_s, done: Done { checks, skipped }, stopped, records, .. } = visit;
    for record in records.iter().filter(|_| verbose) {
        println!("--- {}\n{}{}", record.name, record.stdout, record.stderr);
    }
    skipped.iter().for_each(|one| skip(name, one));
    if !checks.is_empty() {
        let (passed, all) = (visit.passed(), checks.len());
        println!("{name:<24} {passed} of {all} checks passed {took_s:7.1} s");
    }
    for check in checks.iter().filter(|check| verbose || !check.passed) {
        let verdict = if check.passed { "passed" } else { "FAILED" };
        println!("    {verdict}  {}\n            {}", check.what, check.found);
    }
    if let Some(why) = stopped {
        println!("{name:<24} FAILED {took_s:7.1} s\n{}", why.trim_end());
    }
}

/// The line that `.ci/run` counts.
fn skip(name: &str, Unavailable { why, remedy }: &Unavailable) {
    println!("machines: SKIPPED: {name}: {why}; remedy: {remedy}");
}

/// The last line, which counts checks, and of what was skipped rows and parts of rows. A failed
/// check fails the run; a skip fails it only where nothing may be skipped.
fn summarize(visits: &[Visit], require: bool) -> (String, ExitCode) {
    let passed: usize = visits.iter().map(Visit::passed).sum();
    let failed: usize = visits.iter().map(Visit::failed).sum();
    let skipped: usize = visits.iter().map(Visit::skipped).sum();
    let line = format!("machines: {passed} passed, {failed} failed, {skipped} skipped");
    let code = match (failed, skipped) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) if require => ExitCode::from(SKIPPED),
        (0, _) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    };
    (line, code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Check;

    #[test]
    fn a_wrong_answer_fails_a_run_and_a_skip_only_if_nothing_may_be_skipped() {
        let with = |passed, skipped| {
            let checks = vec![Check::new("boot: a", "", true), Check::new("watch: b", "", passed)];
            [Visit { done: Done { checks, skipped }, ..Visit::default() }]
        };
        let line = |passed, failed, skipped| {
            format!("machines: {passed} passed, {failed} failed, {skipped} skipped")
        };
        let skipped = || vec![Unavailable::new("no KVM", "another machine")];
        let of = |visits: [Visit; 1], require| summarize(&visits, require);
        assert_eq!(of(with(true, vec![]), true), (line(2, 0, 0), ExitCode::SUCCESS));
        assert_eq!(of(with(true, skipped()), false), (line(2, 0, 1), ExitCode::SUCCESS));
        assert_eq!(of(with(true, skipped()), true), (line(2, 0, 1), ExitCode::from(2)));
        assert_eq!(of(with(false, skipped()), true), (line(1, 1, 1), ExitCode::FAILURE));
    }
}
