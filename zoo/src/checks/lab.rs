//! The lab's own checks, on the stock kernel's KVM.

use serde_json::Value;

use super::{Check, Outputs, list};
use crate::commands::COMMANDS;

/// Each check of each command named `lab-…`.
pub(super) fn all(outputs: Outputs<'_>) -> Vec<Check> {
    let commands = COMMANDS.iter().filter(|command| command.name.starts_with("lab-"));
    commands.flat_map(|command| of_command(command.name, outputs)).collect()
}

/// A report without checks fails, and so does a check that was not measured:
/// this kernel has everything that the lab needs.
fn of_command(name: &str, outputs: Outputs<'_>) -> Vec<Check> {
    let none = |why: &str| vec![Check::new(format!("{name}: has checks"), why, false)];
    let report = match outputs.json(name) {
        Ok(report) => report,
        Err(why) => return none(&why),
    };
    let checks = list(&report["experiments"]).iter().flat_map(|one| list(&one["checks"]));
    let checks: Vec<Check> = checks.map(|check| of_check(name, check)).collect();
    if checks.is_empty() { none("none") } else { checks }
}

fn of_check(name: &str, check: &Value) -> Check {
    let word = |key: &str| check[key].as_str().unwrap_or_default();
    let verdict = &check["verdict"];
    let found = match verdict["not-measured"].as_str() {
        Some(why) => format!("not measured: {why}"),
        None => word("found").to_owned(),
    };
    let what = format!("{name}: {}: {}", word("name"), word("expected"));
    Check::new(what, found, verdict == "passed")
}
