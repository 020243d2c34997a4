//! The checks on the first guest's records: each states its condition and
//! what was found.

pub(crate) mod clocks;
mod lab;

use serde_json::Value;

use crate::commands::COMMANDS;
use crate::records::Record;

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// The condition.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether the condition is met.
    pub(crate) passed: bool,
}

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

/// All checks, in the order of the commands.
pub(crate) fn all(records: &[Record]) -> Vec<Check> {
    let outputs = Outputs(records);
    let mut checks = vec![all_ran(records), kvm_is_loaded(outputs)];
    checks.push(Check::of("the RTC is the machine's CMOS RTC", outputs.stdout("rtc"), |name| {
        (name.to_owned(), name.starts_with("rtc_cmos"))
    }));
    checks.extend(clocks::all(outputs));
    checks.extend(lab::all(outputs));
    checks
}

/// Every command ended with exit code 0.
fn all_ran(records: &[Record]) -> Check {
    let mut ran = 0;
    let mut failures = Vec::new();
    for command in COMMANDS {
        match records.iter().find(|record| record.name == command.name) {
            Some(record) if record.status == 0 => ran += 1,
            Some(record) => {
                let last = record.stderr.lines().next_back().unwrap_or_default();
                failures.push(format!("{}: exit code {}: {last}", record.name, record.status));
            }
            None => failures.push(format!("{}: no record", command.name)),
        }
    }
    failures.insert(0, format!("{ran} of {} did", COMMANDS.len()));
    let passed = failures.len() == 1;
    Check::new("every command ends with exit code 0", failures.join("; "), passed)
}

fn kvm_is_loaded(outputs: Outputs<'_>) -> Check {
    Check::of("/dev/kvm is there, by kvm_amd", outputs.stdout("kvm"), |output| {
        let words: Vec<&str> = output.split_whitespace().collect();
        let passed = words.contains(&"/dev/kvm") && words.contains(&"kvm_amd");
        (words.join(", "), passed)
    })
}

#[cfg(test)]
mod tests;
