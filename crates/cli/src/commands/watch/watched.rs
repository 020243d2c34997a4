//! A whole watch: each sample becomes lines, and the lines are counted.

use std::collections::BTreeSet;
use std::time::Duration;

use disruptions::{Kind, Observed, Observer, seconds};
use facts::Sample;

use super::event::{Line, WatchEvent, line};
use super::summary::WatchSummary;

/// What was observed from the first sample on.
pub(super) struct Watched {
    observer: Observer,
    summary: WatchSummary,
    kinds: BTreeSet<Kind>,
    first_ns: Option<u64>,
    last: Option<Sample>,
}

impl Watched {
    /// A watch whose samples are planned every `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            observer: Observer::new(interval),
            summary: WatchSummary::default(),
            kinds: BTreeSet::new(),
            first_ns: None,
            last: None,
        }
    }

    pub(super) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// The kinds that were reported, as certain or as one of several.
    pub(super) fn kinds(&self) -> &BTreeSet<Kind> {
        &self.kinds
    }

    /// Takes the next sample and returns its events.
    pub(super) fn observe(&mut self, sample: Sample) -> Vec<Line> {
        let now_ns = sample.monotonic_ns;
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let interval_ns =
            self.last.as_ref().map_or(0, |last| now_ns.saturating_sub(last.monotonic_ns));
        self.summary.count_sample(now_ns.saturating_sub(first_ns), interval_ns);
        let observed = self.observer.observe(sample.clone());
        let lines = self.lines(observed, &sample);
        self.last = Some(sample);
        lines
    }

    /// The last events, which are classified without more samples.
    pub(super) fn last_events(&mut self) -> Vec<Line> {
        let Some(last) = self.last.take() else { return Vec::new() };
        let observed = self.observer.finish();
        let lines = self.lines(observed, &last);
        self.last = Some(last);
        lines
    }

    /// The summary, with the entries that the journal did not accept.
    pub(super) fn finish(&mut self, lost_journal_entries: Option<u64>) -> Option<Line> {
        let last = self.last.take()?;
        let page = self.observer.page().map(|(version, updated_ns)| {
            (version, updated_ns.map(|at| seconds(last.monotonic_ns.saturating_sub(at))))
        });
        self.summary.close(page, lost_journal_entries);
        let summary = WatchEvent::Summary(self.summary.clone());
        Some(line(last.monotonic_ns, summary, &last))
    }

    fn lines(&mut self, observed: Observed, sample: &Sample) -> Vec<Line> {
        let mut lines = Vec::new();
        for change in observed.events {
            self.summary.count(&change.event);
            lines.push(line(change.at_monotonic_ns, WatchEvent::Change(change.event), sample));
        }
        for disruption in observed.disruptions {
            *self.summary.disruptions.entry(disruption.kinds.to_string()).or_default() += 1;
            self.kinds.extend(disruption.kinds.iter());
            let at_ns = disruption.at_monotonic_ns;
            lines.push(line(at_ns, WatchEvent::Disruption(disruption), sample));
        }
        lines
    }
}
