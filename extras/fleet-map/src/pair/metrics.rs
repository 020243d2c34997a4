//! What a node measured of its peers, as metrics: written for a textfile collector, and read
//! from exporters' pages and from a Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use super::exposition;
use super::lines::SampleTally;
use crate::errormap::{Claim, ProbeSample, Samples};

const MIN: &str = "parachron_pair_ahead_min_seconds";
const MAX: &str = "parachron_pair_ahead_max_seconds";
const AT: &str = "parachron_pair_measured_timestamp_seconds";
/// The exporter's: what to add to the clock, and the bound of that.
const OFFSET: &str = "parachron_clock_offset_seconds";
const BOUND: &str = "parachron_clock_offset_bound_seconds";

/// Results of probes and requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Probes with a reply.
    pub replied: u64,
    /// Probes without a reply.
    pub lost: u64,
    /// Requests of peers, answered.
    pub answered: u64,
    /// Requests of peers, refused.
    pub refused: u64,
}

/// The newest sample of each peer, and the counts, for a textfile collector.
pub fn textfile<'s>(
    samples: impl Iterator<Item = &'s ProbeSample> + Clone,
    counts: Counts,
) -> String {
    type Figure = fn(&ProbeSample) -> f64;
    let gauges: [(&str, &str, Figure); 3] = [
        (MIN, "Least amount by which the peer's clock is ahead of the node's", |sample| {
            seconds_at_most(sample.min_ns)
        }),
        (MAX, "Greatest amount by which the peer's clock is ahead of the node's", |sample| {
            -seconds_at_most(-sample.max_ns)
        }),
        // Ages are known to 10 ms, and a float has this to 0.24 us.
        (AT, "When the pair was last compared, by the node's clock", |sample| {
            sample.at_ns as f64 / 1e9
        }),
    ];
    let mut text = String::new();
    for (name, help, figure) in gauges {
        text += &heading(name, "gauge", help);
        for sample in samples.clone() {
            let labels = [("node", sample.from.as_str()), ("peer", &sample.to)];
            text += &exposition::line(name, &labels, figure(sample));
        }
    }
    let counters = [
        (
            "parachron_pair_probes_total",
            "Probes of peers, by result",
            [("replied", counts.replied), ("lost", counts.lost)],
        ),
        (
            "parachron_pair_requests_total",
            "Requests of peers, by result",
            [("answered", counts.answered), ("refused", counts.refused)],
        ),
    ];
    for (name, help, results) in counters {
        text += &heading(name, "counter", help);
        for (result, count) in results {
            text += &exposition::line(name, &[("result", result)], count as f64);
        }
    }
    text
}

fn heading(name: &str, kind: &str, help: &str) -> String {
    format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
}

/// Seconds that are read as at most this many nanoseconds: beyond 13 days a float of seconds
/// does not have each nanosecond, and a bound may widen, never narrow.
fn seconds_at_most(ns: i64) -> f64 {
    let s = ns as f64 / 1e9;
    if ns.unsigned_abs() < 1 << 50 { s } else { s.next_down().next_down() }
}

/// The metrics of one node.
#[derive(Debug, Default)]
struct NodeMetrics {
    pairs: BTreeMap<(String, String), [Option<i64>; 3]>,
    offset_ns: Option<i64>,
    bound_ns: Option<i64>,
}

impl NodeMetrics {
    fn take(&mut self, line: &exposition::SampleLine<'_>) {
        let Some(ns) = line.nanoseconds() else { return };
        let place = match line.name {
            MIN => 0,
            MAX => 1,
            AT => 2,
            OFFSET => return self.offset_ns = Some(ns),
            BOUND => return self.bound_ns = Some(ns),
            _ => return,
        };
        let pair = (line.label("node"), line.label("peer"));
        self.pairs.entry(pair).or_default()[place] = Some(ns);
    }

    /// Adds the samples, and what the node states of its own clock.
    ///
    /// A page describes one node, and a node has one page: else any exporter could make any
    /// node contradict itself.
    fn add_to(self, samples: &mut Samples, named: &mut BTreeSet<String>) -> SampleTally {
        let mut tally = SampleTally::default();
        let nodes: BTreeSet<&String> = self.pairs.keys().map(|(from, _)| from).collect();
        let Some(node) = nodes.first().map(|node| (*node).clone()) else { return tally };
        let others = nodes.len() - 1;
        if others > 0 || !named.insert(node.clone()) {
            let why = match others {
                0 => format!("another page already describes {node}"),
                _ => format!("the page describes {node} and {others} more; expected one node"),
            };
            self.pairs.iter().for_each(|_| tally.count(Err(why.clone())));
            return tally;
        }
        let mut newest_ns = i64::MIN;
        for ((from, to), values) in self.pairs {
            let [Some(min_ns), Some(max_ns), Some(at_ns)] = values else {
                tally.count(Err(format!("{from} and {to}: one of the three metrics is missing")));
                continue;
            };
            newest_ns = newest_ns.max(at_ns);
            let sample = ProbeSample { from, to, min_ns, max_ns, at_ns };
            tally.count(samples.add(&sample).map_err(|why| why.to_string()));
        }
        if let (Some(offset_ns), Some(bound_ns)) = (self.offset_ns, self.bound_ns) {
            let claim = Claim { node, offset_ns, bound_ns, at_ns: newest_ns };
            tally.count(samples.claim(claim).map_err(|why| why.to_string()));
        }
        tally
    }
}

/// Adds the samples of an exporter's page. `named` are the nodes of earlier pages, to which
/// its own is added.
pub fn add_page(text: &str, samples: &mut Samples, named: &mut BTreeSet<String>) -> SampleTally {
    let mut page = NodeMetrics::default();
    exposition::lines(text, "parachron_").for_each(|line| page.take(&line));
    page.add_to(samples, named)
}

/// Adds the samples of a Prometheus' `/federate`. It holds the pages of many exporters, which
/// the labels that Prometheus itself sets tell apart: `job` and `instance`.
pub fn add_federated(
    text: &str,
    samples: &mut Samples,
    named: &mut BTreeSet<String>,
) -> SampleTally {
    let mut pages: BTreeMap<(String, String), NodeMetrics> = BTreeMap::new();
    for line in exposition::lines(text, "parachron_") {
        pages.entry((line.label("job"), line.label("instance"))).or_default().take(&line);
    }
    let mut tally = SampleTally::default();
    pages.into_values().for_each(|page| tally.merge(page.add_to(samples, named)));
    tally
}

#[cfg(test)]
mod tests;
