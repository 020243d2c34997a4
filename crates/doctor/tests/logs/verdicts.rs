//! testdata/verdicts: the watchdog's verdicts, each digit and each line of them.

use std::path::PathBuf;

use super::findings;
use super::judge::phrase;

struct Case {
    name: String,
    truth: Vec<(String, String)>,
    log: String,
}

impl Case {
    fn get(&self, key: &str) -> Option<&str> {
        self.truth.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn verdict(&self, log: &str) -> String {
        let finding = findings(log).into_iter().find(|f| f.rule == "tsc-marked-unstable");
        let Some(finding) = finding else { return "no finding".into() };
        let remedies: Vec<_> = finding.remedies.into_iter().map(|remedy| remedy.what).collect();
        let parts = [vec![finding.what], finding.evidence, vec![finding.why], remedies];
        parts.concat().join("\n")
    }
}

fn cases() -> Vec<Case> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/verdicts"));
    let files = std::fs::read_dir(folder)
        .expect("testdata/verdicts")
        .map(|entry| entry.expect("one").path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ext| ext == "log")).collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a case");
            let head = text.lines().take_while(|line| line.starts_with("# "));
            let truth = head.filter_map(|line| line[2..].split_once(": "));
            let truth: Vec<_> = truth.map(|(key, value)| (key.into(), value.into())).collect();
            let log = text.lines().skip(truth.len()).map(|line| format!("{line}\n")).collect();
            Case { name: path.file_stem().expect("a name").to_string_lossy().into(), truth, log }
        })
        .collect()
}

#[test]
fn each_verdict_is_the_truth() {
    let mut wrong = String::new();
    let cases = cases();
    for case in &cases {
        let verdict = case.verdict(&case.log);
        let what = verdict.lines().next().unwrap_or_default().to_owned();
        let causes = [case.get("cause"), case.get("cause_or")].into_iter().flatten();
        if !causes.map(phrase).any(|phrase| what.contains(phrase)) {
            wrong += &format!("{}: {:?}: {verdict}\n\n", case.name, case.get("cause"));
            continue;
        }
        // Size and sign.
        let skew = case.get("skew_ns").map(|skew| skew.parse::<f64>().expect("a number"));
        if let Some(skew) = skew.filter(|_| !verdict.contains("TSC minus")) {
            wrong += &format!("{}: no size, stated {skew}: {verdict}\n\n", case.name);
        } else if let Some(skew) = skew {
            let shown = instruments::figures::signed(skew, instruments::figures::time);
            if !verdict.contains(&shown) {
                wrong += &format!("{}: no {shown}: {verdict}\n\n", case.name);
            }
        }
        // Blame: a remedy that silences the watchdog or blames the firmware needs its cause.
        let acquits = verdict.contains("most likely not at fault");
        if acquits && matches!(case.get("blame"), Some("firmware" | "host or firmware")) {
            wrong += &format!("{}: the TSC is acquitted: {verdict}\n\n", case.name);
        }
        let says = case.get("says").unwrap_or_default();
        if !verdict.contains(says) {
            wrong += &format!("{}: no {says:?}: {verdict}\n\n", case.name);
        }
    }
    let count = wrong.matches("\n\n").count();
    assert!(wrong.is_empty(), "{count} of {} cases:\n{wrong}", cases.len());
}

/// Any digit of a counter or of a figure, one higher.
#[test]
fn a_changed_digit_changes_or_withdraws_the_verdict() {
    let (mut changed, mut standing) = (0, Vec::new());
    // In one case the kernel's message decides, and its figure is not used.
    for case in cases().into_iter().filter(|case| case.get("cause") != Some("cpufreq")) {
        let verdict = case.verdict(&case.log);
        for (at, byte) in case.log.bytes().enumerate() {
            let is_figure = ["_now: ", "_last: ", "_nsec: ", "delta = ", "skewed ", "Measured "]
                .iter()
                .any(|label| in_field(&case.log[..at], label));
            if !is_figure || !byte.is_ascii_hexdigit() {
                continue;
            }
            let mut log = case.log.clone().into_bytes();
            log[at] = if byte == b'9' { b'0' } else { byte + 1 };
            let log = String::from_utf8(log).expect("ASCII");
            changed += 1;
            let now = case.verdict(&log);
            let is_withdrawn = now.contains(phrase("damaged"));
            if !is_withdrawn && strip_lines(&now) == strip_lines(&verdict) {
                standing.push(format!("{}: {}", case.name, &log[at.saturating_sub(30)..at + 1]));
            }
        }
    }
    assert!(changed > 2000, "{changed}");
    assert!(
        standing.is_empty(),
        "{} of {changed}: {:#?}",
        standing.len(),
        &standing[..standing.len().min(300)]
    );
}

/// Whether a text ends inside the figure after a label.
pub(crate) fn in_field(text: &str, label: &str) -> bool {
    let Some(start) = text.rfind(label) else { return false };
    text[start + label.len()..].bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// A verdict without the lines of the log that it quotes.
pub(crate) fn strip_lines(verdict: &str) -> String {
    verdict.lines().filter(|line| !line.starts_with("kernel log: ")).collect()
}

/// Lines without which the rest shows another cause: the only witness is gone, and the
/// verdict names what the rest fits, with its alternatives.
const WITNESSES: &[(&str, &str)] = &[
    // "Or the host moved the page" stays in the explanation.
    ("kvm-hotplug", "hotplugged CPU: 3"),
    // "Either the reads were late" stays in the explanation.
    ("rcutorture-cs", "retried 3 times"),
];

/// Without any one of its lines a log shows the same cause, or none.
#[test]
fn a_line_that_is_missing_turns_no_verdict_into_a_false_one() {
    let none = ["not-logged", "rate-unknown", "damaged", "one-check"].map(phrase);
    let mut wrong = String::new();
    for case in cases() {
        let causes = [case.get("cause"), case.get("cause_or")].into_iter().flatten();
        let right: Vec<_> = causes.map(phrase).chain(none).chain(["no finding"]).collect();
        for dropped in 0..case.log.lines().count() {
            let lines = case.log.lines().enumerate().filter(|(at, _)| *at != dropped);
            let log: String = lines.map(|(_, line)| format!("{line}\n")).collect();
            let verdict = case.verdict(&log);
            let what = verdict.lines().next().unwrap_or_default();
            let line = case.log.lines().nth(dropped).unwrap_or_default();
            let is_witness =
                WITNESSES.iter().any(|(name, part)| case.name == *name && line.contains(part));
            if !is_witness && !right.iter().any(|phrase| what.contains(phrase)) {
                wrong += &format!("{} without `{line}`: {what}\n", case.name);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
