//! What must hold of the guest's records, stated by each with what was found.

pub(crate) mod clocks;
mod lab;

use serde_json::Value;

use crate::nested::commands::COMMANDS;
use crate::nested::records::Record;

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// What must hold.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether it holds.
    pub(crate) holds: bool,
}

impl Check {
    fn new(what: impl Into<String>, found: impl Into<String>, holds: bool) -> Self {
        Self { what: what.into(), found: found.into(), holds }
    }

    /// A check of something that may not be there: then it does not hold.
    pub(crate) fn of<T>(
        what: &str,
        found: Result<T, String>,
        judge: impl FnOnce(T) -> (String, bool),
    ) -> Self {
        let (found, holds) = found.map_or_else(|why| (why, false), judge);
        Self::new(what, found, holds)
    }
}

/// Records by name, and their JSON by pointer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Results<'a>(pub(crate) &'a [Record]);

impl<'a> Results<'a> {
    /// What a command printed, or that it sent nothing.
    pub(crate) fn stdout(self, name: &str) -> Result<&'a str, String> {
        let record = self.0.iter().find(|record| record.name == name);
        record.map(|record| record.stdout.trim()).ok_or_else(|| format!("no record of {name}"))
    }

    /// What a command printed, as JSON.
    pub(crate) fn json(self, name: &str) -> Result<Value, String> {
        serde_json::from_str(self.stdout(name)?).map_err(|error| format!("{name}: {error}"))
    }
}

/// All checks, in the order of the commands.
pub(crate) fn all(records: &[Record]) -> Vec<Check> {
    let results = Results(records);
    let mut checks = vec![all_ran(records), kvm_is_loaded(results)];
    checks.push(Check::of("the RTC is the machine's CMOS RTC", results.stdout("rtc"), |name| {
        (name.to_owned(), name.starts_with("rtc_cmos"))
    }));
    checks.extend(clocks::all(results));
    checks.extend(lab::all(results));
    checks
}

/// Every command came back, with exit code 0.
fn all_ran(records: &[Record]) -> Check {
    let mut ran = 0;
    let mut complaints = Vec::new();
    for command in COMMANDS {
        match records.iter().find(|record| record.name == command.name) {
            Some(record) if record.status == 0 => ran += 1,
            Some(record) => {
                let said = record.stderr.lines().next_back().unwrap_or_default();
                complaints.push(format!("{}: exit code {}: {said}", record.name, record.status));
            }
            None => complaints.push(format!("{}: no record", command.name)),
        }
    }
    complaints.insert(0, format!("{ran} of {} did", COMMANDS.len()));
    let holds = complaints.len() == 1;
    Check::new("every command ends with exit code 0", complaints.join("; "), holds)
}

fn kvm_is_loaded(results: Results<'_>) -> Check {
    Check::of("/dev/kvm is there, by kvm_amd", results.stdout("kvm"), |said| {
        let words: Vec<&str> = said.split_whitespace().collect();
        let holds = words.contains(&"/dev/kvm") && words.contains(&"kvm_amd");
        (words.join(", "), holds)
    })
}

#[cfg(test)]
mod tests;
