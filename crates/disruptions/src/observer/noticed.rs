//! What the parts of the observer take and give.

use crate::{Event, Evidence, Happened};

/// What one part of the observer noticed in a sample: events, and evidence
/// for the classification; each with its time.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    pub(super) events: Vec<Happened>,
    pub(super) evidence: Vec<(u64, Evidence)>,
}

impl Noticed {
    pub(super) fn event(&mut self, at_monotonic_ns: u64, event: Event) {
        self.events.push(Happened { at_monotonic_ns, event });
    }

    pub(super) fn evidence(&mut self, at_ns: u64, evidence: Evidence) {
        self.evidence.push((at_ns, evidence));
    }
}

/// The time between the last sample and this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elapsed {
    /// Since the last sample, by CLOCK_MONOTONIC, ns.
    pub(super) ns: u64,
    /// What of it was planned, ns.
    pub(super) planned_ns: u64,
}
