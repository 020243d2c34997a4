//! `cargo xtask validation`: the page of all results. Programs write their results as data in
//! validation/results, a file a run; this is the only code that makes a page of them.

mod bars;
mod machines;
mod runs;
mod studies;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use serde_json::Value;

pub(crate) use self::runs::state;
use crate::diagnostic::Diagnostic;
use crate::project::Project;

/// The results.
pub(crate) const RESULTS: &str = "validation/results";

/// What is rendered from them.
pub(crate) const PAGE: &str = "docs/validation/README.md";

/// What no result shows, and the reason.
const LIMITS: &str = "validation/limits.toml";

/// The machines that results are of.
const MACHINES: &str = "validation/machines/machines.toml";

/// The longest text of a finding on the page.
const LONGEST: usize = 220;

/// Writes the page if it differs.
pub(crate) fn run(project: &Project) -> ExitCode {
    match write(project) {
        Ok(()) => {
            println!("validation: {PAGE}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("validation: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the page if it differs.
pub(crate) fn write(project: &Project) -> Result<(), String> {
    let page = page(project)?;
    let path = project.path(PAGE);
    if fs::read_to_string(&path).is_ok_and(|text| text == page) {
        return Ok(());
    }
    fs::write(&path, page).map_err(|error| format!("{PAGE}: {error}"))
}

/// The page is what the results render to.
pub(crate) fn check(project: &Project) -> Vec<Diagnostic> {
    let stale = |what: String| vec![Diagnostic::new(PAGE, 1, what, "run `cargo xtask validation`")];
    match page(project) {
        Err(why) => stale(why),
        Ok(page) => match fs::read_to_string(project.path(PAGE)) {
            Ok(text) if text == page => Vec::new(),
            Ok(_) => stale(format!("differs from the results in {RESULTS}")),
            Err(error) => stale(error.to_string()),
        },
    }
}

/// Date, commit, machine and command of a result that a program has just written without.
pub(crate) fn stamp(project: &Project, path: &str, command: &str) -> Result<(), String> {
    let path = project.path(path);
    // A program that skipped its work wrote none.
    let Ok(text) = fs::read(&path) else { return Ok(()) };
    let cannot = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut result: Value = serde_json::from_slice(&text).map_err(|why| cannot(&why))?;
    if result["commit"].is_string() {
        return Ok(());
    }
    for (name, field) in [
        ("date", stamp::now_utc()),
        ("commit", stamp::commit(project.root())),
        ("machine", stamp::machine()),
        ("command", command.to_owned()),
    ] {
        result[name] = field.into();
    }
    fs::write(&path, format!("{result:#}\n")).map_err(|why| cannot(&why))
}

/// A line of the page's first table: what was tried and what came of it.
struct Line {
    what: String,
    tried: String,
    right: u64,
    wrong: u64,
    not_measured: u64,
    skipped: u64,
    stamps: Vec<Stamp>,
}

/// When a result was made, and of which state of this repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    date: String,
    commit: String,
}

impl Stamp {
    fn from_result(result: &Value) -> Self {
        let date = if result["at"].is_string() { &result["at"] } else { &result["date"] };
        Self { date: word(date).to_owned(), commit: word(&result["commit"]).to_owned() }
    }

    /// With a mark where it is of another commit than the newest.
    fn beside(&self, newest: &Self) -> String {
        let mark = if self.commit == newest.commit { "" } else { ", older" };
        format!("{} {}{mark}", day(&self.date), self.commit)
    }
}

/// What the results come to, part by part.
#[derive(Default)]
struct Parts {
    lines: Vec<Line>,
    /// Items of lists: what is wrong, and what could not be had.
    wrong: Vec<String>,
    absent: Vec<String>,
}

fn page(project: &Project) -> Result<String, String> {
    let toml = |path: &str| {
        let text =
            fs::read_to_string(project.path(path)).map_err(|why| format!("{path}: {why}"))?;
        text.parse::<toml::Table>().map_err(|why| format!("{path}: {why}"))
    };
    let (table, limits, bars) = (toml(MACHINES)?, toml(LIMITS)?, toml(bars::BARS)?);
    let folder = |name: &str| results(project, name);
    let rows = machines::ordered(folder("rows")?, &table);
    let long = machines::ordered(folder("long")?, &table);
    let (providers, ran) = (folder("providers")?, folder("runs")?);
    let studies = studies::Studies::read(project)?;
    let all = rows.iter().chain(&long).chain(&providers).chain(&ran).chain(studies.all());
    let newest = all.map(Stamp::from_result).max().ok_or("no result")?;

    let mut parts = Parts::default();
    machines::summarize(&mut parts, &rows);
    machines::without_result(&mut parts, &[&rows, &providers], &table);
    machines::summarize_long(&mut parts, &long);
    studies::summarize_providers(&mut parts, &providers);
    studies.summarize(&mut parts);
    runs::summarize(&mut parts, &ran);

    for absent in limits.get("absent").and_then(toml::Value::as_array).into_iter().flatten() {
        parts.absent.push(format!(
            "No row: {}: {}.",
            field(absent, "machine"),
            field(absent, "why")
        ));
    }

    let mut text = head(&newest);
    parts.tried(&mut text, &newest);
    bars::table(&mut text, &bars, &rows)?;
    list(&mut text, "What is wrong", &parts.wrong);
    list(&mut text, "What could not be had", &parts.absent);
    limits_of(&mut text, &limits);
    machines::matrix(&mut text, &rows, &newest)?;
    machines::wholes(&mut text, &folder("whole")?, &newest);
    machines::reported(&mut text, &rows);
    machines::long_runs(&mut text, &long, &newest);
    studies.alerts_table(&mut text);
    runs::table(&mut text, &ran, &newest);
    Ok(text)
}

fn head(newest: &Stamp) -> String {
    format!(
        "# Validation\n\n\
         `cargo xtask validation` renders this page from the [results](../../{RESULTS}/README.md): \
         one file\nfor each run, with its date, commit and machine. A run that was not repeated \
         keeps its last\nresult. *Older* marks a result of another commit than the newest, \
         `{}` of {}.\n`-dirty` marks a commit with changes that were not committed.\n",
        newest.commit, newest.date
    )
}

impl Parts {
    fn tried(&self, text: &mut String, newest: &Stamp) {
        text.push_str(
            "\n## What was tried\n\n\
             | what | tried | right | wrong | not measured | skipped | date, commit |\n\
             | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
        );
        for line in &self.lines {
            let Line { what, tried, right, wrong, not_measured, skipped, stamps } = line;
            let at = stamps_of(stamps, newest);
            let _ = writeln!(
                text,
                "| {what} | {tried} | {right} | {} | {not_measured} | {skipped} | {at} |",
                bold(*wrong)
            );
        }
    }
}

/// One commit, or how many.
fn stamps_of(stamps: &[Stamp], newest: &Stamp) -> String {
    let commits: BTreeSet<&str> = stamps.iter().map(|stamp| stamp.commit.as_str()).collect();
    let (Some(first), Some(last)) = (stamps.iter().min(), stamps.iter().max()) else {
        return "not run yet".to_owned();
    };
    if commits.len() == 1 {
        return last.beside(newest);
    }
    let older = stamps.iter().filter(|stamp| stamp.commit != newest.commit).count();
    let (from, to) = (day(&first.date), day(&last.date));
    let days = if from == to { to.to_owned() } else { format!("{from} to {to}") };
    format!("{days}, {} commits; {older} of {} older", commits.len(), stamps.len())
}

fn list(text: &mut String, title: &str, items: &[String]) {
    let _ = write!(text, "\n## {title}\n\n");
    if items.is_empty() {
        text.push_str("Nothing.\n");
    }
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
}

/// Each `[[limit]]`: what a result does not show, and why.
fn limits_of(text: &mut String, limits: &toml::Table) {
    text.push_str("\n## Known limits\n\n");
    for limit in limits.get("limit").and_then(toml::Value::as_array).into_iter().flatten() {
        let _ = writeln!(text, "- **{}**: {}", field(limit, "what"), field(limit, "why"));
    }
}

fn field<'t>(table: &'t toml::Value, name: &str) -> &'t str {
    table.get(name).and_then(toml::Value::as_str).unwrap_or("?")
}

/// All results of a folder, in the order of their names.
fn results(project: &Project, folder: &str) -> Result<Vec<Value>, String> {
    let folder = project.path(RESULTS).join(folder);
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let parse = |path: &std::path::PathBuf| {
        let text = fs::read(path).map_err(|error| error.to_string());
        let value =
            text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        value.map_err(|why| format!("{}: {why}", path.display()))
    };
    paths.iter().map(parse).collect()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Of a date and time the date.
fn day(date: &str) -> &str {
    date.split(' ').next().unwrap_or_default()
}

fn bold(wrong: u64) -> String {
    if wrong == 0 { "0".to_owned() } else { format!("**{wrong}**") }
}

/// A finding on one line, cut where it is long: the data has all of it.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some((at, _)) => format!("{} …", line[..at].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_is_what_the_results_render_to() {
        let stale = check(&Project::here());
        assert!(stale.is_empty(), "{}", stale[0]);
    }

    #[test]
    fn a_new_result_is_stamped_and_an_old_one_keeps_its_commit() {
        let project = Project::here();
        let path = std::env::temp_dir().join(format!("parachron-stamp-{}", std::process::id()));
        let text = path.to_string_lossy();
        let read = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
        // A program that is skipped writes nothing.
        stamp(&project, &text, "cargo xtask alerts").unwrap();
        fs::write(&path, r#"{ "cells": [] }"#).unwrap();
        stamp(&project, &text, "cargo xtask alerts").unwrap();
        let new = read();
        assert_eq!(new["command"], "cargo xtask alerts");
        assert!(new["commit"].is_string() && new["date"].is_string(), "{new}");
        fs::write(&path, r#"{ "commit": "aaa" }"#).unwrap();
        stamp(&project, &text, "cargo xtask alerts").unwrap();
        assert_eq!(read(), json!({ "commit": "aaa" }));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_result_of_another_commit_is_marked() {
        let newest = Stamp { date: "2026-11-24 10:00".to_owned(), commit: "bbb".to_owned() };
        let result = json!({ "at": "2026-11-23 09:00", "commit": "aaa" });
        let older = Stamp::from_result(&result);
        assert_eq!(older.beside(&newest), "2026-11-23 aaa, older");
        assert_eq!(newest.beside(&newest), "2026-11-24 bbb");
        let both = [older, newest.clone()];
        assert_eq!(stamps_of(&both, &newest), "2026-11-23 to 2026-11-24, 2 commits; 1 of 2 older");
        assert_eq!(stamps_of(&[], &newest), "not run yet");
    }

    #[test]
    fn a_long_finding_is_cut() {
        assert_eq!(short("a\n  b"), "a b");
        assert!(short(&"word ".repeat(90)).ends_with("word …"));
    }
}
