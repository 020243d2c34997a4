//! Evidence belongs together when it comes together: gathered for a moment,
//! then judged as a whole.

use super::Passed;
use crate::classify::{self, Moment};
use crate::{Disruption, Evidence};
use facts::Sample;

/// How long evidence is waited for after the first, by CLOCK_MONOTONIC, ns,
/// and over how many looks: a step of a clock of learnt rate is certain one
/// look after it, a new rate two.
const FOR_NS: u64 = 90_000_000;
const LOOKS: u32 = 2;

/// What announces only is kept this long, ns: a leap second is announced
/// before it comes.
const ANNOUNCED_FOR_NS: u64 = 2_000_000_000;

/// What was seen and not judged yet.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    since_ns: Option<u64>,
    looks: u32,
    evidence: Vec<(u64, Evidence)>,
    /// The most that a look was late meanwhile, ns.
    late_ns: f64,
    rtc_was_read: bool,
    /// Up to here all is judged.
    judged_ns: Option<u64>,
}

impl Gathering {
    pub(super) fn is_open(&self) -> bool {
        self.since_ns.is_some()
    }

    pub(super) fn add(&mut self, evidence: Vec<(u64, Evidence)>, now_ns: u64) {
        // What becomes certain late belongs to what was judged already.
        let fresh = evidence
            .into_iter()
            .filter(|(at_ns, _)| self.judged_ns.is_none_or(|judged| *at_ns > judged));
        for (at_ns, evidence) in fresh {
            if !evidence.only_announces() {
                self.since_ns.get_or_insert(now_ns);
            }
            self.evidence.push((at_ns, evidence));
        }
        if !self.is_open() {
            self.evidence.retain(|(at_ns, _)| now_ns.saturating_sub(*at_ns) < ANNOUNCED_FOR_NS);
        }
    }

    /// What it amounts to, if that can be said by now.
    pub(super) fn settle(&mut self, look: &Sample, passed: Passed) -> Vec<Disruption> {
        let Some(since_ns) = self.since_ns else { return Vec::new() };
        let late_ns = passed.ns as f64 - passed.planned_ns as f64;
        self.late_ns = if self.looks == 0 { late_ns } else { self.late_ns.max(late_ns) };
        self.rtc_was_read |= look.rtc.is_known_and(Option::is_some);
        let waited_ns = look.monotonic_ns.saturating_sub(since_ns);
        if self.looks < LOOKS || waited_ns < FOR_NS {
            self.looks += 1;
            return Vec::new();
        }
        self.close(look)
    }

    /// What it amounts to, whether more could come or not.
    pub(super) fn close(&mut self, look: &Sample) -> Vec<Disruption> {
        self.since_ns = None;
        self.looks = 0;
        self.judged_ns = Some(look.monotonic_ns);
        let mut evidence = std::mem::take(&mut self.evidence);
        evidence.sort_by_key(|(at_ns, _)| *at_ns);
        let moment = Moment {
            monotonic_ns: look.monotonic_ns,
            unix_ns: look.unix_ns,
            late_ns: std::mem::take(&mut self.late_ns),
            rtc_was_read: std::mem::take(&mut self.rtc_was_read),
            source: look.source.known().map(String::as_str),
        };
        classify::classify(evidence, moment)
    }
}

impl Evidence {
    /// Whether it means nothing by itself.
    fn only_announces(&self) -> bool {
        matches!(self, Self::Adjtimex(_))
    }
}
