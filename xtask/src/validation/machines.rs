//! Stock kernels under hypervisors: rows of validation/machines/machines.toml, a result each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Line, Parts, Stamp, items, short, word};

/// The columns, and how their checks begin: a check belongs to the first that fits.
const COLUMNS: [(&str, &[&str]); 16] = [
    ("boot", &["boot"]),
    ("doctor", &["doctor"]),
    ("clocks", &["clocks"]),
    ("bench", &["bench"]),
    ("watch", &["watch"]),
    ("pauses", &["stop, cont on ", "migrated to ", "restored in "]),
    ("latency", &["latency"]),
    ("drift", &["drift"]),
    ("keep", &["keep"]),
    ("service", &["service"]),
    ("gate", &["gate"]),
    ("chronyd", &["chronyd"]),
    ("packages", &["packages"]),
    ("timex", &["timex"]),
    ("lab", &["lab"]),
    ("capture", &["capture"]),
];

/// The parts of a long run, and how their checks begin.
const LONG: [(&str, &str); 3] = [
    ("Ten calm minutes", "watch: "),
    ("A hundred intervals of `drift`", "drift: "),
    ("Right again after ten minutes away", "service: "),
];

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    NotMeasured,
}

/// Where a row counts that was skipped or did not come to its end: once, not for each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Here,
    Elsewhere,
}

fn verdict(check: &Value) -> Verdict {
    match (check["passed"].as_bool(), check["not_measured"].is_string()) {
        (Some(true), _) => Verdict::Right,
        (_, true) => Verdict::NotMeasured,
        _ => Verdict::Wrong,
    }
}

fn checks(visit: &Value) -> &[Value] {
    items(&visit["end"]["Ran"]["done"]["checks"])
}

/// What the host lacked for a row, or for a part of it.
fn skipped(visit: &Value) -> Vec<&Value> {
    let whole = &visit["end"]["Skipped"];
    if whole.is_object() {
        return vec![whole];
    }
    items(&visit["end"]["Ran"]["done"]["skipped"]).iter().collect()
}

/// Why a row did not come to its end.
fn stopped(visit: &Value) -> Option<&str> {
    visit["end"]["Broken"].as_str().or_else(|| visit["end"]["Ran"]["stopped"].as_str())
}

/// Each row's name, and a field of it.
fn table_rows<'t>(
    table: &'t toml::Table,
    field: &'static str,
) -> impl Iterator<Item = (&'t str, Option<&'t str>)> {
    let rows = table.get("row").and_then(toml::Value::as_array).into_iter().flatten();
    rows.map(move |row| {
        let text = |name: &str| row.get(name).and_then(toml::Value::as_str);
        (text("name").unwrap_or_default(), text(field))
    })
}

/// In the table's order.
pub(super) fn ordered(mut visits: Vec<Value>, table: &toml::Table) -> Vec<Value> {
    let order: Vec<&str> = table_rows(table, "name").map(|(name, _)| name).collect();
    visits.sort_by_key(|visit| order.iter().position(|name| *name == word(&visit["row"])));
    visits
}

pub(super) fn summarize(parts: &mut Parts, visits: &[Value]) {
    parts.line(
        "Stock kernels under hypervisors",
        visits,
        |visit| checks(visit).to_vec(),
        Ends::Here,
    );
    parts.absent.extend(visits.iter().filter_map(unmeasured_in_lab));
}

/// How many checks of each of the lab's experiments could not be measured, in one line for a row.
fn unmeasured_in_lab(visit: &Value) -> Option<String> {
    let count = |check: &Value| {
        // `lab ticks: has checks`, found `4, and 8 not measured; why`.
        let name = word(&check["what"]).strip_prefix("lab ")?.strip_suffix(": has checks")?;
        let (measured, rest) = word(&check["found"]).split_once(", and ")?;
        let missing: u64 = rest.split_once(" not measured")?.0.parse().ok()?;
        let all = measured.parse::<u64>().ok()? + missing;
        (missing > 0).then(|| format!("{name} {missing} of {all}"))
    };
    let counts: Vec<String> = checks(visit).iter().filter_map(count).collect();
    (!counts.is_empty()).then(|| {
        format!(
            "`{}`: not measured by the lab, checks of: {}",
            word(&visit["row"]),
            counts.join(", ")
        )
    })
}

/// Rows of the table that no result is of.
pub(super) fn without_result(parts: &mut Parts, results: &[&[Value]], table: &toml::Table) {
    let has_result =
        |name: &str| results.iter().any(|all| all.iter().any(|one| one["row"] == name));
    for (name, only_named) in table_rows(table, "only_named").filter(|(name, _)| !has_result(name))
    {
        let limit =
            only_named.map_or(String::new(), |why| format!(", which runs only by name ({why})"));
        parts.absent.push(format!("No result yet: row `{name}`{limit}."));
    }
    let left = table_rows(table, "drift_as")
        .filter_map(|(name, other)| Some(format!("`{name}` (`{}`)", other?)));
    let left: Vec<String> = left.collect();
    if !left.is_empty() {
        parts.absent.push(format!(
            "`drift` is left to the row of the same kernel on the same machine: {}.",
            left.join(", ")
        ));
    }
}

pub(super) fn summarize_long(parts: &mut Parts, visits: &[Value]) {
    for (title, beginning) in LONG {
        let ends = if beginning == LONG[0].1 { Ends::Here } else { Ends::Elsewhere };
        let is_here = |visit: &&Value| {
            of_kind(visit, beginning).next().is_some()
                || (ends == Ends::Here && checks(visit).is_empty())
        };
        let ran: Vec<Value> = visits.iter().filter(is_here).cloned().collect();
        parts.line(title, &ran, |visit| of_kind(visit, beginning).cloned().collect(), ends);
    }
}

fn of_kind<'v>(visit: &'v Value, beginning: &'v str) -> impl Iterator<Item = &'v Value> {
    checks(visit).iter().filter(move |check| word(&check["what"]).starts_with(beginning))
}

impl Parts {
    /// A line of the first table, with what is wrong and what could not be had.
    fn line(
        &mut self,
        what: &str,
        visits: &[Value],
        checks: impl Fn(&Value) -> Vec<Value>,
        ends: Ends,
    ) {
        let mut counts = [0_u64; 3];
        let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for visit in visits {
            let row = word(&visit["row"]);
            for check in checks(visit) {
                let (what, found) = (word(&check["what"]), short(word(&check["found"])));
                counts[verdict(&check) as usize] += 1;
                match verdict(&check) {
                    Verdict::Right => {}
                    Verdict::Wrong => {
                        self.wrong.push(format!("`{row}`: {what}. Found: {found}"));
                    }
                    Verdict::NotMeasured => {
                        let why = short(word(&check["not_measured"]));
                        self.absent.push(format!("`{row}`: not measured: {what}: {why}"));
                    }
                }
            }
            if ends == Ends::Elsewhere {
                continue;
            }
            if let Some(why) = stopped(visit) {
                counts[Verdict::Wrong as usize] += 1;
                self.wrong.push(format!("`{row}`: did not come to its end: {}", short(why)));
            }
            for skip in skipped(visit) {
                reasons.entry(short(word(&skip["why"]))).or_default().push(row);
            }
        }
        for (why, rows) in &reasons {
            self.absent.push(format!("{}: {why}", names(rows)));
        }
        let [right, wrong, not_measured] = counts;
        self.lines.push(Line {
            what: what.to_owned(),
            tried: format!("rows: {}", visits.len()),
            right,
            wrong,
            not_measured,
            skipped: reasons.values().map(|rows| rows.len() as u64).sum(),
            stamps: visits.iter().map(Stamp::from_result).collect(),
        });
    }
}

fn names(rows: &[&str]) -> String {
    rows.iter().map(|row| format!("`{row}`")).collect::<Vec<_>>().join(", ")
}

/// Row by command.
pub(super) fn matrix(text: &mut String, visits: &[Value], newest: &Stamp) -> Result<(), String> {
    let titles: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let _ = write!(
        text,
        "\n## Checks by row\n\n\
         A row is a machine of `{}`. A cell counts the checks that were right,\n\
         or those that were not.\n\n\
         | row | Linux | {} | date, commit |\n| --- | --- |{} --- |\n",
        super::MACHINES,
        titles.join(" | "),
        " ---: |".repeat(COLUMNS.len()),
    );
    for visit in visits {
        let mut cells: [Vec<Verdict>; COLUMNS.len()] = Default::default();
        for check in checks(visit) {
            cells[column(word(&check["what"]))?].push(verdict(check));
        }
        let mut cells = cells.map(|verdicts| cell(&verdicts));
        if stopped(visit).is_some() {
            cells[0] = "**stopped**".to_owned();
        } else if visit["end"]["Skipped"].is_object() {
            cells[0] = "skipped".to_owned();
        }
        let kernel = word(&visit["kernel"]).split([' ', '+', '-']).next().unwrap_or_default();
        let kernel = if kernel == "none" || kernel == "not" { "" } else { kernel };
        let at = Stamp::from_result(visit).beside(newest);
        let row = word(&visit["row"]);
        let _ = writeln!(text, "|{row}|{kernel}|{}|{at}|", cells.join("|"));
    }
    Ok(())
}

/// Runs of all rows, and of the quick ones, and what they took.
pub(super) fn wholes(text: &mut String, wholes: &[Value], newest: &Stamp) {
    for whole in wholes {
        let minutes = |field: &str| whole[field].as_f64().unwrap_or(0.0) / 60.0;
        let (took, allowed) = (minutes("rows_s"), minutes("allowed_s"));
        let mark = if took > allowed { ", **longer**" } else { "" };
        let _ = writeln!(
            text,
            "\n{} rows in one run, {} at a time on {} CPUs: {took:.1} min, of {allowed:.0} min \
             allowed{mark} ({}).",
            whole["rows"],
            whole["at_once"],
            whole["cpus"],
            Stamp::from_result(whole).beside(newest),
        );
    }
}

fn column(what: &str) -> Result<usize, String> {
    let fits = |(_, beginnings): &(&str, &[&str])| {
        beginnings.iter().any(|beginning| what.starts_with(beginning))
    };
    COLUMNS.iter().position(fits).ok_or_else(|| format!("no column for the check \"{what}\""))
}

fn cell(verdicts: &[Verdict]) -> String {
    let count = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    match (verdicts.len(), count(Verdict::Wrong), count(Verdict::NotMeasured)) {
        (0, ..) => String::new(),
        (all, 0, 0) => all.to_string(),
        (all, 0, not_measured) => format!("{}, {not_measured} not measured", all - not_measured),
        (all, wrong, _) => format!("**{wrong} of {all} wrong**"),
    }
}

/// What `watch` reported of all that was caused.
pub(super) fn reported(text: &mut String, visits: &[Value]) {
    let mut kinds: BTreeMap<&str, ([u64; 2], Vec<&str>)> = BTreeMap::new();
    for check in visits.iter().flat_map(checks) {
        let [caused, reported] = items(&check["told"]) else { continue };
        if verdict(check) == Verdict::NotMeasured {
            continue;
        }
        let (counts, causes) = kinds.entry(word(reported)).or_default();
        counts[usize::from(verdict(check) == Verdict::Wrong)] += 1;
        if !causes.contains(&word(caused)) {
            causes.push(word(caused));
        }
    }
    text.push_str(
        "\n## Disruptions caused, and reported by `watch`\n\n\
         Right: this name, a size within its stated bound, in 1 s. `a|b`: one of these, which \
         the\nmachine cannot distinguish.\n\n\
         | reported | right | wrong | caused |\n| --- | ---: | ---: | --- |\n",
    );
    for (reported, ([right, wrong], causes)) in kinds {
        let (reported, causes) = (reported.replace('|', "\\|"), causes.join("; "));
        let _ = writeln!(text, "| {reported} | {right} | {} | {causes} |", super::bold(wrong));
    }
}

/// What came of the long runs, the rows of one commit in one line.
pub(super) fn long_runs(text: &mut String, visits: &[Value], newest: &Stamp) {
    text.push_str("\n## Long runs of the machines\n");
    for (title, beginning) in LONG {
        let _ = write!(text, "\n### {title}\n\n");
        let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for visit in visits {
            let (row, at) = (word(&visit["row"]), Stamp::from_result(visit).beside(newest));
            let mut head = Some(format!("- `{row}`, {at}:\n"));
            for check in of_kind(visit, beginning) {
                let found = short(word(&check["found"]));
                let what = &word(&check["what"])[beginning.len()..];
                let is_plain = beginning == LONG[0].1 && found.ends_with(" min");
                if is_plain && verdict(check) == Verdict::Right {
                    alike.entry(at.clone()).or_default().push(row);
                    continue;
                }
                let word = match verdict(check) {
                    Verdict::Right => "right",
                    Verdict::Wrong => "**wrong**",
                    Verdict::NotMeasured => "not measured",
                };
                text.push_str(&head.take().unwrap_or_default());
                let _ = writeln!(text, "  - {what}: {found}: {word}");
            }
        }
        for (at, rows) in alike {
            let _ = writeln!(text, "- Nothing reported, {at}: {}", rows.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn visit(checks: &Value) -> Value {
        let done = json!({ "checks": checks, "skipped": [{ "why": "no KVM", "remedy": "x" }] });
        json!({ "row": "a", "at": "2026-11-23 10:00", "commit": "abc", "kernel": "6.1.0-56 #1",
            "end": { "Ran": { "done": done, "stopped": null } } })
    }

    #[test]
    fn each_check_has_a_column_and_a_verdict() {
        let checks = json!([
            { "what": "packages: installs", "found": "", "passed": true },
            { "what": "timex: equal", "found": "no", "passed": false },
            { "what": "chronyd: follows", "found": "late", "passed": false, "not_measured": "busy" },
        ]);
        let newest = Stamp { date: "2026-11-24".to_owned(), commit: "def".to_owned() };
        let mut text = String::new();
        matrix(&mut text, &[visit(&checks)], &newest).unwrap();
        let row =
            "|a|6.1.0||||||||||||0, 1 not measured|1|**1 of 1 wrong**|||2026-11-23 abc, older|\n";
        assert!(text.ends_with(row), "{text}");
        let unknown = visit(&json!([{ "what": "tea: hot", "found": "", "passed": true }]));
        let refused = matrix(&mut text, &[unknown], &newest).unwrap_err();
        assert_eq!(refused, "no column for the check \"tea: hot\"");
    }

    #[test]
    fn what_is_wrong_and_what_could_not_be_had_are_listed() {
        let checks = json!([
            { "what": "watch: calm", "found": "a step", "passed": false },
            { "what": "watch: late", "found": "2 s", "passed": false, "not_measured": "busy: 3 s" },
        ]);
        let mut broken = visit(&json!([]));
        broken["end"]["Ran"]["stopped"] = json!("panic\nat once");
        let mut parts = Parts::default();
        parts.line(
            "x",
            &[visit(&checks), broken],
            |visit| self::checks(visit).to_vec(),
            Ends::Here,
        );
        assert_eq!(
            parts.wrong,
            ["`a`: watch: calm. Found: a step", "`a`: did not come to its end: panic at once"]
        );
        assert_eq!(parts.absent, ["`a`: not measured: watch: late: busy: 3 s", "`a`, `a`: no KVM"]);
        let line = &parts.lines[0];
        let counts = (line.right, line.wrong, line.not_measured, line.skipped);
        assert_eq!(counts, (0, 2, 1, 2));
    }

    #[test]
    fn what_the_lab_could_not_measure_is_listed() {
        let found = "4, and 8 not measured; lab: delay, vCPU held: not run";
        let checks = json!([
            { "what": "lab ticks: has checks", "found": found, "passed": true },
            { "what": "lab drift: has checks", "found": "3, and 0 not measured", "passed": true },
        ]);
        let line = unmeasured_in_lab(&visit(&checks)).unwrap();
        assert_eq!(line, "`a`: not measured by the lab, checks of: ticks 8 of 12");
        assert_eq!(unmeasured_in_lab(&visit(&json!([]))), None);
    }

    #[test]
    fn what_was_reported_is_counted_by_name() {
        let check = |passed: bool| json!({ "what": "watch: x", "found": "", "passed": passed, "told": ["stop", "pause|migrated"] });
        let mut text = String::new();
        reported(&mut text, &[visit(&json!([check(true), check(false), check(true)]))]);
        assert!(text.ends_with("| pause\\|migrated | 2 | **1** | stop |\n"), "{text}");
    }
}
