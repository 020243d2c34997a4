//! A daemon's status as what a fleet's metrics are made of.

use std::collections::BTreeMap;
use std::path::Path;

use crate::fleet::{Snapshot, Source};
use disruptions::Kinds;
use keeper::KeeperClockState;
use serde::Serialize;

use crate::status::DaemonStatus;
use crate::status_socket;

/// Asks the daemon at this socket, and its reply as it came; nothing if there is none.
pub fn ask(socket: &Path) -> Option<(Snapshot, String)> {
    let reply = status_socket::ask(socket, None).ok()?;
    // One of another version may have words that mean something else.
    let unknown = || Snapshot { daemon_up: Some(true), ..Snapshot::default() };
    let status: Option<DaemonStatus> = serde_json::from_str(&reply).ok();
    Some((status.as_ref().map_or_else(unknown, Snapshot::from), reply))
}

impl From<&DaemonStatus> for Snapshot {
    fn from(status: &DaemonStatus) -> Self {
        let DaemonStatus { clock, sources, counts, disrupted_age_s, .. } = status;
        let seconds = |ns: i64| ns as f64 / 1e9;
        let unsigned = |ns: u64| ns as f64 / 1e9;
        let selected = sources.iter().find(|one| Some(&one.name) == clock.selected.as_ref());
        let sources = sources.iter().map(|source| Source {
            name: source.name.clone(),
            state: word(&source.state),
            offset_s: source.offset_ns.map(seconds),
            bound_s: source.bound_ns.map(unsigned),
            age_s: source.age_s,
        });
        let named = |counts: &[(&str, u64)]| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        // What has not happened is 0, so that its first time is an increase.
        let mut disruptions: BTreeMap<_, _> =
            Kinds::reported().map(|kinds| (kinds.to_string(), 0)).collect();
        disruptions.extend(counts.disruptions.clone());
        Snapshot {
            daemon_up: Some(true),
            dry_run: Some(status.dry_run),
            synchronised: Some(clock.state != KeeperClockState::Unsynchronised),
            holdover: Some(clock.state == KeeperClockState::Holdover),
            offset_s: clock.offset_ns.map(seconds),
            offset_bound_s: clock.bound_ns.map(unsigned),
            error_bound_s: clock.error_ns().map(unsigned),
            measured_age_s: selected.and_then(|source| source.age_s),
            sources: sources.collect(),
            disruptions,
            disrupted_age_s: disrupted_age_s.clone(),
            corrections: named(&[
                ("makestep", counts.makesteps),
                ("slew", counts.slews),
                ("step", counts.steps),
            ]),
            not_corrected: named(&[("failed", counts.failed), ("refused", counts.refused)]),
            ..Snapshot::default()
        }
    }
}

/// A state, as every format has it.
fn word(state: &impl Serialize) -> String {
    let value = serde_json::to_value(state).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
