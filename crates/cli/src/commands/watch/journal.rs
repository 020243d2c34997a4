//! Disruptions in the systemd journal, as entries with fields to search by.

use std::path::Path;

use disruptions::text as disruption;
use disruptions::{Disruption, Kind, Kinds};
use linux::journal::Journal;

use super::event::{Line, WatchEvent};
use crate::error::CliError;

/// Selects our entries, whatever their kind:
/// `journalctl MESSAGE_ID=bc79f20f2b2d49c0a62fefc67c427cdc`.
const MESSAGE_ID: &str = "bc79f20f2b2d49c0a62fefc67c427cdc";

/// What syslog calls warning, notice and info (`man 3 syslog`).
const WARNING: &str = "4";
const NOTICE: &str = "5";
const INFO: &str = "6";

/// Writes entries.
pub(super) struct Entries {
    journal: Journal,
    lost: u64,
}

impl Entries {
    pub(super) fn open(socket: &Path) -> Result<Self, CliError> {
        let journal = Journal::open(socket).map_err(|error| CliError::Failed {
            cause: format!("cannot write to the journal at {}: {error}", socket.display()),
            remedy: "start systemd-journald, or write --format json to a file".into(),
        })?;
        Ok(Self { journal, lost: 0 })
    }

    /// Writes the disruptions among `lines`. An entry that the journal does
    /// not accept is counted: the watch continues without the journal.
    pub(super) fn write(&mut self, lines: &[Line]) {
        for line in lines {
            if let WatchEvent::Disruption(disruption) = &line.event
                && self.journal.send(&fields(line, disruption)).is_err()
            {
                self.lost += 1;
            }
        }
    }

    /// Entries that the journal did not accept.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

fn fields(line: &Line, disruption: &Disruption) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("MESSAGE", disruption::lines(disruption).join("\n")),
        ("MESSAGE_ID", MESSAGE_ID.to_owned()),
        ("PRIORITY", priority(disruption.kinds).to_owned()),
        ("SYSLOG_IDENTIFIER", "parachron".to_owned()),
        ("PARACHRON_AT_MONOTONIC_NS", line.at_monotonic_ns.to_string()),
    ];
    // A field may occur more than once: each kind that fits is found.
    fields.extend(disruption.kinds.iter().map(|kind| ("PARACHRON_KIND", kind.name().to_owned())));
    let mut put = |name, ns: Option<f64>| {
        fields.extend(ns.map(|ns| (name, format!("{ns:.0}"))));
    };
    put("PARACHRON_SIZE_NS", disruption.size.map(|size| size.ns));
    put("PARACHRON_SIZE_BOUND_NS", disruption.size.map(|size| size.bound_ns));
    put("PARACHRON_BEHIND_NS", disruption.behind.map(|size| size.ns));
    put("PARACHRON_BEHIND_BOUND_NS", disruption.behind.map(|size| size.bound_ns));
    // Only numbers and strings: its JSON form always exists.
    fields.extend(
        serde_json::to_string(&disruption.evidence).ok().map(|it| ("PARACHRON_EVIDENCE", it)),
    );
    fields
}

fn priority(kinds: Kinds) -> &'static str {
    match kinds.only() {
        Some(Kind::Steered) => INFO,
        Some(Kind::LeapSecond | Kind::SourceSwitched) => NOTICE,
        _ => WARNING,
    }
}

#[cfg(test)]
mod tests {
    use disruptions::{Evidence, Size};

    use super::*;

    #[test]
    fn an_entry_has_fields_to_search_by() {
        let disruption = Disruption {
            kinds: Kinds::of(&[Kind::Pause, Kind::Migrated]),
            at_monotonic_ns: 7,
            size: Some(Size { ns: 5e9, bound_ns: 1e6 }),
            behind: None,
            evidence: vec![Evidence::GuestStopped],
        };
        let line = Line {
            at_unix_ns: None,
            at_monotonic_ns: 7,
            event: WatchEvent::Disruption(disruption.clone()),
        };
        let shown: Vec<_> = fields(&line, &disruption)
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r##"
        MESSAGE=this machine was stopped for 5.000000 s ± 1.00 ms: paused or migrated to another host
        - GUEST_STOPPED is set in the kvm-clock page
        MESSAGE_ID=bc79f20f2b2d49c0a62fefc67c427cdc
        PRIORITY=4
        SYSLOG_IDENTIFIER=parachron
        PARACHRON_AT_MONOTONIC_NS=7
        PARACHRON_KIND=pause
        PARACHRON_KIND=migrated
        PARACHRON_SIZE_NS=5000000000
        PARACHRON_SIZE_BOUND_NS=1000000
        PARACHRON_EVIDENCE=[{"what":"guest-stopped"}]
        "##);
    }
}
