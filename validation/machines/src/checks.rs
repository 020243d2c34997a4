//! Checks: each states its condition and what was found.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::load::{Load, Need};
use crate::records::Record;

/// A reading from outside known less well than this decides nothing, s.
pub(crate) const READ_TO_S: f64 = 0.5;

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// It failed, and this system did not give it what it needs.
    NotMeasured,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// The condition.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether the condition is met.
    pub(crate) passed: bool,
    /// Why it was not measured, in figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_measured: Option<String>,
    /// What it needs from this system. A check without a need does not depend on timing.
    #[serde(skip)]
    need: Option<Need>,
    /// Where something was caused: what, and what `watch` told of it.
    #[serde(default)]
    pub(crate) told: Option<(String, String)>,
}

/// Those of a row.
pub(crate) type Checks = Vec<Check>;

impl Check {
    pub(crate) fn new(what: impl Into<String>, found: impl Into<String>, passed: bool) -> Self {
        Self {
            what: what.into(),
            found: found.into(),
            passed,
            not_measured: None,
            need: None,
            told: None,
        }
    }

    /// States its need, beside which no other counts.
    pub(crate) fn needing(mut self, need: Need) -> Self {
        self.need = Some(need);
        self
    }

    /// States what it takes to be wrong by this much: a wait for a CPU that is as long.
    pub(crate) fn missed_by_s(self, miss_s: f64) -> Self {
        match Duration::try_from_secs_f64(miss_s) {
            Ok(miss) if !miss.is_zero() => self.needing(Need::Prompt(miss)),
            _ => self,
        }
    }

    /// It was tried, and cannot be decided here.
    pub(crate) fn not_measured(mut self, why: &str) -> Self {
        self.passed = false;
        self.not_measured = Some(format!("busy: {why}"));
        self
    }

    /// A clock that passed by a reading from outside known to ± `bound_s`. One of half a second or
    /// more does not tell a right clock from one that a stop of a second or two left behind.
    pub(crate) fn read_to_s(self, bound_s: f64) -> Self {
        if self.passed && bound_s >= READ_TO_S {
            let why = format!(
                "the clock was read to ± {bound_s:.3} s, the check needs less than {READ_TO_S} s"
            );
            return self.not_measured(&why);
        }
        self
    }

    /// Whether the load of this system is why it failed.
    pub(crate) fn settle(&mut self, load: &Load) {
        if let Some(need) = self.need.take().filter(|_| !self.passed) {
            self.not_measured = load.shortage(need);
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match (self.passed, &self.not_measured) {
            (true, _) => Verdict::Passed,
            (false, None) => Verdict::Failed,
            (false, Some(_)) => Verdict::NotMeasured,
        }
    }

    pub(crate) fn is_wrong(&self) -> bool {
        self.verdict() == Verdict::Failed
    }

    /// What was caused, and the kinds that `watch` told, each a set.
    pub(crate) fn told(mut self, caused: &str, told: &[String]) -> Self {
        let told = if told.is_empty() { "nothing".to_owned() } else { told.join(", ") };
        self.told = Some((caused.to_owned(), told));
        self
    }

    /// A check of something that may be missing: then it fails.
    pub(crate) fn of<T>(
        what: &str,
        found: Result<T, String>,
        assess: impl FnOnce(T) -> (String, bool),
    ) -> Self {
        let (found, passed) = found.map_or_else(|why| (why, false), assess);
        Self::new(what, found, passed)
    }
}

/// The output of the commands, by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outputs<'a>(pub(crate) &'a [Record]);

impl<'a> Outputs<'a> {
    /// What a command printed; an error if there is no record of it.
    pub(crate) fn stdout(self, name: &str) -> Result<&'a str, String> {
        let record = self.0.iter().find(|record| record.name == name);
        record.map(|record| record.stdout.trim()).ok_or_else(|| format!("no record of {name}"))
    }

    /// What a command printed, as JSON.
    pub(crate) fn json(self, name: &str) -> Result<Value, String> {
        serde_json::from_str(self.stdout(name)?).map_err(|error| format!("{name}: {error}"))
    }
}

/// The items of a JSON list; none of what is no list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The findings of `doctor`, as it printed its report in JSON.
pub(crate) fn findings(report: &str) -> Result<Vec<Value>, String> {
    let report: Value = serde_json::from_str(report).map_err(|why| format!("doctor: {why}"))?;
    Ok(list(&report["diagnosis"]["findings"]).to_vec())
}

/// The kinds that fit a disruption, as the summary of `watch` joins them:
/// `pause|migrated`. None if the event is no disruption.
pub(crate) fn kinds(event: &Value) -> Option<String> {
    let kinds = event["kinds"].as_array().filter(|_| event["event"] == "disruption")?;
    Some(kinds.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Load =
        Load::busy(Duration::from_secs(100), Duration::from_secs(90), Duration::from_millis(500));

    #[test]
    fn a_wrong_answer_is_wrong_where_its_check_had_what_it_needs() {
        let verdict = |passed, need: Option<Need>, load: &Load| {
            let mut check = Check::new("x", "y", passed);
            if let Some(need) = need {
                check = check.needing(need);
            }
            check.settle(load);
            check.verdict()
        };
        let prompt = |ms| Some(Need::Prompt(Duration::from_millis(ms)));
        let cpu = |s| Some(Need::Cpu(Duration::from_secs(s)));
        assert_eq!(verdict(false, prompt(501), &BUSY), Verdict::Failed, "with enough CPU");
        assert_eq!(verdict(false, cpu(10), &BUSY), Verdict::Failed, "with enough CPU");
        assert_eq!(verdict(false, prompt(500), &BUSY), Verdict::NotMeasured);
        assert_eq!(verdict(false, cpu(11), &BUSY), Verdict::NotMeasured);
        assert_eq!(verdict(false, None, &BUSY), Verdict::Failed, "it does not depend on timing");
        assert_eq!(verdict(true, prompt(1), &BUSY), Verdict::Passed, "right however busy it is");
        assert_eq!(verdict(false, prompt(1), &Load::default()), Verdict::Failed, "no account");
    }

    #[test]
    fn a_miss_is_excused_by_a_wait_as_long_and_no_shorter() {
        let verdict = |miss_s| {
            let mut check = Check::new("x", "y", false).missed_by_s(miss_s);
            check.settle(&BUSY);
            check.verdict()
        };
        assert_eq!(verdict(0.4), Verdict::NotMeasured);
        assert_eq!(verdict(0.6), Verdict::Failed, "a wait of 0.5 s does not explain it");
        for no_size in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(verdict(no_size), Verdict::Failed, "{no_size}");
        }
    }

    #[test]
    fn a_reading_that_took_seconds_proves_nothing_and_excuses_nothing() {
        let verdict = |passed, bound_s| Check::new("x", "y", passed).read_to_s(bound_s).verdict();
        assert_eq!(verdict(true, 0.499), Verdict::Passed);
        // As once counted as right: -0.503 ± 2.034 s after a stop of 2 s.
        assert_eq!(verdict(true, 2.034), Verdict::NotMeasured);
        assert_eq!(verdict(false, 2.034), Verdict::Failed, "it is off by more than the bound");
    }

    #[test]
    fn a_check_of_an_earlier_run_is_read_and_one_not_measured_is_kept() {
        let old = r#"{"what":"x","found":"y","passed":false,"told":null,"late":[]}"#;
        assert_eq!(serde_json::from_str::<Check>(old).unwrap().verdict(), Verdict::Failed);
        let mut check = Check::new("x", "y", false).missed_by_s(0.1);
        check.settle(&BUSY);
        let text = serde_json::to_string(&check).unwrap();
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check);
    }
}
