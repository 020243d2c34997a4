//! testdata/logs: published logs with truths written by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::judge::{Faults, Truth, judge, states_cause};
use super::{findings, text};

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) truth: Truth,
    pub(crate) log: String,
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/logs"))
}

/// `key = value` in one line each, as all cases are written.
fn parse(toml: &str) -> BTreeMap<String, String> {
    let lines = toml.lines().filter_map(|line| line.split_once(" = "));
    let value = |value: &str| match value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        Some(text) => text.replace("\\\"", "\""),
        None => value.to_owned(),
    };
    lines.map(|(key, text)| (key.to_owned(), value(text))).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let folders = std::fs::read_dir(root()).expect("testdata/logs");
    let mut folders: Vec<_> = folders.map(|entry| entry.expect("one").path()).collect();
    folders.sort();
    let cases = folders.into_iter().filter(|folder| folder.join("case.toml").exists());
    cases
        .map(|folder| {
            let read = |file| std::fs::read(folder.join(file)).expect("a file");
            let toml = String::from_utf8(read("case.toml")).expect("UTF-8");
            let keys = parse(&toml);
            let log = String::from_utf8_lossy(&read("log.txt")).into_owned();
            let text = |key: &str| keys.get(key).cloned().unwrap_or_default();
            let number = |key: &str| keys.get(key).and_then(|value| value.parse::<f64>().ok());
            let truth = Truth {
                cause: text("cause"),
                size_ns: number("size_ns"),
                sign: number("sign").map_or(0, |sign| sign as i8),
                tolerance_ns: number("tolerance_ns").unwrap_or(0.0),
                cs_hz: number("cs_hz"),
                is_size_in_lines: is_size_in_lines(&log),
                blame: text("blame"),
                remedy: text("remedy"),
            };
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            Case { name, truth, log }
        })
        .collect()
}

/// Counters alone give no time: the TSC's rate must be in the lines, or a time. The truths'
/// other rates are from the thread around the log.
fn is_size_in_lines(log: &str) -> bool {
    let times = ["_nsec", "delta", "GHz", "MHz", "BogoMIPS", "delay of", "chronyd", "seconds"];
    let is_counters_alone = log.contains("cs_now") || log.contains(" warp");
    !is_counters_alone || times.iter().any(|part| log.contains(part))
}

fn describe(case: &Case, faults: &Faults) -> String {
    let findings = findings(&case.log);
    let texts: Vec<_> = findings.iter().map(text).collect();
    format!("## {}: {}\n{}\n\n", case.name, faults.all().join("; "), texts.join("\n--\n"))
}

/// What the docs' page and results.json state.
#[derive(Default)]
struct Count {
    cases: usize,
    right: usize,
    open: usize,
}

#[test]
fn each_published_log_is_read_right() {
    let mut wrong = String::new();
    let mut count = Count::default();
    let cases = cases();
    for case in &cases {
        let findings = findings(&case.log);
        let faults = judge(&case.truth, &findings);
        count.cases += 1;
        if faults == Faults::default() {
            count.right += 1;
            let is_healthy = case.truth.cause == "nothing-wrong";
            count.open += usize::from(!is_healthy && !states_cause(&case.truth, &findings));
        } else {
            wrong += &describe(case, &faults);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    compare_page(&count);
}

/// The totals of docs/validation/clock-logs.md and of results.json.
fn compare_page(all: &Count) {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let page = read("../../docs/validation/clock-logs.md");
    for total in
        [format!("{} of {} right", all.right, all.cases), format!("In {} of them", all.open)]
    {
        assert!(page.contains(&total), "docs/validation/clock-logs.md lacks {total:?}");
    }
    let results = read("results.json");
    let total = format!("\"cases\": {}, \"right\": {}", all.cases, all.right);
    assert!(results.contains(&total), "results.json lacks {total}");
    for number in ["\"right\": 16,", "\"right\": 119,"] {
        assert!(results.contains(number), "results.json lacks {number}");
    }
}
