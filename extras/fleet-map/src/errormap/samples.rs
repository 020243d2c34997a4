//! Samples gathered by pair, and the interval that those of a pair leave.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::errormap::median::median;
use crate::errormap::sample::{Claim, Invalid, ProbeSample};

/// Nodes of a map.
pub const MOST_NODES: usize = 20_000;
/// Pairs of a map.
pub const MOST_PAIRS: usize = 400_000;
/// The newest so many samples of a pair count.
pub const SAMPLES_OF_A_PAIR: usize = 64;

/// An age is known to this.
const AGE_ERROR_NS: i64 = 10_000_000;

/// What is not in the samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// A clock's rate is off by this at most: a sample's interval widens on both sides by
    /// twice this for each second of its age, as both clocks may be. 15 ppm is what RFC
    /// 5905 takes (PHI): 10 s are 300 us.
    pub drift_ppm: f64,
    /// Samples older than this do not count, ns.
    pub window_ns: i64,
    /// A clock is off that is ahead or behind by more than this for certain, ns.
    pub tolerance_ns: i64,
    /// So many edges are looked at for contradictions, ten of the default's 4e9 in some 25
    /// ns: a fleet of 10,000 nodes of which three lie takes a hundredth. Beyond, it is not
    /// solved.
    pub most_work: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            drift_ppm: 15.0,
            window_ns: 300_000_000_000,
            tolerance_ns: 1_000_000,
            most_work: 4_000_000_000,
        }
    }
}

/// Why a sample was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It says nothing.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A map of more than that is not solved.
    #[error("more than {MOST_NODES} nodes, or {MOST_PAIRS} pairs")]
    TooMany,
}

/// Samples of a fleet, and claims, in bounded room.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    pub(crate) names: Vec<String>,
    index: HashMap<String, u32>,
    pairs: BTreeMap<(u32, u32), VecDeque<StampedInterval>>,
    claims: BTreeMap<u32, Claim>,
    /// The newest stamp of each node that probed, by its own clock.
    newest_ns: BTreeMap<u32, i64>,
}

/// A sample of a pair, whose first clock is the one of the lower number.
#[derive(Debug, Clone, Copy)]
struct StampedInterval {
    min_ns: i64,
    max_ns: i64,
    /// By the clocks of both.
    at_ns: [i64; 2],
}

/// What the samples of a pair leave: the second clock is ahead of the first by this.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairInterval {
    pub(crate) nodes: (u32, u32),
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
    /// Within that, what the narrowest sample shows.
    pub(crate) middle_ns: i64,
    /// By how much it was widened at most.
    pub(crate) widened_ns: i64,
    pub(crate) samples: u32,
    pub(crate) age_ns: i64,
    /// Older samples contradict it: a clock was set, or ran faster than the drift allows.
    pub(crate) is_broken: bool,
}

impl Samples {
    /// Takes a sample; of two probes of one pair it does not matter who asked.
    ///
    /// # Errors
    /// It says nothing, or there are too many already.
    pub fn add(&mut self, sample: &ProbeSample) -> Result<(), Refused> {
        sample.check()?;
        let (from, to) = (self.number(&sample.from)?, self.number(&sample.to)?);
        let middle_ns = sample.min_ns.midpoint(sample.max_ns);
        let other_ns = sample.at_ns.saturating_add(middle_ns);
        let newest = self.newest_ns.entry(from).or_insert(sample.at_ns);
        *newest = sample.at_ns.max(*newest);
        let (key, seen) = if from < to {
            let at_ns = [sample.at_ns, other_ns];
            ((from, to), StampedInterval { min_ns: sample.min_ns, max_ns: sample.max_ns, at_ns })
        } else {
            let at_ns = [other_ns, sample.at_ns];
            ((to, from), StampedInterval { min_ns: -sample.max_ns, max_ns: -sample.min_ns, at_ns })
        };
        if self.pairs.len() >= MOST_PAIRS && !self.pairs.contains_key(&key) {
            return Err(Refused::TooMany);
        }
        keep(self.pairs.entry(key).or_default(), seen);
        Ok(())
    }

    /// Takes a claim, in place of an earlier one.
    ///
    /// # Errors
    /// It says nothing, or there are too many nodes.
    pub fn claim(&mut self, claim: Claim) -> Result<(), Refused> {
        claim.check()?;
        let node = self.number(&claim.node)?;
        self.claims.insert(node, claim);
        Ok(())
    }

    fn number(&mut self, name: &str) -> Result<u32, Refused> {
        if let Some(number) = self.index.get(name) {
            return Ok(*number);
        }
        if self.names.len() >= MOST_NODES {
            return Err(Refused::TooMany);
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), number);
        Ok(number)
    }

    /// The time of the map: the median of those that the probing clocks showed last. A
    /// minority that is off does not move it beyond the others.
    pub(crate) fn as_of_ns(&self) -> i64 {
        let mut newest: Vec<i64> = self.newest_ns.values().copied().collect();
        if newest.is_empty() {
            return 0;
        }
        let middle = newest.len() / 2;
        *newest.select_nth_unstable(middle).1
    }

    /// The intervals of all pairs at that time.
    pub(crate) fn pairs(&self, as_of_ns: i64, settings: &Settings) -> Vec<PairInterval> {
        let ahead_ns = self.roughly_ahead_ns();
        let left = |(&nodes, seen): (&(u32, u32), &VecDeque<StampedInterval>)| {
            let ahead_ns = [nodes.0, nodes.1].map(|node| ahead_ns[node as usize]);
            left_of(nodes, seen, as_of_ns, ahead_ns, settings)
        };
        self.pairs.iter().filter_map(left).collect()
    }

    /// By how much each clock is ahead of most, for the ages of what it stamped.
    fn roughly_ahead_ns(&self) -> Vec<i64> {
        let newest = |(&nodes, seen): (&(u32, u32), &VecDeque<StampedInterval>)| {
            let last = seen.back()?;
            Some((nodes, last.min_ns.midpoint(last.max_ns)))
        };
        crate::errormap::samples::ahead_ns(
            self.names.len(),
            &self.pairs.iter().filter_map(newest).collect::<Vec<_>>(),
        )
    }

    /// By how much each claiming node says to be ahead of UTC, from and to.
    pub(crate) fn claims(&self, as_of_ns: i64, settings: &Settings) -> Vec<(u32, i64, i64)> {
        let ahead = |(&node, claim): (&u32, &Claim)| {
            let wide_ns =
                claim.bound_ns.saturating_add(widened_ns(as_of_ns, claim.at_ns, settings) / 2);
            let from_ns = (-claim.offset_ns).saturating_sub(wide_ns);
            (node, from_ns, (-claim.offset_ns).saturating_add(wide_ns))
        };
        self.claims.iter().map(ahead).collect()
    }
}

/// Adds one, in place of the oldest if there are enough: by the first clock or, where that
/// was set back since, by the second. One that is older than all by both is not taken.
fn keep(of_pair: &mut VecDeque<StampedInterval>, seen: StampedInterval) {
    if of_pair.len() == SAMPLES_OF_A_PAIR {
        let replaced = [0, 1].into_iter().find_map(|clock| {
            let (index, oldest) =
                of_pair.iter().enumerate().min_by_key(|(_, one)| one.at_ns[clock])?;
            (oldest.at_ns[clock] <= seen.at_ns[clock]).then_some(index)
        });
        let Some(index) = replaced else { return };
        of_pair.remove(index);
    }
    of_pair.push_back(seen);
}

/// By how much two clocks may have gone apart since, or till then.
fn widened_ns(as_of_ns: i64, at_ns: i64, settings: &Settings) -> i64 {
    let age_ns = as_of_ns.saturating_sub(at_ns).unsigned_abs() as f64;
    // Of a cast beyond 64 bits comes the largest.
    ((age_ns * 2e-6 * settings.drift_ppm).ceil() as i64).min(crate::errormap::LONGEST_NS)
}

/// What all samples of a pair leave that do not contradict a newer one.
fn left_of(
    nodes: (u32, u32),
    seen: &VecDeque<StampedInterval>,
    as_of_ns: i64,
    ahead_ns: [i64; 2],
    settings: &Settings,
) -> Option<PairInterval> {
    let mut left: Option<(PairInterval, i64)> = None;
    // By both clocks: one of them may be hours off, or dead since hours.
    let age_ns = |one: &StampedInterval| {
        let by_clock = one.at_ns.into_iter().zip(ahead_ns).map(|(at_ns, ahead_ns)| {
            as_of_ns.saturating_sub(at_ns.saturating_sub(ahead_ns)).saturating_abs()
        });
        by_clock.max().unwrap_or_default().saturating_add(AGE_ERROR_NS)
    };
    let mut newest_first: Vec<(i64, &StampedInterval)> =
        seen.iter().map(|one| (age_ns(one), one)).collect();
    newest_first.sort_by_key(|(age_ns, _)| *age_ns);
    for (age_ns, one) in newest_first {
        let widened_ns = widened_ns(as_of_ns, as_of_ns.saturating_sub(age_ns), settings);
        let (min_ns, max_ns) =
            (one.min_ns.saturating_sub(widened_ns), one.max_ns.saturating_add(widened_ns));
        let (width_ns, middle_ns) = (max_ns.saturating_sub(min_ns), min_ns.midpoint(max_ns));
        let Some((pair, narrowest_ns)) = &mut left else {
            let (samples, is_broken) = (1, false);
            let pair = PairInterval {
                nodes,
                min_ns,
                max_ns,
                middle_ns,
                widened_ns,
                samples,
                age_ns,
                is_broken,
            };
            left = Some((pair, width_ns));
            continue;
        };
        if age_ns.saturating_sub(pair.age_ns) > settings.window_ns {
            break;
        }
        if min_ns > pair.max_ns || max_ns < pair.min_ns {
            pair.is_broken = true;
            break;
        }
        pair.widened_ns = pair.widened_ns.max(widened_ns);
        (pair.min_ns, pair.max_ns) = (pair.min_ns.max(min_ns), pair.max_ns.min(max_ns));
        pair.samples += 1;
        if width_ns < *narrowest_ns {
            (*narrowest_ns, pair.middle_ns) = (width_ns, middle_ns);
        }
    }
    left.map(|(pair, _)| {
        let middle_ns = pair.middle_ns.clamp(pair.min_ns, pair.max_ns);
        PairInterval { middle_ns, ..pair }
    })
}

// By how much each clock is ahead, roughly: enough to tell how old what it stamped is.
//
// A clock's own peers do not tell that: of a minority that is off alike, most may be
// peers of one that is right. So the offsets are added up along trees that span the fleet,
// and the zero is the median of all. One who answers falsely shifts what is behind it in a
// tree: there are several trees, from roots that are spread, and in the end each clock goes
// by most of its peers.

/// Trees that span the fleet.
const TREES: usize = 9;
/// Rounds in which each clock goes by its peers: a lie that shifted a few of them is gone
/// after one, and what it did to those after the next.
const ROUNDS: usize = 3;

/// Two that were compared, and by how much the second was ahead.
pub(crate) type Compared = ((u32, u32), i64);

/// Against the median of those that are connected with it, ns.
pub(crate) fn ahead_ns(nodes: usize, compared: &[Compared]) -> Vec<i64> {
    let mut peers = vec![Vec::new(); nodes];
    for &((a, b), apart_ns) in compared {
        peers[a as usize].push((b as usize, apart_ns));
        peers[b as usize].push((a as usize, apart_ns.saturating_neg()));
    }
    let count = TREES.min(nodes);
    let trees: Vec<Vec<i64>> =
        (0..count).map(|tree| by_tree(&peers, tree * nodes / count)).collect();
    let mut ahead_ns: Vec<i64> =
        (0..nodes).map(|node| median(trees.iter().map(|tree| tree[node]).collect())).collect();
    for _ in 0..ROUNDS {
        let by_peers = peers.iter().map(|of| {
            of.iter().map(|(peer, apart_ns)| ahead_ns[*peer].saturating_sub(*apart_ns)).collect()
        });
        ahead_ns = by_peers.map(median).collect();
    }
    ahead_ns
}

/// Along the shortest ways from a root, and from others to what it does not reach.
fn by_tree(peers: &[Vec<(usize, i64)>], root: usize) -> Vec<i64> {
    let (mut ahead_ns, mut is_reached) = (vec![0_i64; peers.len()], vec![false; peers.len()]);
    for root in (root..peers.len()).chain(0..root) {
        if std::mem::replace(&mut is_reached[root], true) {
            continue;
        }
        let (mut part, mut next) = (vec![root], VecDeque::from([root]));
        while let Some(node) = next.pop_front() {
            for &(peer, apart_ns) in &peers[node] {
                if !std::mem::replace(&mut is_reached[peer], true) {
                    ahead_ns[peer] = ahead_ns[node].saturating_add(apart_ns);
                    part.push(peer);
                    next.push_back(peer);
                }
            }
        }
        let zero = median(part.iter().map(|node| ahead_ns[*node]).collect());
        part.iter().for_each(|node| ahead_ns[*node] = ahead_ns[*node].saturating_sub(zero));
    }
    ahead_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zero_is_the_median_of_the_fleet_not_of_a_nodes_peers() {
        // 0 to 2 are right, 3 and 4 are off by 1000; all that 0 is compared with are off.
        let compared =
            [((0, 3), 1000), ((0, 4), 1000), ((1, 3), 1000), ((1, 2), 0), ((2, 4), 1000)];
        assert_eq!(ahead_ns(5, &compared), [0, 0, 0, 1000, 1000]);
        // And of a part of its own.
        let apart = [((0, 1), 5), ((0, 2), 5), ((3, 4), 8)];
        assert_eq!(ahead_ns(5, &apart), [-5, 0, 0, -4, 4]);
    }

    #[test]
    fn one_who_answers_falsely_shifts_nobody() {
        // All are right, and compared with all; 1 told 0, 2 and 4 another time.
        let lie = |a: u32, b: u32| match (a, b) {
            (0, 1) => 1000,
            (1, 2 | 4) => -1000,
            _ => 0,
        };
        let all = (0..5).flat_map(|a| (a + 1..5).map(move |b| ((a, b), lie(a, b))));
        let found = ahead_ns(5, &all.collect::<Vec<_>>());
        assert_eq!([found[0], found[2], found[3], found[4]], [0; 4], "{found:?}");
    }
}
