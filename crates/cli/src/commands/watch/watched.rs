//! A whole watch: each look told as lines, and all of them counted.

use std::time::Duration;

use disruptions::{Observed, Observer};
use facts::Sample;

use super::event::{Line, Said, seconds};
use super::summary::Summary;

/// What was seen from the first look on.
pub(super) struct Watched {
    observer: Observer,
    summary: Summary,
    first_ns: Option<u64>,
    last: Option<Sample>,
}

impl Watched {
    /// Nothing seen yet; a look is planned each `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            observer: Observer::new(interval),
            summary: Summary::default(),
            first_ns: None,
            last: None,
        }
    }

    pub(super) fn observer(&self) -> &Observer {
        &self.observer
    }

    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The next look: what it tells.
    pub(super) fn observe(&mut self, look: Sample) -> Vec<Line> {
        let now_ns = look.monotonic_ns;
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let passed_ns =
            self.last.as_ref().map_or(0, |last| now_ns.saturating_sub(last.monotonic_ns));
        self.summary.look(now_ns.saturating_sub(first_ns), passed_ns);
        let observed = self.observer.observe(look.clone());
        let lines = self.tell(observed, &look);
        self.last = Some(look);
        lines
    }

    /// The last lines: what only time would have made certain; and all
    /// together.
    pub(super) fn finish(&mut self) -> (Vec<Line>, Option<Line>) {
        let Some(last) = self.last.take() else { return (Vec::new(), None) };
        let observed = self.observer.finish();
        let lines = self.tell(observed, &last);
        let page = self.observer.page().map(|(version, updated_ns)| {
            (version, updated_ns.map(|at| seconds(last.monotonic_ns.saturating_sub(at))))
        });
        self.summary.close(page);
        let summary = Said::Summary(self.summary.clone());
        (lines, Some(Line::at(last.monotonic_ns, summary, &last)))
    }

    fn tell(&mut self, observed: Observed, look: &Sample) -> Vec<Line> {
        let moved = observed.events.into_iter();
        let moved = moved.map(|it| Line::at(it.at_monotonic_ns, Said::Moved(it.event), look));
        let told = observed.disruptions.into_iter();
        let told = told.map(|it| Line::at(it.at_monotonic_ns, Said::Disruption(it), look));
        let lines: Vec<_> = moved.chain(told).collect();
        lines.iter().for_each(|line| self.summary.count(line));
        lines
    }
}
