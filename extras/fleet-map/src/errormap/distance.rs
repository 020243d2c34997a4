//! Shortest ways in the graph: the tightest bounds that all constraints together give.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::errormap::graph::{Graph, Vertex};

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
