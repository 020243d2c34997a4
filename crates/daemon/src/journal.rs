//! Events as entries of the systemd journal: one an event, with fields to search
//! by and a priority.

use std::borrow::Cow;

use disruptions::{Disruption, Kind, Kinds, text};
use keeper::event::{KeeperEvent, Line};
use serde_json::Value;

use crate::words;

/// Selects our entries, whatever their kind:
/// `journalctl MESSAGE_ID=bc79f20f2b2d49c0a62fefc67c427cdc`.
const MESSAGE_ID: &str = "bc79f20f2b2d49c0a62fefc67c427cdc";

/// What syslog calls an entry (`man 3 syslog`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// What was asked for could not be done.
    Error = 3,
    /// The clock is, or was, wrong.
    Warning = 4,
    /// Something changed that is no fault.
    Notice = 5,
    /// All is as it should be.
    Info = 6,
}

/// A field and its value. A field may occur more than once.
pub type Field = (Cow<'static, str>, String);

/// The entry of a line of the daemon's log.
pub fn entry(line: &Line, program: &str) -> Vec<Field> {
    if let KeeperEvent::Disruption(disruption) = &line.event {
        return disruption_entry(line.at_monotonic_ns, disruption, program);
    }
    let description = words::describe(&line.event);
    let mut fields =
        head(description.one_line(), description.priority, program, line.at_monotonic_ns);
    // Numbers and text alone: its JSON form always exists.
    if let Ok(Value::Object(event)) = serde_json::to_value(&line.event) {
        for (name, value) in event {
            let value = match value {
                Value::Null => continue,
                Value::String(text) => text,
                other => other.to_string(),
            };
            fields.push((format!("PARACHRON_{}", name.to_uppercase()).into(), value));
        }
    }
    fields
}

/// The entry of a disruption, whoever saw it.
pub fn disruption_entry(
    at_monotonic_ns: u64,
    disruption: &Disruption,
    program: &str,
) -> Vec<Field> {
    let message = text::lines(disruption).join("\n");
    let mut fields =
        head(message, Priority::from_kinds(disruption.kinds), program, at_monotonic_ns);
    // A field may occur more than once: each kind that fits is found.
    let kinds = disruption.kinds.iter();
    fields.extend(kinds.map(|kind| ("PARACHRON_KIND".into(), kind.name().to_owned())));
    let mut put = |name: &'static str, ns: Option<f64>| {
        fields.extend(ns.map(|ns| (name.into(), format!("{ns:.0}"))));
    };
    put("PARACHRON_SIZE_NS", disruption.size.map(|size| size.ns));
    put("PARACHRON_SIZE_BOUND_NS", disruption.size.map(|size| size.bound_ns));
    put("PARACHRON_BEHIND_NS", disruption.behind.map(|size| size.ns));
    put("PARACHRON_BEHIND_BOUND_NS", disruption.behind.map(|size| size.bound_ns));
    let evidence = serde_json::to_string(&disruption.evidence).ok();
    fields.extend(evidence.map(|it| ("PARACHRON_EVIDENCE".into(), it)));
    fields
}

fn head(message: String, priority: Priority, program: &str, at_monotonic_ns: u64) -> Vec<Field> {
    vec![
        ("MESSAGE".into(), message),
        ("MESSAGE_ID".into(), MESSAGE_ID.to_owned()),
        ("PRIORITY".into(), (priority as u8).to_string()),
        ("SYSLOG_IDENTIFIER".into(), program.to_owned()),
        ("PARACHRON_AT_MONOTONIC_NS".into(), at_monotonic_ns.to_string()),
    ]
}

impl Priority {
    /// Of a disruption.
    pub(crate) fn from_kinds(kinds: Kinds) -> Self {
        match kinds.only() {
            Some(Kind::Steered) => Self::Info,
            Some(Kind::LeapSecond | Kind::SourceSwitched) => Self::Notice,
            _ => Self::Warning,
        }
    }
}

#[cfg(test)]
mod tests {
    use disruptions::{Evidence, Size};
    use keeper::event::{Basis, Corrected, CorrectionMethod};

    use super::*;

    fn shown(fields: &[Field]) -> Vec<String> {
        fields.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_disruption_has_fields_to_search_by() {
        let disruption = Disruption {
            kinds: Kinds::any_of(&[Kind::Pause, Kind::Migrated]),
            at_monotonic_ns: 7,
            size: Some(Size { ns: 5e9, bound_ns: 1e6 }),
            behind: None,
            evidence: vec![Evidence::GuestStopped],
        };
        let line = |event| Line { at_unix_ns: None, at_monotonic_ns: 7, event };
        assert_eq!(
            shown(&entry(&line(KeeperEvent::Disruption(disruption)), "parachron")),
            [
                "MESSAGE=this machine was stopped for 5.000000 s ± 1.00 ms: paused or migrated to \
                 another host\n- GUEST_STOPPED is set in the kvm-clock page",
                "MESSAGE_ID=bc79f20f2b2d49c0a62fefc67c427cdc",
                "PRIORITY=4",
                "SYSLOG_IDENTIFIER=parachron",
                "PARACHRON_AT_MONOTONIC_NS=7",
                "PARACHRON_KIND=pause",
                "PARACHRON_KIND=migrated",
                "PARACHRON_SIZE_NS=5000000000",
                "PARACHRON_SIZE_BOUND_NS=1000000",
                "PARACHRON_EVIDENCE=[{\"what\":\"guest-stopped\"}]",
            ]
        );
    }

    #[test]
    fn a_step_is_one_entry_in_one_line_with_its_figures() {
        let basis = Basis {
            by_ns: 2_000_000_000,
            bound_ns: 1_580_000,
            source: "ntp a.example".into(),
            agreeing: 2,
            of_sources: 2,
            cause: Some(keeper::CorrectionCause::Start),
        };
        let corrected = Corrected {
            how: CorrectionMethod::Step,
            dry_run: false,
            before_unix_ns: Some(0),
            after_unix_ns: None,
            basis,
        };
        let event = KeeperEvent::Corrected(corrected);
        let fields =
            shown(&entry(&Line { at_unix_ns: None, at_monotonic_ns: 7, event }, "parachrond"));
        assert!(fields[0].starts_with("MESSAGE=step: +2.000 s, selected source ntp a.example"));
        assert!(!fields[0].contains('\n'));
        for expected in [
            "PRIORITY=5",
            "SYSLOG_IDENTIFIER=parachrond",
            "PARACHRON_EVENT=corrected",
            "PARACHRON_HOW=step",
            "PARACHRON_BY_NS=2000000000",
            "PARACHRON_BOUND_NS=1580000",
            "PARACHRON_SOURCE=ntp a.example",
            "PARACHRON_CAUSE=start",
        ] {
            assert!(fields.iter().any(|field| field == expected), "{expected}: {fields:?}");
        }
        assert!(!fields.iter().any(|field| field.contains("AFTER_UNIX_NS")), "{fields:?}");
    }
}
