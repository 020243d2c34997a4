//! The intervals hold the truth.

use fleet_map::errormap::{Claim, Map, MapFinding, Settings, solve};
use proptest::prelude::*;
use test_size::size;

use crate::model::{BEGIN, Fleet, MS, S, name};

/// Numbers of the nodes that have an interval.
fn connected(map: &Map) -> Vec<usize> {
    let number = |name: &str| name[1..].parse().unwrap();
    map.nodes.iter().filter(|node| node.ahead.is_some()).map(|node| number(&node.name)).collect()
}

/// Each bound holds against both medians, but for `false_ns` that lies which nothing
/// contradicts may shift a bound between two clocks by.
fn holds_the_truth(map: &Map, fleet: &Fleet, false_ns: i64) {
    let truth = fleet.truth(map.as_of_ns, &connected(map));
    for node in &map.nodes {
        let Some(ahead) = node.ahead else { continue };
        for true_ns in truth.iter().map(|of| of[node.name[1..].parse::<usize>().unwrap()]) {
            let (least, most) = (true_ns - 2 * false_ns, true_ns + 2 * false_ns);
            assert!(ahead.min_ns <= most && least <= ahead.max_ns, "{true_ns}: {node:?}");
        }
        assert!(ahead.min_ns <= ahead.estimate_ns && ahead.estimate_ns <= ahead.max_ns);
    }
    for link in &map.links {
        let [a, b] = [link.nodes.0, link.nodes.1].map(|node| &map.nodes[node as usize]);
        if a.ahead.is_none() || b.ahead.is_none() {
            continue;
        }
        let [a, b] = [a, b].map(|node| node.name[1..].parse::<usize>().unwrap());
        let apart = truth[0][b] - truth[0][a];
        let all = link.all;
        assert!(all.min_ns - false_ns <= apart && apart <= all.max_ns + false_ns, "{link:?}");
        assert!(link.measured.min_ns <= link.all.min_ns && link.all.max_ns <= link.measured.max_ns);
        let (there, back) = (fleet.ways[&(a, b)], fleet.ways[&(b, a)]);
        let Some(longer) = link.asymmetry.filter(|_| false_ns == 0) else { continue };
        let (least, most) = (there[0] - back[1], there[1] - back[0]);
        assert!(longer.min_ns <= most && least <= longer.max_ns, "{least} {most}: {link:?}");
    }
}

fn off(map: &Map) -> Vec<String> {
    let of = |finding: &MapFinding| match finding {
        MapFinding::Off { node, .. } => Some(node.clone()),
        _ => None,
    };
    let mut names: Vec<_> = map.findings.iter().filter_map(of).collect();
    names.sort();
    names
}

fn suspects(map: &Map) -> Vec<Vec<String>> {
    let of = |finding: &MapFinding| match finding {
        MapFinding::Contradiction { suspects, .. } => Some(suspects.clone()),
        _ => None,
    };
    map.findings.iter().filter_map(of).collect()
}

fn wrong_clocks(seed: u64, nodes: usize, part: f64, wrong_ns: i64, is_alike: bool) {
    let mut fleet = Fleet::new(seed, nodes, 8);
    let wrong = (nodes as f64 * part) as usize;
    for node in 0..wrong {
        let sign = if !is_alike && node % 2 == 0 { -1 } else { 1 };
        fleet.clocks[node].ahead += sign * wrong_ns;
    }
    // The right ones are up to 2.8 ms apart: half a millisecond each, and 60 s of drift.
    let settings = Settings { tolerance_ns: 3 * MS, ..Settings::default() };
    let map = solve(&fleet.probed(60 * S), &settings);
    holds_the_truth(&map, &fleet, 0);
    assert_eq!(suspects(&map), Vec::<Vec<String>>::new());
    assert_eq!(connected(&map).len(), nodes);
    let mut expected: Vec<String> = (0..wrong).map(name).collect();
    expected.sort();
    assert_eq!(off(&map), expected);
}

/// 23 of 49 are off alike, and are most of the peers of two that are right: their samples
/// were taken for seconds younger than they were.
#[test]
fn of_wrong_clocks_that_are_most_of_the_peers_of_right_ones() {
    wrong_clocks(18_178_790_744_426_355_111, 49, 0.474_057_7, 4_297_611_127, true);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(size(100, 400)))]

    /// A minority of clocks is off by anything from 10 ms to a day, some alike: all
    /// intervals hold the truth, nobody is called a liar, and just those are off.
    #[test]
    fn of_wrong_clocks(
        seed: u64,
        nodes in 3..80_usize,
        part in 0.0..0.49,
        wrong_ns in prop_oneof![10 * MS..20 * MS, 10 * MS..86_400 * S],
        is_alike: bool,
    ) {
        wrong_clocks(seed, nodes, part, wrong_ns, is_alike);
    }

    /// Some answer half of their peers by another clock. From 5 ms on they contradict the
    /// others, and what is believed holds the truth. Below, a way through the fleet passes
    /// each once and is shifted by each lie at most.
    #[test]
    fn of_liars(
        seed: u64,
        nodes in 20..80_usize,
        part in 0.0..0.2,
        lie_ns in prop_oneof![0..5 * MS, 5 * MS..S],
    ) {
        let mut fleet = Fleet::new(seed, nodes, 8);
        let liars = (nodes as f64 * part) as usize;
        for node in 0..liars {
            fleet.clocks[node].lie = lie_ns;
        }
        let map = solve(&fleet.probed(60 * S), &Settings::default());
        let false_ns = if lie_ns < 5 * MS { lie_ns * liars as i64 } else { 0 };
        holds_the_truth(&map, &fleet, false_ns);
    }

    /// A single one of them is named, alone or among those between whom nothing decides;
    /// and whatever its lie is, nobody else is named without it.
    #[test]
    fn of_a_liar(
        seed: u64,
        nodes in 20..80_usize,
        lie_ns in prop_oneof![0..5 * MS, 5 * MS..S],
    ) {
        let mut fleet = Fleet::new(seed, nodes, 8);
        fleet.clocks[1].lie = lie_ns;
        let map = solve(&fleet.probed(60 * S), &Settings::default());
        holds_the_truth(&map, &fleet, if lie_ns < 5 * MS { lie_ns } else { 0 });
        for finding in &map.findings {
            if let MapFinding::Contradiction { suspects, is_only, .. } = finding {
                prop_assert!(*is_only && suspects.contains(&name(1)), "{finding:?}");
            }
        }
        prop_assume!(lie_ns >= 5 * MS);
        // One who answers nobody, or only those whom it also asks by its own clock, has no
        // second face; or a changed one.
        prop_assume!(fleet.lied_to.difference(&fleet.asked_by_liars).count() >= 2);
        let named = suspects(&map);
        prop_assert!(named.len() == 1 && named[0].contains(&name(1)), "{named:?}");
    }

    /// Nodes say how far they are from UTC; a minority says so wrongly. Their clocks
    /// stay in the map, whose bounds do not rest on what they say, and where UTC is known.
    #[test]
    fn of_false_claims(
        seed: u64,
        nodes in 8..60_usize,
        part in 0.0..0.3,
        wrong_ns in prop_oneof![0..10 * MS, 10 * MS..S],
    ) {
        let mut fleet = Fleet::new(seed, nodes, 8);
        let wrong = (nodes as f64 * part) as usize;
        for node in 0..wrong {
            fleet.clocks[node].ahead += wrong_ns;
        }
        let mut samples = fleet.probed(60 * S);
        for node in 0..nodes {
            // Half a millisecond and 60 s of drift, which for the first ones is not true.
            let (offset_ns, bound_ns, at_ns) = (0, 3 * MS / 2, BEGIN + 60 * S + fleet.clocks[node].ahead);
            samples.claim(Claim { node: name(node), offset_ns, bound_ns, at_ns }).unwrap();
        }
        let map = solve(&samples, &Settings::default());
        holds_the_truth(&map, &fleet, 0);
        prop_assert_eq!(&suspects(&map), &Vec::<Vec<String>>::new());
        prop_assume!(wrong_ns >= 10 * MS);
        let accused = |finding: &MapFinding| match finding {
            MapFinding::FalseClaim { suspects, .. } => Some(suspects.clone()),
            _ => None,
        };
        let mut accused: Vec<_> = map.findings.iter().filter_map(accused).flatten().collect();
        accused.sort();
        let mut expected: Vec<String> = (0..wrong).map(name).collect();
        expected.sort();
        prop_assert_eq!(accused, expected);
        let utc = map.median_ahead_of_utc.unwrap();
        let median_ns =
            fleet.clocks[0].error(60 * S) - fleet.truth(map.as_of_ns, &connected(&map))[0][0];
        prop_assert!(utc.min_ns <= median_ns && median_ns <= utc.max_ns, "{utc:?} {median_ns}");
    }
}
