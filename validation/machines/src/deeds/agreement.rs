//! The lab's checks on the machine's own /dev/kvm.

use serde_json::Value;

use crate::checks::{Check, list};
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};

use super::Done;

/// The lab's experiments but `cost` and `locks`, of which an emulated CPU tells nothing.
const ALL: [&str; 9] = [
    "agreement",
    "conformance",
    "updates",
    "restore",
    "monotonic",
    "offset",
    "drift",
    "ticks",
    "network",
];

/// How long an experiment may take on an emulated CPU, s. `network` had not ended after 120 s
/// beside two other rows (2026-11-28).
const EXPERIMENT_S: u32 = 120;
const NETWORK_S: u32 = 400;

/// How the lab's reason begins where it could not measure.
pub(super) const NOT_MEASURED: &str = "not measured";

/// A report without checks fails. What the lab itself could not measure is no failure, and an
/// experiment of which nothing was measured is skipped.
pub(super) fn run(machine: &mut Machine, done: &mut Done) -> Result {
    let Done { checks, skipped } = done;
    let kvm = machine.execute("ls /dev/kvm && cut -d ' ' -f 1 /proc/modules")?;
    let words: Vec<&str> = kvm.split_whitespace().collect();
    let loaded = words.contains(&"/dev/kvm") && words.contains(&"kvm_amd");
    checks.push(Check::new("lab: /dev/kvm is there, by kvm_amd", words.join(", "), loaded));
    for experiment in ALL {
        let found = match of_experiment(machine, experiment) {
            Ok(found) => found,
            Err(why) => {
                checks.push(Check::new(format!("lab {experiment}: has a report"), why, false));
                continue;
            }
        };
        let all = found.len();
        let measured: Vec<Check> =
            found.into_iter().filter(|check| !check.found.starts_with(NOT_MEASURED)).collect();
        let count = format!("{} of {all} measured", measured.len());
        if measured.is_empty() && all > 0 {
            let why = format!("lab {experiment}: {count}");
            skipped.push(Unavailable::new(why, "run it on an idle system"));
            continue;
        }
        checks.push(Check::new(format!("lab {experiment}: has checks"), count, all > 0));
        checks.extend(measured);
    }
    Ok(())
}

fn of_experiment(machine: &mut Machine, name: &str) -> Result<Vec<Check>, String> {
    let line = format!("parachron lab {name} --format json");
    let limit_s = if name == "network" { NETWORK_S } else { EXPERIMENT_S };
    let record = machine.line.run("lab", limit_s, &line)?;
    let report: Value = serde_json::from_str(&record.stdout)
        .map_err(|error| format!("{error}: {}", record.stderr.trim()))?;
    let checks = list(&report["experiments"]).iter().flat_map(|one| list(&one["checks"]));
    Ok(checks.map(of_check).collect())
}

pub(super) fn of_check(check: &Value) -> Check {
    let word = |key: &str| check[key].as_str().unwrap_or_default();
    let verdict = &check["verdict"];
    let found = match verdict["not-measured"].as_str() {
        Some(why) => format!("{NOT_MEASURED}: {why}"),
        None => word("found").to_owned(),
    };
    let what = format!("lab: {}: {}", word("name"), word("expected"));
    Check::new(what, found, verdict == "passed")
}
