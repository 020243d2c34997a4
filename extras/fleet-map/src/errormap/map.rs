//! The map: samples in; each clock's interval, and who is wrong, out.

use schemars::JsonSchema;
use serde::Serialize;

use crate::errormap::estimate::least_squares;
use crate::errormap::graph::{Graph, Vertex};
use crate::errormap::intervals::{self, Against, largest_part};
use crate::errormap::liars::{self, Culprits};
use crate::errormap::median::median;
use crate::errormap::samples::{PairInterval, Samples, Settings};

/// A range of offsets, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OffsetInterval {
    /// At least.
    pub min_ns: i64,
    /// At most.
    pub max_ns: i64,
}

/// By how much a clock is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AheadBounds {
    /// Most likely, within the bounds.
    pub estimate_ns: i64,
    /// At least; negative where it may be behind.
    pub min_ns: i64,
    /// At most.
    pub max_ns: i64,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its clock against the median of all connected clocks; null where nothing connects it,
    /// or where it contradicts the others.
    pub ahead: Option<AheadBounds>,
    /// By how much it is ahead of UTC, by its own statement.
    pub claim: Option<OffsetInterval>,
    /// Number of nodes it was compared with.
    pub peers: u32,
}

/// A pair that was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Link {
    /// Positions of both in the list of nodes.
    pub nodes: (u32, u32),
    /// The second is ahead of the first by this, as their own samples show.
    pub measured: OffsetInterval,
    /// The same, by all paths through the fleet.
    pub all: OffsetInterval,
    /// By how much longer a packet takes from the first to the second than back: bounds,
    /// only where one direction is certainly slower.
    pub asymmetry: Option<OffsetInterval>,
    /// Number of samples that agree.
    pub samples: u32,
    /// Age of the newest, ns.
    pub age_ns: i64,
}

/// One step of a loop that contradicts itself: `to` is ahead of `from` by at most `most_ns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LoopStep {
    /// From this clock, or `UTC`.
    pub from: String,
    /// To this.
    pub to: String,
    /// Greatest amount by which `to` is ahead, ns.
    pub most_ns: i64,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MapFinding {
    /// The samples contradict each other: a node answers by more than one clock, its clock was
    /// set, or drifts faster than stated.
    Contradiction {
        /// The nodes that may be wrong. Without the suspects of all contradictions none is left.
        suspects: Vec<String>,
        /// There is no other contradiction: if one node alone is wrong, it is a suspect.
        is_only: bool,
        /// The loop that shows it; its sum is below zero.
        shown_by: Vec<LoopStep>,
    },
    /// The nodes' statements about UTC contradict each other: the statement of a suspect, or
    /// an answer of some clock, is wrong.
    FalseClaim {
        /// The nodes without whose statements no contradiction is left.
        suspects: Vec<String>,
        /// The loop that shows it.
        shown_by: Vec<LoopStep>,
    },
    /// A clock is off from the others' by more than the tolerance, for certain if what
    /// nodes answered is true where nothing contradicts it.
    Off {
        /// Which.
        node: String,
        /// By how much it is ahead.
        ahead: AheadBounds,
    },
    /// Most of the nodes that were compared with this one measured it off in one direction, by
    /// more than the tolerance each. A contradiction, here or elsewhere, leaves its bounds against
    /// all missing or too wide; that does not make this smaller.
    OffFromPeers {
        /// Which.
        node: String,
        /// By how much it is ahead of each of them.
        ahead: OffsetInterval,
        /// How many they are.
        peers: u32,
    },
    /// Between these two the newest samples contradict the older: a clock was set, or
    /// runs faster or slower than stated.
    Changed {
        /// One.
        node: String,
        /// The other.
        peer: String,
    },
    /// Nothing connects it with most of the others.
    Apart {
        /// Which.
        node: String,
    },
    /// Too many samples contradict each other, so the search ended early: the map has no
    /// bounds.
    NotSolved,
}

/// The map of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Map {
    /// The time that it holds for, by the median clock, ns since 1970.
    pub as_of_ns: i64,
    /// A clock's rate was taken to be off by at most this.
    pub drift_ppm: f64,
    /// A smaller offset is not reported, ns.
    pub tolerance_ns: i64,
    /// By how much the median clock is ahead of UTC, by the nodes' own statements.
    pub median_ahead_of_utc: Option<OffsetInterval>,
    /// The nodes, worst first.
    pub nodes: Vec<Node>,
    /// The pairs that were compared.
    pub links: Vec<Link>,
    /// What is wrong.
    pub findings: Vec<MapFinding>,
    /// Edges looked at: the work that it took.
    pub work: u64,
}

/// Solves the map: intervals that hold if each node answers by one clock, or contradicts
/// somebody where it does not, and no clock drifts faster than stated. A node that answers
/// by two clocks and contradicts nobody shifts each bound by twice their difference at most.
pub fn solve(samples: &Samples, settings: &Settings) -> Map {
    let as_of_ns = samples.as_of_ns();
    let pairs = samples.pairs(as_of_ns, settings);
    let claims = samples.claims(as_of_ns, settings);
    let mut graph = Graph::new(samples.names.len(), &pairs, &claims, settings.most_work);
    let mut culprits = liars::leave_out(&mut graph);
    // Nothing is left that contradicts itself.
    let mut potential = graph.feasible().unwrap_or_default();
    let mut part = largest_part(&graph);
    if graph.is_exhausted() {
        culprits.clear();
        potential.clear();
        part.clear();
    }
    let estimates = estimates(&potential, &graph, &part, &pairs);
    part.sort_by_key(|node| std::cmp::Reverse(estimates[*node as usize].unsigned_abs()));
    let against = if potential.is_empty() {
        let of_pair = |pair: &PairInterval| (pair.min_ns, pair.max_ns);
        let pairs = pairs.iter().map(of_pair).collect();
        Against { median: vec![None; graph.vertices()], pairs }
    } else {
        intervals::bounds(&mut graph, potential, &part, &pairs)
    };
    let solved = Solved { samples, settings, graph, pairs, claims, against, estimates };
    solved.map(as_of_ns, &culprits, &part)
}

/// The likeliest, against the median of the nodes that are connected.
fn estimates(
    potential: &[i128],
    graph: &Graph,
    part: &[Vertex],
    pairs: &[PairInterval],
) -> Vec<i64> {
    let start: Vec<f64> = potential.iter().take(graph.nodes).map(|ns| *ns as f64).collect();
    if start.is_empty() {
        return vec![0; graph.nodes];
    }
    let found: Vec<i64> = least_squares(&start, &graph.heard, pairs)
        .into_iter()
        .map(|ns| ns.round() as i64)
        .collect();
    let zero = median(part.iter().map(|node| found[*node as usize]).collect());
    found.into_iter().map(|ns| ns.saturating_sub(zero)).collect()
}

/// All that a map is made of.
struct Solved<'s> {
    samples: &'s Samples,
    settings: &'s Settings,
    graph: Graph,
    pairs: Vec<PairInterval>,
    claims: Vec<(u32, i64, i64)>,
    against: Against,
    estimates: Vec<i64>,
}

impl Solved<'_> {
    fn map(&self, as_of_ns: i64, culprits: &[Culprits], part: &[Vertex]) -> Map {
        let mut is_connected = vec![false; self.graph.nodes];
        part.iter().for_each(|node| is_connected[*node as usize] = true);
        let mut nodes: Vec<(u32, Node)> = (0..self.graph.nodes as u32)
            .map(|node| (node, self.node(node, &is_connected)))
            .collect();
        self.pairs.iter().for_each(|pair| {
            nodes[pair.nodes.0 as usize].1.peers += 1;
            nodes[pair.nodes.1 as usize].1.peers += 1;
        });
        let contradictions = culprits.iter().filter(|it| !self.is_of_claims(it)).count();
        let mut findings: Vec<MapFinding> =
            culprits.iter().map(|it| self.culprits(it, contradictions == 1)).collect();
        let is_solved = !self.graph.is_exhausted();
        findings.extend((!is_solved).then_some(MapFinding::NotSolved));
        // Those without an interval first: nothing good is known of them.
        nodes.sort_by_key(|(_, node)| {
            let worst = node.ahead.map_or((i64::MAX, u64::MAX), |it| {
                (off_ns(it.min_ns, it.max_ns), it.estimate_ns.unsigned_abs())
            });
            (std::cmp::Reverse(worst), node.name.clone())
        });
        for (number, node) in &nodes {
            let off =
                node.ahead.filter(|it| off_ns(it.min_ns, it.max_ns) > self.settings.tolerance_ns);
            let name = || node.name.clone();
            findings.extend(off.map(|ahead| MapFinding::Off { node: name(), ahead }));
            // Who is left out of the map for a contradiction takes others' figures with it.
            if off.is_none() && contradictions > 0 {
                findings.extend(self.off_from_peers(*number));
            }
            let is_apart = self.graph.heard[*number as usize] && !is_connected[*number as usize];
            findings.extend((is_apart && is_solved).then(|| MapFinding::Apart { node: name() }));
        }
        let broken = self.pairs.iter().filter(|pair| pair.is_broken);
        findings.extend(broken.map(|pair| MapFinding::Changed {
            node: self.name(pair.nodes.0),
            peer: self.name(pair.nodes.1),
        }));
        let mut places = vec![0; nodes.len()];
        for (place, (number, _)) in nodes.iter().enumerate() {
            places[*number as usize] = place as u32;
        }
        let links = self.pairs.iter().zip(&self.against.pairs);
        let links = links.map(|(pair, all)| link(pair, *all, &places)).collect();
        let utc = self.against.median[self.graph.utc() as usize];
        Map {
            as_of_ns,
            drift_ppm: self.settings.drift_ppm,
            tolerance_ns: self.settings.tolerance_ns,
            median_ahead_of_utc: utc.filter(|_| !self.claims.is_empty()).map(|(min_ns, max_ns)| {
                OffsetInterval { min_ns: max_ns.saturating_neg(), max_ns: min_ns.saturating_neg() }
            }),
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
            links,
            findings,
            work: self.graph.work,
        }
    }

    fn name(&self, vertex: Vertex) -> String {
        let node = liars::claimant(&self.graph, vertex).unwrap_or(vertex);
        self.samples.names.get(node as usize).cloned().unwrap_or_else(|| "UTC".to_owned())
    }

    fn node(&self, node: u32, is_connected: &[bool]) -> Node {
        let bounds = self.against.median[node as usize].filter(|_| is_connected[node as usize]);
        let ahead = bounds.map(|(min_ns, max_ns)| {
            // Bounds of one truth do not cross.
            let max_ns = max_ns.max(min_ns);
            let estimate_ns = self.estimates[node as usize].clamp(min_ns, max_ns);
            AheadBounds { estimate_ns, min_ns, max_ns }
        });
        let of = |claim: &(u32, i64, i64)| OffsetInterval { min_ns: claim.1, max_ns: claim.2 };
        let claim = self.claims.binary_search_by_key(&node, |claim| claim.0);
        let claim = claim.ok().map(|index| of(&self.claims[index]));
        Node { name: self.name(node), ahead, claim, peers: 0 }
    }

    /// What the pairs of a node show alone, whose bounds are missing or too wide.
    fn off_from_peers(&self, node: u32) -> Option<MapFinding> {
        let pairs = self.pairs.iter().filter_map(|pair| match pair.nodes {
            (_, to) if to == node => Some((pair.min_ns, pair.max_ns)),
            (from, _) if from == node => {
                Some((pair.max_ns.saturating_neg(), pair.min_ns.saturating_neg()))
            }
            _ => None,
        });
        let pairs: Vec<(i64, i64)> = pairs.collect();
        let is_off = |ns: i64| ns > self.settings.tolerance_ns;
        let off = pairs.iter().copied().filter(|(min_ns, max_ns)| is_off(off_ns(*min_ns, *max_ns)));
        let (ahead, behind): (Vec<(i64, i64)>, Vec<_>) = off.partition(|(min_ns, _)| *min_ns > 0);
        let shown = if ahead.len() > behind.len() { ahead } else { behind };
        if shown.len() < FEWEST_PEERS || 2 * shown.len() <= pairs.len() {
            return None;
        }
        let min_ns = shown.iter().map(|pair| pair.0).min()?;
        let max_ns = shown.iter().map(|pair| pair.1).max()?;
        let (node, ahead) = (self.name(node), OffsetInterval { min_ns, max_ns });
        Some(MapFinding::OffFromPeers { node, ahead, peers: shown.len() as u32 })
    }

    fn is_of_claims(&self, it: &Culprits) -> bool {
        it.suspects.iter().any(|vertex| *vertex > self.graph.utc())
    }

    fn culprits(&self, it: &Culprits, is_only: bool) -> MapFinding {
        let suspects = it.suspects.iter().map(|vertex| self.name(*vertex)).collect();
        let steps = it.shown_by.iter().map(|edge| self.graph.edges[*edge as usize]);
        // Between a claim and its node is nothing to see.
        let steps = steps.map(|edge| LoopStep {
            from: self.name(edge.from),
            to: self.name(edge.to),
            most_ns: edge.most_ns,
        });
        let shown_by = steps.filter(|step| step.from != step.to).collect();
        if self.is_of_claims(it) {
            MapFinding::FalseClaim { suspects, shown_by }
        } else {
            MapFinding::Contradiction { suspects, is_only, shown_by }
        }
    }
}

/// Two clocks that differ from a third may be the wrong ones.
const FEWEST_PEERS: usize = 3;

/// By how much it is off at the least.
fn off_ns(min_ns: i64, max_ns: i64) -> i64 {
    min_ns.max(max_ns.saturating_neg()).max(0)
}

fn link(pair: &PairInterval, all: (i64, i64), places: &[u32]) -> Link {
    let all = OffsetInterval { min_ns: all.0, max_ns: all.1.max(all.0) };
    // There it takes at most max - d, and back d - min. No way is the widening of either,
    // nor what the clocks went apart by since either, which is no more.
    let (sum_ns, no_way_ns) =
        (pair.min_ns.saturating_add(pair.max_ns), pair.widened_ns.saturating_mul(2));
    let asymmetry = OffsetInterval {
        min_ns: sum_ns.saturating_sub(all.max_ns.saturating_mul(2)).saturating_sub(no_way_ns),
        max_ns: sum_ns.saturating_sub(all.min_ns.saturating_mul(2)).saturating_add(no_way_ns),
    };
    let is_certain = asymmetry.min_ns > 0 || asymmetry.max_ns < 0;
    Link {
        nodes: (places[pair.nodes.0 as usize], places[pair.nodes.1 as usize]),
        measured: OffsetInterval { min_ns: pair.min_ns, max_ns: pair.max_ns },
        all,
        asymmetry: is_certain.then_some(asymmetry),
        samples: pair.samples,
        age_ns: pair.age_ns,
    }
}
