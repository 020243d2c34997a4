//! How many checks ended which way, read from what test programs print.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;

/// How many checks ended which way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// The host did not give the time that the measurement needs.
    pub(crate) not_measured: u64,
    /// The machine lacks what the check needs.
    pub(crate) skipped: u64,
}

impl Counts {
    /// Those of a closing line: libtest's `test result: ok. 3 passed; 0 failed; 1 ignored`, or
    /// `machines: 9 passed, 0 failed, 1 not measured, 2 skipped`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let rest = match line.split_once("test result: ") {
            Some((_, rest)) => rest.split_once(' ')?.1,
            None => {
                let (name, rest) = line.split_once(": ")?;
                // `machines: …`, or the lab's `231 checks: …`.
                let is_name =
                    !name.is_empty() && (!name.contains(' ') || name.ends_with(" checks"));
                is_name.then_some(rest)?
            }
        };
        let mut counts = Self::default();
        let mut has_passed = false;
        for part in rest.split([';', ',']) {
            let Some((number, kind)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            if kind.starts_with("passed") {
                counts.passed = number;
                has_passed = true;
            } else if kind.starts_with("failed") {
                counts.failed = number;
            } else if kind.starts_with("not measured") {
                counts.not_measured = number;
            } else if kind.starts_with("skipped") || kind.starts_with("ignored") {
                counts.skipped = number;
            }
        }
        has_passed.then_some(counts)
    }

    /// All that were to be checked.
    pub(crate) fn all(self) -> u64 {
        self.passed + self.failed + self.not_measured + self.skipped
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.not_measured += other.not_measured;
        self.skipped += other.skipped;
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        let mut sum = Self::default();
        counts.for_each(|counts| sum += counts);
        sum
    }
}

/// What the lines of a program came to so far.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    counts: Counts,
    /// Tests that found nothing to test, or no time to: each prints why past the harness,
    /// which counts it as passed. Until the closing line of their program.
    pending: Counts,
    /// Programs that counted their checks.
    closing_lines: u64,
    /// Why checks were skipped or not measured, and how often.
    pub(crate) reasons: BTreeMap<String, u64>,
}

impl Reader {
    /// Takes one more line; returns the counts of a program at its closing line.
    pub(crate) fn read(&mut self, line: &str) -> Option<Counts> {
        if let Some(mut counts) = Counts::parse(line) {
            let pending = std::mem::take(&mut self.pending);
            counts.passed = counts.passed.saturating_sub(pending.all());
            counts += pending;
            self.counts += counts;
            self.closing_lines += 1;
            return Some(counts);
        }
        if let Some(why) = reason(line, "[skipped: ").and_then(|why| why.split(']').next()) {
            self.count_reason("skipped: ", why);
        } else if let Some(why) = reason(line, "skipped: ") {
            self.pending.skipped += 1;
            self.count_reason("skipped: ", why);
        } else if let Some(why) = not_measured(line) {
            self.pending.not_measured += 1;
            self.count_reason("not measured: ", why);
        } else if let Some(why) = reason(line, "SKIPPED: ") {
            self.count_reason("skipped: ", why);
        } else if let Some(why) = reason(line, "NOT MEASURED: ") {
            self.count_reason("not measured: ", why);
        }
        None
    }

    fn count_reason(&mut self, kind: &str, why: &str) {
        *self.reasons.entry(format!("{kind}{}", why.trim_end())).or_default() += 1;
    }

    /// Whether programs counted their checks, and had none.
    pub(crate) fn ran_nothing(&self) -> bool {
        self.closing_lines > 0 && self.counts.all() == 0
    }

    /// Those of all closing lines.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

/// Why a test was not measured: at the beginning of the line, or behind the harness' name of
/// the test that runs.
fn not_measured(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('.').rsplit(" ... ").next()?;
    rest.strip_prefix("not measured: ")
}

/// What follows a mark.
fn reason<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    line.split_once(mark).map(|(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_parsed_and_others_are_not() {
        let counts = |passed, failed, not_measured, skipped| {
            Some(Counts { passed, failed, not_measured, skipped })
        };
        let libtest = "test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 9 filtered out; finished in 0.1s";
        assert_eq!(Counts::parse(libtest), counts(4, 1, 0, 2));
        assert_eq!(Counts::parse(&format!("..{libtest}")), counts(4, 1, 0, 2));
        let machines = "machines: 9 passed, 0 failed, 3 not measured, 2 skipped";
        assert_eq!(Counts::parse(machines), counts(9, 0, 3, 2));
        let check = "check: 10 passed, 1 failed (fmt), 1 skipped (semver)";
        assert_eq!(Counts::parse(check), counts(10, 1, 0, 1));
        let lab = "11 checks: 9 passed, 1 failed, 1 not measured. A single experiment";
        assert_eq!(Counts::parse(lab), counts(9, 1, 1, 0));
        for other in ["machines: 9 rows, 3 at a time", "a b: 3 passed", "ok", "x: 1 failed"] {
            assert_eq!(Counts::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_test_that_found_nothing_to_test_did_not_pass() {
        let mut reader = Reader::default();
        let text = "running 3 tests\n..skipped: no /dev/kvm\nnot measured: busy (steal 12 %)\n\
                    test result: ok. 3 passed; 0 failed; 0 ignored\n\
                    test [skipped: no chronyd] keeps_time ... ignored\n\
                    test result: FAILED. 4 passed; 1 failed; 1 ignored\n\
                    machines: SKIPPED: q35: no QEMU\nNOT MEASURED: speed: a busy machine\n";
        for line in text.lines() {
            reader.read(line);
        }
        let expected = Counts { passed: 5, failed: 1, not_measured: 1, skipped: 2 };
        assert_eq!(reader.counts(), expected);
        let reasons: Vec<&str> = reader.reasons.keys().map(String::as_str).collect();
        assert_eq!(
            reasons,
            [
                "not measured: busy (steal 12 %)",
                "not measured: speed: a busy machine",
                "skipped: no /dev/kvm",
                "skipped: no chronyd",
                "skipped: q35: no QEMU"
            ]
        );
    }
}
