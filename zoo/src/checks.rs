//! Checks: each states its condition and what was found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::records::Record;

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// The condition.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether the condition is met.
    pub(crate) passed: bool,
    /// Where something was caused: what, and what `watch` told of it.
    #[serde(default)]
    pub(crate) told: Option<(String, String)>,
    /// What was told too late in attempts before this one.
    #[serde(default)]
    pub(crate) late: Vec<(String, String)>,
}

/// Those of a row.
pub(crate) type Checks = Vec<Check>;

impl Check {
    pub(crate) fn new(what: impl Into<String>, found: impl Into<String>, passed: bool) -> Self {
        Self { what: what.into(), found: found.into(), passed, told: None, late: Vec::new() }
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
