//! Somebody sets the time of day of the emulated host, and nothing of that reaches its machine:
//! KVM's page keeps its line, and the clocks that count by it go on.

use std::time::Duration;

use serde_json::Value;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::shell::Shell;

use super::Place;
use super::watching::{self, Caused};

const BY_S: [i32; 2] = [3600, -3600];

const REPLY: Duration = Duration::from_secs(30);

/// The first event has the page.
const PAGE: &str = "parachron watch --duration 1s --format json | head -n 1";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut host = Shell::connect(place.folder)?;
    for by_s in BY_S {
        let what = format!("the host's time set by {by_s} s");
        let before = line(&machine.execute(PAGE)?)?;
        let set = format!("date -s @$(($(date +%s) + {by_s}))");
        let (_, seen) = watching::during(machine, |_| host.execute(&set, REPLY))?;
        let after = line(&machine.execute(PAGE)?)?;
        let caused = Caused { what: &what, kinds: &[], besides: &[], size_s: None };
        checks.push(watching::judge(&caused, &seen));
        for (clock, (lost_s, known_s)) in [("REALTIME", seen.lost), ("MONOTONIC", seen.stood)] {
            let found = format!("{:.4} ± {known_s:.4} s", -lost_s);
            let goes_on = lost_s.abs() <= known_s && known_s < 1.0;
            checks.push(Check::new(format!("{what}: CLOCK_{clock} goes on"), found, goes_on));
        }
        let found = format!("{before}, then {after}");
        checks.push(Check::new(format!("{what}: the page keeps its line"), found, before == after));
    }
    Ok(())
}

/// The page without its version: KVM may write it again as it is.
fn line(started: &str) -> Result<Value> {
    let mut event: Value = serde_json::from_str(started).unwrap_or_default();
    let page = event["page"]["known"].as_object_mut();
    let page = page.ok_or_else(|| format!("no page: {started}"))?;
    page.remove("version");
    Ok(Value::from(page.clone()))
}
