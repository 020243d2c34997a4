//! By how much each clock is ahead, roughly: enough to tell how old what it stamped is.
//!
//! A clock's own peers do not tell that: of a minority that is off alike, most may be
//! peers of one that is right. So the offsets are added up along trees that span the fleet,
//! and the zero is the median of all. One who answers falsely shifts what is behind it in a
//! tree: there are several trees, from roots that are spread, and in the end each clock goes
//! by most of its peers.

use std::collections::VecDeque;

use crate::errormap::median::median;

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
