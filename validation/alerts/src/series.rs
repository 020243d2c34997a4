//! Series of one machine, as Prometheus keeps them.

use std::collections::VecDeque;

/// Two sets of labels are the same if their numbers are.
pub(crate) type LabelsId = usize;

/// Labels, in the order of their names.
pub(crate) type Labels = Vec<(String, String)>;

/// A selector finds samples that are no older, ms (`--query.lookback-delta`).
pub(crate) const LOOKBACK_MS: i64 = 300_000;

/// No rule looks back further, ms.
const KEPT_MS: i64 = 3_600_000 + LOOKBACK_MS;

/// A series.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) labels: LabelsId,
    /// When, ms, and what; a marker where it ended.
    samples: VecDeque<(i64, Option<f64>)>,
    /// The scrape that it was in last.
    scrape: u64,
}

impl Series {
    /// The last sample in `LOOKBACK_MS` before, or at, a time.
    pub(crate) fn at(&self, at_ms: i64) -> Option<f64> {
        let (then_ms, value) = *self.samples.iter().rev().find(|(then, _)| *then <= at_ms)?;
        value.filter(|_| at_ms - then_ms <= LOOKBACK_MS)
    }

    /// The samples from one time to another, both included as Prometheus 2 has it;
    /// from 3.0 on the first is not.
    pub(crate) fn between(
        &self,
        from_ms: i64,
        to_ms: i64,
    ) -> impl Iterator<Item = (i64, f64)> + Clone {
        let first = self.samples.partition_point(|(at_ms, _)| *at_ms < from_ms);
        let within = self.samples.range(first..).take_while(move |(at_ms, _)| *at_ms <= to_ms);
        within.filter_map(|(at_ms, value)| Some((*at_ms, (*value)?)))
    }

    fn push(&mut self, at_ms: i64, value: Option<f64>) {
        self.samples.push_back((at_ms, value));
        while self.samples.front().is_some_and(|(then_ms, _)| *then_ms < at_ms - KEPT_MS) {
            self.samples.pop_front();
        }
    }
}

/// All of a machine's.
#[derive(Debug, Default)]
pub(crate) struct Database {
    pub(crate) series: Vec<Series>,
    labels: Vec<Labels>,
    scrapes: u64,
    /// Where the next sample's series was in the scrape before.
    next: usize,
}

impl Database {
    pub(crate) fn labels(&self, id: LabelsId) -> &Labels {
        &self.labels[id]
    }

    /// A scrape begins.
    pub(crate) fn begin(&mut self) {
        self.scrapes += 1;
        self.next = 0;
    }

    /// A sample of it; samples come in the same order each time, or nearly.
    pub(crate) fn add(
        &mut self,
        at_ms: i64,
        name: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        let count = self.series.len();
        let is_it = |index: &usize| {
            let series = &self.series[*index];
            let its = &self.labels[series.labels];
            series.name == name
                && its.len() == labels.len()
                && its.iter().zip(labels).all(|(one, other)| (&*one.0, &*one.1) == *other)
        };
        let found = (self.next..count).chain(0..self.next).find(is_it);
        let index = found.unwrap_or_else(|| {
            let labels = self.id(labels);
            self.series.push(Series { name, labels, samples: VecDeque::new(), scrape: 0 });
            count
        });
        self.next = (index + 1) % self.series.len();
        let series = &mut self.series[index];
        series.scrape = self.scrapes;
        series.push(at_ms, Some(value));
    }

    fn id(&mut self, labels: &[(&str, &str)]) -> LabelsId {
        let owned = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let owned: Labels = owned.collect();
        let found = self.labels.iter().position(|one| *one == owned);
        found.unwrap_or_else(|| {
            self.labels.push(owned);
            self.labels.len() - 1
        })
    }

    /// A scrape ends: what was in the one before and not in this has ended. One that
    /// fails is one without samples.
    pub(crate) fn end(&mut self, at_ms: i64) {
        for series in &mut self.series {
            let is_live = series.samples.back().is_some_and(|(_, value)| value.is_some());
            if is_live && series.scrape != self.scrapes {
                series.push(at_ms, None);
            }
        }
    }
}
