//! Each clock against the fleet's median.
//!
//! From a root the shortest ways bound every other clock. The median of all lower bounds
//! is a lower bound of the median, and that of all upper ones an upper: so each clock is
//! bounded against the median clock, by each root anew, and the bounds meet. Of an even
//! number the two in the middle are both the median: the bounds hold against either, so
//! that of two halves neither is off.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::errormap::graph::{Graph, Vertex};
use crate::errormap::median::medians;
use crate::errormap::samples::PairInterval;

/// Edges that may be looked at for the bounds: with 160,000, twelve roots; of a fleet of
/// 300 each is a root.
const WORK: usize = 4_000_000;
/// And at least so many roots.
const FEWEST: usize = 4;

/// What is known of those that are connected, against their median.
pub(crate) struct Against {
    /// Of each vertex, at least and at most; none where nothing connects it.
    pub(crate) median: Vec<Option<(i64, i64)>>,
    /// Of each pair: the second against the first, by all ways.
    pub(crate) pairs: Vec<(i64, i64)>,
}

/// The nodes of the largest connected part.
pub(crate) fn largest_part(graph: &Graph) -> Vec<Vertex> {
    let mut is_seen = vec![false; graph.vertices()];
    let mut largest = Vec::new();
    for start in 0..graph.nodes as Vertex {
        let (mut part, mut next) = (Vec::new(), vec![start]);
        while let Some(vertex) = next.pop() {
            let is_new = graph.heard[vertex as usize] && !is_seen[vertex as usize];
            if !is_new {
                continue;
            }
            is_seen[vertex as usize] = true;
            // Of what nodes say of UTC nothing follows for one clock against another.
            if vertex == graph.utc() {
                continue;
            }
            part.extend((vertex < graph.utc()).then_some(vertex));
            next.extend(graph.leaving(vertex).iter().map(|edge| graph.edges[*edge as usize].to));
        }
        if part.len() > largest.len() {
            largest = part;
        }
    }
    largest.sort_unstable();
    largest
}

/// The bounds of all; `worst_first` are the nodes that are connected.
pub(crate) fn bounds(
    graph: &mut Graph,
    potential: Vec<i128>,
    worst_first: &[Vertex],
    pairs: &[PairInterval],
) -> Against {
    let vertices = graph.vertices();
    let of_pair = |pair: &PairInterval| (pair.min_ns, pair.max_ns);
    let mut against =
        Against { median: vec![None; vertices], pairs: pairs.iter().map(of_pair).collect() };
    let most = (WORK / (2 * graph.edges.len()).max(1)).max(FEWEST).min(worst_first.len());
    // The worst are bounded from themselves: nearest to the truth where it is read. The
    // others are spread over the rest.
    let (worst, rest) = worst_first.split_at(most / 2);
    let step = rest.len().div_ceil((most - most / 2).max(1)).max(1);
    let mut slack = Slack::new(graph, potential);
    for &root in worst.iter().chain(rest.iter().step_by(step)) {
        let from_root = slack.bounds(root);
        let of = |side: fn((i64, i64)) -> i64| {
            let bounds = worst_first.iter().filter_map(|node| from_root[*node as usize]);
            medians(bounds.map(side).collect())
        };
        let (least, most) = (of(|it| it.0).0, of(|it| it.1).1);
        for (known, bounds) in against.median.iter_mut().zip(&from_root) {
            let Some((min_ns, max_ns)) = bounds else { continue };
            let bounds = (min_ns.saturating_sub(most), max_ns.saturating_sub(least));
            *known = Some(known.map_or(bounds, |known| meet(known, bounds)));
        }
        for (known, pair) in against.pairs.iter_mut().zip(pairs) {
            let of = |node: u32| from_root[node as usize];
            if let (Some(a), Some(b)) = (of(pair.nodes.0), of(pair.nodes.1)) {
                let apart = (b.0.saturating_sub(a.1), b.1.saturating_sub(a.0));
                *known = meet(*known, apart);
            }
        }
    }
    against
}

fn meet(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.max(other.0), one.1.min(other.1))
}

// Shortest ways in the graph: the tightest bounds that all constraints together give.

/// Not reached.
const FAR: u64 = u64::MAX;

/// How far each vertex may be ahead of a root, at least and at most; none where nothing
/// connects the two.
pub(crate) type Bounds = Vec<Option<(i64, i64)>>;

/// A graph whose edges are none below zero: Johnson's trick, by a time for each vertex
/// that satisfies all constraints. What is left of an edge is its slack.
pub(crate) struct Slack<'g> {
    graph: &'g mut Graph,
    potential: Vec<i128>,
    slack_ns: Vec<u64>,
}

impl<'g> Slack<'g> {
    /// `potential` is of [`Graph::feasible`].
    pub(crate) fn new(graph: &'g mut Graph, potential: Vec<i128>) -> Self {
        let slack = |edge: &crate::errormap::graph::Edge| {
            let way = potential[edge.to as usize] - potential[edge.from as usize];
            u64::try_from(i128::from(edge.most_ns) - way).unwrap_or(FAR)
        };
        let slack_ns = graph.edges.iter().map(slack).collect();
        Self { graph, potential, slack_ns }
    }

    /// The bounds of all vertices from one.
    pub(crate) fn bounds(&mut self, root: Vertex) -> Bounds {
        let (there, back) = (self.dijkstra(root, 0), self.dijkstra(root, 1));
        let of = |vertex: usize| {
            if there[vertex] == FAR || back[vertex] == FAR {
                return None;
            }
            let apart = self.potential[vertex] - self.potential[root as usize];
            let least = apart - i128::from(back[vertex]);
            let most = apart + i128::from(there[vertex]);
            Some((saturated(least), saturated(most)))
        };
        (0..there.len()).map(of).collect()
    }

    /// Along the edges, or (`side` 1) against them: the edge beside it leads back.
    fn dijkstra(&mut self, root: Vertex, side: u32) -> Vec<u64> {
        let mut distance = vec![FAR; self.graph.vertices()];
        distance[root as usize] = 0;
        let mut next = BinaryHeap::from([Reverse((0, root))]);
        while let Some(Reverse((reached, vertex))) = next.pop() {
            if reached > distance[vertex as usize] {
                continue;
            }
            // What one node says of UTC bounds UTC, and no other node.
            if vertex == self.graph.utc() {
                continue;
            }
            let leaving = self.graph.leaving(vertex);
            for &edge in leaving {
                let to = self.graph.edges[edge as usize].to as usize;
                let by_edge = reached.saturating_add(self.slack_ns[(edge ^ side) as usize]);
                if by_edge < distance[to] && self.graph.heard[to] {
                    distance[to] = by_edge;
                    next.push(Reverse((by_edge, to as Vertex)));
                }
            }
            self.graph.work += leaving.len() as u64;
        }
        distance
    }
}

fn saturated(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}
