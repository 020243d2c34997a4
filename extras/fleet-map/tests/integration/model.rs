//! A fleet of clocks that drift, on a random graph of links that are not symmetric.

use std::collections::{BTreeMap, BTreeSet};

use fleet_map::errormap::{Probe, Samples};
use pvclock::units::random::SplitMix64;

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const S: i64 = 1_000_000_000;
/// When the model begins, ns since 1970.
pub(crate) const BEGIN: i64 = 1_700_000_000 * S;

/// What is drawn from a seed.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    pub(crate) fn below(&mut self, most: i64) -> i64 {
        (self.next() % most.max(1) as u64) as i64
    }

    pub(crate) fn within(&mut self, most: i64) -> i64 {
        self.below(2 * most + 1) - most
    }
}

/// A clock: its error at the begin, and its rate's, ppb.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) ahead: i64,
    pub(crate) ppb: i64,
    /// To every second peer it shows so much more.
    pub(crate) lie: i64,
}

impl Clock {
    pub(crate) fn error(&self, after: i64) -> i64 {
        self.ahead + (i128::from(after) * i128::from(self.ppb) / 1_000_000_000) as i64
    }

    fn shows(&self, after: i64, peer: usize) -> i64 {
        BEGIN + after + self.error(after) + if peer.is_multiple_of(2) { self.lie } else { 0 }
    }
}

pub(crate) struct Fleet {
    pub(crate) clocks: Vec<Clock>,
    pub(crate) random: Random,
    degree: usize,
    pub(crate) lied_to: BTreeSet<usize>,
    pub(crate) asked_by_liars: BTreeSet<usize>,
    /// How long packets took from one to another, the least and the most.
    pub(crate) ways: BTreeMap<(usize, usize), [i64; 2]>,
}

pub(crate) fn name(node: usize) -> String {
    format!("n{node}")
}

impl Fleet {
    /// Clocks within half a millisecond, whose rates are off by up to 15 ppm.
    pub(crate) fn new(seed: u64, nodes: usize, degree: usize) -> Self {
        let mut random = Random::new(seed);
        let clocks = (0..nodes)
            .map(|_| Clock { ahead: random.within(MS / 2), ppb: random.within(15_000), lie: 0 })
            .collect();
        let (lied_to, asked_by_liars) = (BTreeSet::new(), BTreeSet::new());
        Self { clocks, random, degree, lied_to, asked_by_liars, ways: BTreeMap::new() }
    }

    /// Each node probes each of its peers once in ten seconds, until `until`.
    pub(crate) fn probed(&mut self, until: i64) -> Samples {
        let nodes = self.clocks.len();
        let mut samples = Samples::default();
        for from in 0..nodes {
            for _ in 0..self.degree.min(nodes - 1) {
                let to = (from + 1 + self.random.below(nodes as i64 - 1) as usize) % nodes;
                // Up to 200 us each way, and a way of its own.
                let base =
                    [20_000 + self.random.below(180_000), 20_000 + self.random.below(180_000)];
                let mut at = self.random.below(10 * S);
                while at < until {
                    let probe = self.probe(from, to, at, base);
                    samples.add(&probe.sample().unwrap()).unwrap();
                    at += 9 * S + self.random.below(2 * S);
                }
            }
        }
        samples
    }

    fn probe(&mut self, from: usize, to: usize, at: i64, base: [i64; 2]) -> Probe {
        // Queues: now and then a millisecond.
        let mut way = |base: i64| {
            let queued = if self.random.below(8) == 0 { MS } else { 20_000 };
            base + self.random.below(queued)
        };
        let arrived = at + way(base[0]);
        let (replied, back) = (arrived + 5_000, arrived + 5_000 + way(base[1]));
        for (way, took) in [((from, to), arrived - at), ((to, from), back - replied)] {
            let seen = self.ways.entry(way).or_insert([took; 2]);
            *seen = [seen[0].min(took), seen[1].max(took)];
        }
        let (a, b) = (self.clocks[from], self.clocks[to]);
        if b.lie != 0 && from.is_multiple_of(2) {
            self.lied_to.insert(from);
        }
        if a.lie != 0 {
            self.asked_by_liars.insert(to);
        }
        // Each asks by its one clock; how it answers depends on who asks.
        let a_shows = |after| Clock { lie: 0, ..a }.shows(after, 0);
        Probe {
            from: name(from),
            to: name(to),
            t1_ns: a_shows(at),
            t2_ns: b.shows(arrived, from),
            t3_ns: b.shows(replied, from),
            t4_ns: a_shows(back),
        }
    }

    /// Errors when the median clock shows `as_of`, against the lower median of `among`,
    /// and against the upper one.
    pub(crate) fn truth(&self, as_of: i64, among: &[usize]) -> [Vec<i64>; 2] {
        let medians = |after: i64| {
            let mut errors: Vec<i64> =
                among.iter().map(|node| self.clocks[*node].error(after)).collect();
            errors.sort_unstable();
            [errors[(errors.len() - 1) / 2], errors[errors.len() / 2]]
        };
        let after = as_of - BEGIN;
        let after = after - medians(after)[0];
        let of = |zero| self.clocks.iter().map(|clock| clock.error(after) - zero).collect();
        medians(after).map(of)
    }
}
