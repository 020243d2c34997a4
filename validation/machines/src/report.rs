//! docs/validation/machines.md: what became of each row, command by command.

mod lab;

use std::fmt::Write as _;

use crate::checks::{Check, Verdict};
use crate::visit::{End, Visit};

/// The columns: a check belongs to the first of these that it begins with.
const COLUMNS: [&str; 12] = [
    "boot", "doctor", "clocks", "bench", "watch", "latency", "drift", "keep", "service",
    "packages", "lab", "capture",
];

/// Those of them that are about keeping the clock, and about what is installed for that.
const KEEPING: [&str; 3] = ["keep", "service", "packages"];

/// The widest line of the page, but for a table's.
const WIDTH: usize = 80;

/// The whole page; the setting is name and content of each of its lines.
pub(crate) fn page(setting: &[(&str, String)], visits: &[Visit], missing: &[&str]) -> String {
    let mut text = String::from("# Real kernels and hypervisors\n\n");
    paragraph(
        &mut text,
        "",
        "`cargo xtask machines --record` writes this page: each row of `validation/machines/machines.toml` is a \
         stock kernel of Debian under a hypervisor. `parachron` runs in it, and its output is \
         held against the truth that the row states. A cell is the number of checks that passed, \
         or of those that did not. A check that depends on timing states what it needs from the \
         system below the machine; where it failed without that, it was not measured.",
    );
    setting_table(&mut text, setting);
    matrix(&mut text, visits);
    kernels(&mut text, visits);
    failures(&mut text, visits);
    caused(&mut text, visits);
    lab::measured(&mut text, visits);
    not_measured(&mut text, visits);
    skipped(&mut text, visits, missing);
    text
}

/// docs/validation/keep.md: each thing that was done to a machine whose clock is
/// kept, and what came of it.
pub(crate) fn keep_page(setting: &[(&str, String)], visits: &[Visit]) -> String {
    let mut text = String::from("# The clock kept in real machines\n\n");
    paragraph(
        &mut text,
        "",
        "`cargo xtask machines --record` writes this page: what was done to stock kernels whose \
         clock `parachron keep` or `parachrond` keeps, and what the clock of the system \
         outside showed then. The machines are emulated, and slow.",
    );
    setting_table(&mut text, setting);
    for Visit { row, at, kernel, end, .. } in visits {
        let End::Ran(ran) = end else { continue };
        let is_kept = |check: &&Check| KEEPING.iter().any(|name| is_of(check, name));
        let checks: Vec<&Check> = ran.done.checks.iter().filter(is_kept).collect();
        if checks.is_empty() {
            continue;
        }
        let release = kernel.split(' ').next().unwrap_or_default();
        let _ = write!(text, "\n## {row}\n\n{at} UTC, Linux {release}\n\n");
        text.push_str("| done and expected | found | |\n| --- | --- | --- |\n");
        for check in checks {
            let Check { what, found, .. } = check;
            let found = found.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
            let (what, verdict) = (what.replace('|', "\\|"), word(check));
            let _ = writeln!(text, "| {what} | {found} | {verdict} |");
        }
    }
    text
}

/// docs/validation/long.md: what came of the long runs.
pub(crate) fn long_page(setting: &[(&str, String)], visits: &[Visit], missing: &[&str]) -> String {
    let mut text = String::from("# Long runs in real machines\n\n");
    paragraph(
        &mut text,
        "",
        "`cargo xtask machines --long --record` writes this page: what `watch` reported in \
         ten minutes of each machine's time in which nothing was caused, when a clock was right \
         again after a stop of ten minutes, and how often `drift`'s 95 % interval held what is true of the \
         reference.",
    );
    setting_table(&mut text, setting);
    let parts = [
        ("Ten calm minutes", "watch: "),
        ("Ten minutes away", "service: "),
        ("A hundred intervals", "drift: "),
    ];
    for (title, beginning) in parts {
        let _ = write!(text, "\n## {title}\n\n");
        text.push_str("| row | at, UTC | commit | expected | found | |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for Visit { row, at, commit, end, .. } in visits {
            let End::Ran(ran) = end else { continue };
            let of_these = |check: &&Check| check.what.starts_with(beginning);
            for check in ran.done.checks.iter().filter(of_these) {
                let Check { what, found, .. } = check;
                let (what, found) = (&what[beginning.len()..], found.replace('|', "\\|"));
                let verdict = word(check);
                let _ =
                    writeln!(text, "| {row} | {at} | {commit} | {what} | {found} | {verdict} |");
            }
        }
    }
    failures(&mut text, visits);
    not_measured(&mut text, visits);
    skipped(&mut text, visits, missing);
    text
}

/// A check's verdict in a table.
fn word(check: &Check) -> &'static str {
    match check.verdict() {
        Verdict::Passed => "right",
        Verdict::Failed => "**wrong**",
        Verdict::NotMeasured => "not measured",
    }
}

/// Name and content of each line.
fn setting_table(text: &mut String, setting: &[(&str, String)]) {
    text.push_str("\n| | |\n| --- | --- |\n");
    for (name, content) in setting {
        let _ = writeln!(text, "| {name} | {} |", content.replace('|', "\\|"));
    }
}

/// Row by command.
fn matrix(text: &mut String, visits: &[Visit]) {
    let _ = write!(text, "\n## Row by command\n\n| row | {} |\n", COLUMNS.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(COLUMNS.len()));
    for Visit { row, end, .. } in visits {
        let cells = match end {
            End::Ran(ran) => {
                let mut cells = COLUMNS.map(|column| cell(&ran.done.checks, column));
                if ran.stopped.is_some() {
                    cells[0] = "**broken**".to_owned();
                }
                cells.join(" | ")
            }
            End::Skipped(_) => format!("skipped |{}", " |".repeat(COLUMNS.len() - 2)),
            End::Broken(_) => format!("**broken** |{}", " |".repeat(COLUMNS.len() - 2)),
        };
        let _ = writeln!(text, "| {} | {cells} |", row);
    }
}

fn cell(checks: &[Check], column: &str) -> String {
    let of_column: Vec<&Check> = checks.iter().filter(|check| is_of(check, column)).collect();
    let count = |verdict| of_column.iter().filter(|check| check.verdict() == verdict).count();
    match (of_column.len(), count(Verdict::Failed), count(Verdict::NotMeasured)) {
        (0, ..) => "–".to_owned(),
        (all, 0, 0) => all.to_string(),
        (all, 0, not_measured) => format!("{}, {not_measured} not measured", all - not_measured),
        (all, failed, _) => format!("**{failed} of {all} failed**"),
    }
}

fn is_of(check: &Check, column: &str) -> bool {
    COLUMNS.iter().find(|name| check.what.starts_with(**name)) == Some(&column)
}

/// Which kernel each row booted, and when, at which state of this repository.
fn kernels(text: &mut String, visits: &[Visit]) {
    text.push_str("\n## Kernels and dates\n\n| row | date, UTC | commit | s | kernel |\n");
    text.push_str("| --- | --- | --- | ---: | --- |\n");
    for Visit { row, at, commit, kernel, took_s, .. } in visits {
        let release = kernel.split(' ').next().unwrap_or_default();
        let _ = writeln!(text, "| {row} | {at} | {commit} | {took_s:.0} | {release} |");
    }
}

/// Every failed check and every row that did not get through.
fn failures(text: &mut String, visits: &[Visit]) {
    text.push_str("\n## What failed\n\n");
    let before = text.len();
    visits.iter().for_each(|visit| failures_of(text, visit));
    if text.len() == before {
        text.push_str("Nothing.\n");
    }
}

fn failures_of(text: &mut String, visit: &Visit) {
    let mut line = |what: &str| paragraph(text, "- ", &format!("{}: {what}", visit.row));
    let why = match &visit.end {
        End::Ran(ran) => {
            for Check { what, found, .. } in ran.done.checks.iter().filter(|one| one.is_wrong()) {
                line(&format!("{what} — found: {found}"));
            }
            ran.stopped.as_ref()
        }
        End::Broken(why) => Some(why),
        End::Skipped(_) => None,
    };
    if let Some(why) = why {
        line(why.lines().next().unwrap_or_default());
    }
}

/// Every check that this system was too busy for.
fn not_measured(text: &mut String, visits: &[Visit]) {
    text.push_str("\n## Not measured\n\n");
    let before = text.len();
    for Visit { row, end, .. } in visits {
        let End::Ran(ran) = end else { continue };
        for Check { what, found, not_measured, .. } in &ran.done.checks {
            if let Some(why) = not_measured {
                paragraph(text, "- ", &format!("{row}: {what} — {why}; found: {found}"));
            }
        }
    }
    if text.len() == before {
        text.push_str("Nothing.\n");
    }
}

/// What was caused by what `watch` told, a line for each pair, and how often.
fn caused(text: &mut String, visits: &[Visit]) {
    text.push_str("\n## Caused, and reported by `watch`\n\n");
    paragraph(
        text,
        "",
        "Over all rows. `a|b`: one of these, which the machine cannot distinguish. Wrong: \
         another name, another size than the bound stated with it allows, or later than 1 s. \
         What was not measured is not counted.",
    );
    text.push_str("\n| caused | reported | right | wrong |\n");
    text.push_str("| --- | --- | ---: | ---: |\n");
    let mut pairs: Vec<(&(String, String), [usize; 2])> = Vec::new();
    let all = visits.iter().filter_map(|visit| match &visit.end {
        End::Ran(ran) => Some(&ran.done.checks),
        End::Skipped(_) | End::Broken(_) => None,
    });
    let measured = all.flatten().filter(|check| check.verdict() != Verdict::NotMeasured);
    let told =
        measured.filter_map(|check| Some((check.told.as_ref()?, usize::from(!check.passed))));
    for (pair, which) in told {
        let at = pairs.iter().position(|(known, _)| *known == pair).unwrap_or_else(|| {
            // Beside the others of one cause.
            let behind = pairs.iter().rposition(|(known, _)| known.0 == pair.0);
            let at = behind.map_or(pairs.len(), |at| at + 1);
            pairs.insert(at, (pair, [0; 2]));
            at
        });
        pairs[at].1[which] += 1;
    }
    for ((caused, told), [right, wrong]) in pairs {
        let told = told.replace('|', "\\|");
        let _ = writeln!(text, "| {caused} | {told} | {right} | {wrong} |");
    }
}

fn skipped(text: &mut String, visits: &[Visit], missing: &[&str]) {
    text.push_str("\n## Skipped\n\n");
    let before = text.len();
    if !missing.is_empty() {
        paragraph(text, "- ", &format!("not run: {}", missing.join(", ")));
    }
    for Visit { row, end, .. } in visits {
        let all = match end {
            End::Skipped(one) => std::slice::from_ref(one),
            End::Ran(ran) => &ran.done.skipped,
            End::Broken(_) => &[],
        };
        for one in all {
            paragraph(text, "- ", &format!("{}: {}; remedy: {}", row, one.why, one.remedy));
        }
    }
    if text.len() == before {
        text.push_str("Nothing.\n");
    }
}

/// Words in lines of at most the page's width; the first begins with a mark,
/// and the others are as far in.
pub(crate) fn paragraph(text: &mut String, mark: &str, words: &str) {
    let mut line = mark.to_owned();
    let indent = " ".repeat(mark.len());
    for word in words.split_whitespace() {
        let is_empty = line.trim_end().len() <= mark.trim_end().len();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line.clone_from(&indent);
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::deeds::Done;
    use crate::load::Load;
    use crate::visit::Ran;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn words_are_wrapped_below_their_mark() {
        let mut text = String::new();
        paragraph(&mut text, "- ", &"four ".repeat(20));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("- four four") && lines[0].len() <= WIDTH, "{text}");
        assert!(lines[1].starts_with("  four"), "{text}");
    }

    /// The upgrade by dpkg was done in two rows, and told on no page.
    #[test]
    fn what_is_done_with_packages_is_on_the_page_of_keeping_the_clock() {
        let checks = vec![
            Check::new("packages: upgraded: the configuration is kept", "kept", true),
            Check::new("watch: x", "y", true),
        ];
        let done = Done { checks, skipped: Vec::new() };
        let visits = [Visit::ran("debian-13-packages", done)];
        let kept = keep_page(&[], &visits);
        assert!(kept.contains("| packages: upgraded: the configuration is kept | kept | right |"));
        assert!(!kept.contains("watch: x"), "{kept}");
        let all = page(&[], &visits, &[]);
        assert!(
            all.contains("| debian-13-packages | – | – | – | – | 1 | – | – | – | – | 1 | – | – |")
        );
    }

    #[test]
    fn what_was_told_of_a_cause_is_counted() {
        let told = |caused, told: &str, passed| {
            Check::new("watch: x", "", passed).told(caused, &[told.to_owned()])
        };
        let checks = vec![
            told("stop", "pause", true),
            told("date", "clock-set", true),
            told("stop", "pause|migrated", false),
            told("stop", "pause", true),
        ];
        let mut text = String::new();
        let done = |checks| Done { checks, skipped: Vec::new() };
        // Another row failed, and one was not measured.
        let wrong = told("stop", "pause|migrated", false);
        let mut busy = done(vec![wrong.clone().missed_by_s(0.5)]);
        busy.settle(0, &Load::busy(SECOND, SECOND, SECOND));
        let wrong = Ran {
            done: done(vec![wrong]),
            stopped: Some("the kernel panicked\nat once".to_owned()),
            ..Ran::default()
        };
        let visits = [
            Visit::ran("a", done(checks)),
            Visit { end: End::Ran(wrong), ..Visit::ran("b", Done::default()) },
            Visit::ran("c", busy),
        ];
        caused(&mut text, &visits);
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        assert_eq!(
            lines,
            [
                "| date | clock-set | 1 | 0 |",
                "| stop | pause\\|migrated | 0 | 2 |",
                "| stop | pause | 2 | 0 |"
            ]
        );
        text.clear();
        failures(&mut text, &visits);
        assert!(text.contains("- b: the kernel panicked\n"), "{text}");
        assert_eq!([text.matches("- a").count(), text.matches("- b").count()], [1, 2], "{text}");
        assert!(!text.contains("- c"), "{text}");
        text.clear();
        not_measured(&mut text, &visits);
        assert!(text.contains("- c: watch: x — busy: waited up to 1.0000 s"), "{text}");
    }

    #[test]
    fn a_cell_counts_what_failed_or_else_what_passed() {
        let check = |what: &str, passed| Check::new(what, "", passed);
        let checks = [check("doctor: a", true), check("doctor: b", false), check("watch: c", true)];
        assert_eq!(cell(&checks, "doctor"), "**1 of 2 failed**");
        assert_eq!(cell(&checks, "watch"), "1");
        assert_eq!(cell(&checks, "lab"), "–");
        let mut busy = Done { checks: vec![check("lab: a", true)], skipped: Vec::new() };
        busy.checks.push(check("lab: b", false).missed_by_s(0.5));
        busy.settle(0, &Load::busy(SECOND, SECOND, SECOND));
        assert_eq!(cell(&busy.checks, "lab"), "1, 1 not measured");
    }
}
