//! Checks: each states its condition and what was found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::records::Record;

/// A reading from outside known less well than this decides nothing, s: it does not tell a right
/// clock from one that a stop of a second or two left behind.
pub(crate) const READ_TO_S: f64 = 0.5;

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// The condition.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether the condition is met.
    pub(crate) passed: bool,
}

/// Those of a row.
pub(crate) type Checks = Vec<Check>;

impl Check {
    pub(crate) fn new(what: impl Into<String>, found: impl Into<String>, passed: bool) -> Self {
        Self { what: what.into(), found: found.into(), passed }
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

/// Whether a clock that was read to be ahead by this, within a bound, is right to a limit, s.
pub(crate) fn is_within(limit_s: f64, (ahead_s, bound_s): (f64, f64)) -> bool {
    bound_s < READ_TO_S && ahead_s.abs() <= bound_s + limit_s
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

    #[test]
    fn a_reading_that_took_seconds_proves_nothing() {
        assert!(is_within(0.05, (-0.4, 0.499)));
        // -0.503 ± 2.034 s after a stop of 2 s.
        assert!(!is_within(0.05, (-0.503, 2.034)));
        assert!(!is_within(0.05, (0.3, 0.2)));
    }
}
