//! Evidence belongs together when it comes together: gathered for a moment,
//! then classified as a whole.

use crate::classify::{self, Context};
use crate::observer::Elapsed;
use crate::{Disruption, Evidence};
use facts::Sample;

/// How long evidence is gathered after the first, by CLOCK_MONOTONIC, ns, and
/// over how many samples: a step of a clock of learnt rate is certain one
/// sample after it, a new rate two.
const FOR_NS: u64 = 90_000_000;
const SAMPLES: u32 = 2;

/// Announcements are kept this long, ns: that of a leap second precedes it.
const ANNOUNCED_FOR_NS: u64 = 2_000_000_000;

/// Evidence that is not classified yet.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    since_ns: Option<u64>,
    /// CLOCK_MONOTONIC of the sample that showed the last of it that the host caused.
    away_until_ns: Option<u64>,
    samples: u32,
    evidence: Vec<(u64, Evidence)>,
    /// The most that a sample was late meanwhile, ns.
    late_ns: f64,
    /// When that one was planned, after the one before, ns.
    planned_ns: f64,
    rtc_was_compared: bool,
    /// CLOCK_MONOTONIC of the last classification.
    classified_ns: Option<u64>,
}

impl Gathering {
    pub(super) fn is_open(&self) -> bool {
        self.since_ns.is_some()
    }

    pub(super) fn away_until_ns(&self) -> Option<u64> {
        self.away_until_ns
    }

    pub(super) fn add(&mut self, evidence: Vec<(u64, Evidence)>, now_ns: u64) {
        // Evidence that comes later belongs to what is classified already.
        let fresh = evidence
            .into_iter()
            .filter(|(at_ns, _)| self.classified_ns.is_none_or(|last| *at_ns > last));
        for (at_ns, evidence) in fresh {
            if !evidence.only_announces() {
                self.since_ns.get_or_insert(now_ns);
            }
            if evidence.is_hosts() {
                self.away_until_ns = Some(now_ns);
            }
            self.evidence.push((at_ns, evidence));
        }
        if !self.is_open() {
            self.evidence.retain(|(at_ns, _)| now_ns.saturating_sub(*at_ns) < ANNOUNCED_FOR_NS);
        }
    }

    /// What it amounts to, once enough was gathered.
    pub(super) fn settle(
        &mut self,
        sample: &Sample,
        elapsed: Elapsed,
        rtc_was_compared: bool,
    ) -> Vec<Disruption> {
        let Some(since_ns) = self.since_ns else { return Vec::new() };
        let late_ns = elapsed.ns as f64 - elapsed.planned_ns as f64;
        if self.samples == 0 || late_ns > self.late_ns {
            (self.late_ns, self.planned_ns) = (late_ns, elapsed.planned_ns as f64);
        }
        self.rtc_was_compared |= rtc_was_compared;
        let waited_ns = sample.monotonic_ns.saturating_sub(since_ns);
        if self.samples < SAMPLES || waited_ns < FOR_NS {
            self.samples += 1;
            return Vec::new();
        }
        self.close(sample)
    }

    /// What it amounts to, whether more could come or not.
    pub(super) fn close(&mut self, sample: &Sample) -> Vec<Disruption> {
        (self.since_ns, self.away_until_ns) = (None, None);
        self.samples = 0;
        self.classified_ns = Some(sample.monotonic_ns);
        let mut evidence = std::mem::take(&mut self.evidence);
        evidence.sort_by_key(|(at_ns, _)| *at_ns);
        let vmclock = sample.vmclock.value();
        let is_marked = |entry: &Evidence| matches!(entry, Evidence::VmClockMarker { .. });
        let context = Context {
            log_is_read: sample.log.value().is_some(),
            marker_is_same: vmclock.is_some()
                && !evidence.iter().any(|(_, entry)| is_marked(entry)),
            counts_generations: vmclock.is_some_and(|page| page.vm_generation.is_some()),
            monotonic_ns: sample.monotonic_ns,
            unix_ns: sample.unix_ns,
            late_ns: std::mem::take(&mut self.late_ns),
            planned_ns: std::mem::take(&mut self.planned_ns),
            rtc_was_compared: std::mem::take(&mut self.rtc_was_compared),
            source: sample.source.value().map(String::as_str),
        };
        classify::classify(evidence, context)
    }
}

impl Evidence {
    /// Whether it means nothing without other evidence.
    fn only_announces(&self) -> bool {
        matches!(self, Self::Adjtimex { .. })
    }

    /// Whether only the host can have caused it, and it is a disruption whatever comes with it: no
    /// program that sets the clock does, and no host that corrects its page a little.
    fn is_hosts(&self) -> bool {
        match self {
            Self::PageReset
            | Self::GuestStopped
            | Self::VmClockMarker { .. }
            | Self::VmClockGeneration { .. }
            | Self::NewGeneration => true,
            Self::Step { .. }
            | Self::PageStep { .. }
            | Self::PageRate { .. }
            | Self::ClocksDiverged { .. }
            | Self::Rate { .. }
            | Self::Late { .. }
            | Self::Stolen { .. }
            | Self::Rtc { .. }
            | Self::Log { .. }
            | Self::WasSet
            | Self::Clocksource { .. }
            | Self::Adjtimex { .. } => false,
        }
    }
}
