//! The lab's own checks, on the stock kernel's KVM.

use serde_json::Value;

use super::{Check, Outputs};
use crate::commands::COMMANDS;

/// Each check of each command named `lab-…`.
pub(super) fn all(outputs: Outputs<'_>) -> Vec<Check> {
    let commands = COMMANDS.iter().filter(|command| command.name.starts_with("lab-"));
    commands.flat_map(|command| of_command(command.name, outputs)).collect()
}

/// A report without checks fails, and so does a check that was not measured:
/// this kernel has everything that the lab needs.
fn of_command(name: &str, outputs: Outputs<'_>) -> Vec<Check> {
    let found = outputs.json(name).map(|report| {
        let experiments = report.get("experiments").and_then(Value::as_array);
        let of_one = |one: &Value| one.get("checks").and_then(Value::as_array).cloned();
        experiments.into_iter().flatten().filter_map(of_one).flatten().collect::<Vec<_>>()
    });
    match found {
        Ok(checks) if !checks.is_empty() => {
            checks.iter().map(|check| of_check(name, check)).collect()
        }
        Ok(_) => vec![Check::new(format!("{name}: has checks"), "none", false)],
        Err(why) => vec![Check::new(format!("{name}: has checks"), why, false)],
    }
}

fn of_check(name: &str, check: &Value) -> Check {
    let word = |key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default();
    let verdict = check.get("verdict");
    let why = verdict.and_then(|verdict| verdict.get("not-measured")).and_then(Value::as_str);
    let found = why.map_or_else(|| word("found").to_owned(), |why| format!("not measured: {why}"));
    let what = format!("{name}: {}: {}", word("name"), word("expected"));
    Check::new(what, found, verdict.and_then(Value::as_str) == Some("passed"))
}
