//! Who is named, and how soon.

use fleet_map::errormap::{
    AheadBounds, Claim, MapFinding, ProbeSample, SAMPLES_OF_A_PAIR, Samples, Settings, solve,
};

use crate::model::{Fleet, MS, Random, S, name};

/// A fleet of 1,000 with one clock 5 ms off: named alone within 60 s, at a probe in 10 s of
/// each peer; the interval is narrow enough to be of use.
#[test]
fn a_clock_5_ms_off_is_named_within_a_minute() {
    for seed in 0..3 {
        let mut fleet = Fleet::new(seed, 1000, 8);
        // Against its own error of up to half a millisecond, and the same drift.
        fleet.clocks[17].ahead = if seed % 2 == 0 { 5 * MS } else { -5 * MS };
        let map = solve(&fleet.probed(60 * S), &Settings::default());
        let [MapFinding::Off { node, ahead }] = &map.findings[..] else {
            panic!("{:?}", map.findings);
        };
        assert_eq!(*node, name(17));
        assert_eq!(map.nodes[0].name, name(17));
        assert!(ahead.max_ns - ahead.min_ns < 2 * MS, "{ahead:?}");
    }
}

/// Three nodes: of two answers that contradict a third, nobody can say whose is wrong.
#[test]
fn of_three_that_contradict_each_other_each_may_lie() {
    let mut samples = fleet_map::errormap::Samples::default();
    for (from, to, ahead_ms) in [("a", "b", 0), ("b", "c", 0), ("a", "c", 9)] {
        let sample = fleet_map::errormap::ProbeSample {
            from: from.into(),
            to: to.into(),
            min_ns: ahead_ms * MS,
            max_ns: (ahead_ms + 1) * MS,
            at_ns: S,
        };
        samples.add(&sample).unwrap();
    }
    let map = solve(&samples, &Settings::default());
    let [MapFinding::Contradiction { suspects, shown_by, .. }, ..] = &map.findings[..] else {
        panic!("{:?}", map.findings);
    };
    let mut suspects = suspects.clone();
    suspects.sort();
    assert_eq!(suspects, ["a", "b", "c"]);
    assert!(shown_by.iter().map(|step| step.most_ns).sum::<i64>() < 0, "{shown_by:?}");
    assert!(map.nodes.iter().all(|node| node.ahead.is_none()));
}

/// Two seconds stay beyond doubt where three others contradict each other by microseconds.
#[test]
fn a_smaller_contradiction_hides_no_large_error() {
    const US: i64 = 1_000;
    for sign in [1, -1] {
        let mut samples = fleet_map::errormap::Samples::default();
        let mut add = |from: &str, to: &str, middle_ns: i64, bound_ns: i64| {
            let sample = fleet_map::errormap::ProbeSample {
                from: from.into(),
                to: to.into(),
                min_ns: middle_ns - bound_ns,
                max_ns: middle_ns + bound_ns,
                at_ns: S,
            };
            samples.add(&sample).unwrap();
        };
        for from in ["n1", "n2", "n3"] {
            add(from, "n4", sign * 2 * S, 100 * US);
        }
        add("n1", "n2", 0, 10 * US);
        add("n2", "n3", 0, 10 * US);
        add("n1", "n3", 101 * US, 10 * US);
        let map = solve(&samples, &Settings { drift_ppm: 0.0, ..Settings::default() });
        let certain = map.findings.iter().find_map(|finding| match finding {
            MapFinding::Off { node, ahead } => Some((node, ahead.min_ns, ahead.max_ns)),
            MapFinding::OffFromPeers { node, ahead, peers: 3 } => {
                Some((node, ahead.min_ns, ahead.max_ns))
            }
            _ => None,
        });
        let (node, min_ns, max_ns) = certain.unwrap_or_else(|| panic!("{:?}", map.findings));
        assert_eq!(node, "n4");
        assert!((min_ns - sign * 2 * S).abs() < MS && (max_ns - sign * 2 * S).abs() < MS);
        let contradicts = |it: &MapFinding| matches!(it, MapFinding::Contradiction { .. });
        assert!(map.findings.iter().any(contradicts), "{:?}", map.findings);
        let others_off = map.findings.iter().filter(|finding| {
            matches!(finding, MapFinding::Off { node, .. } | MapFinding::OffFromPeers { node, .. } if node != "n4")
        });
        assert_eq!(others_off.count(), 0, "{:?}", map.findings);
    }
}

/// A clock that is set between two probes contradicts itself.
#[test]
fn a_clock_that_was_set_is_seen() {
    let mut samples = fleet_map::errormap::Samples::default();
    for (at_ns, ahead_ns) in [(S, 0), (11 * S, 50 * MS)] {
        let sample = fleet_map::errormap::ProbeSample {
            from: "a".into(),
            to: "b".into(),
            min_ns: ahead_ns,
            max_ns: ahead_ns + MS,
            at_ns,
        };
        samples.add(&sample).unwrap();
    }
    let map = solve(&samples, &Settings::default());
    let changed = MapFinding::Changed { node: "a".into(), peer: "b".into() };
    assert!(map.findings.contains(&changed), "{:?}", map.findings);
    // The newest sample counts.
    assert!(map.links[0].measured.min_ns > 49 * MS);
}

/// A way there of 3 ms and none back: bounded, and never less than what is certain.
#[test]
fn an_asymmetric_link_is_bounded() {
    let mut samples = fleet_map::errormap::Samples::default();
    let mut pair = |from: &str, to: &str, min_us: i64, max_us: i64| {
        let sample = fleet_map::errormap::ProbeSample {
            from: from.into(),
            to: to.into(),
            min_ns: min_us * 1000,
            max_ns: max_us * 1000,
            at_ns: S,
        };
        samples.add(&sample).unwrap();
    };
    // All show the same time; a packet takes 10 us, but from a to c.
    pair("a", "b", -10, 10);
    pair("b", "c", -10, 10);
    pair("a", "c", -10, 3000);
    let settings = Settings { drift_ppm: 0.0, ..Settings::default() };
    let map = solve(&samples, &settings);
    let found: Vec<_> = map.links.iter().filter_map(|link| link.asymmetry).collect();
    let [asymmetry] = found[..] else { panic!("{found:?}") };
    // The truth, 2,990 us, is within.
    assert_eq!((asymmetry.min_ns, asymmetry.max_ns), (2_950_000, 3_010_000));
}

fn sample(from: &str, to: &str, ms: [i64; 2], at_ns: i64) -> ProbeSample {
    let [min_ns, max_ns] = ms.map(|ms| ms * MS);
    ProbeSample { from: from.into(), to: to.into(), min_ns, max_ns, at_ns }
}

/// Of two halves, and of two clocks, each may be the right one.
#[test]
fn of_two_halves_neither_is_off() {
    for halves in [&["w1", "r1"][..], &["w1", "r1", "w2", "r2"]] {
        let mut samples = Samples::default();
        for (index, from) in halves.iter().enumerate() {
            for to in &halves[..index] {
                let ahead = |name: &str| if name.starts_with('w') { -5 } else { 0 };
                let apart = ahead(to) - ahead(from);
                samples.add(&sample(from, to, [apart, apart], S)).unwrap();
            }
        }
        let map = solve(&samples, &Settings { drift_ppm: 0.0, ..Settings::default() });
        assert_eq!(map.findings, []);
        for node in &map.nodes {
            let AheadBounds { estimate_ns, min_ns, max_ns } = node.ahead.unwrap();
            assert!(min_ns <= 0 && 0 <= max_ns && max_ns - min_ns == 5 * MS, "{node:?}");
            assert_eq!(estimate_ns.abs(), 5 * MS / 2);
        }
    }
}

/// Whatever the order in which files are read.
#[test]
fn the_newest_samples_count_in_any_order() {
    let settings = Settings { window_ns: 3600 * S, ..Settings::default() };
    let samples_of = |order: &mut dyn Iterator<Item = i64>| {
        let mut samples = Samples::default();
        order.for_each(|s| samples.add(&sample("a", "b", [0, 1], s * S)).unwrap());
        solve(&samples, &settings).links[0]
    };
    let (newest_last, newest_first) = (samples_of(&mut (1..200)), samples_of(&mut (1..200).rev()));
    assert_eq!(newest_last, newest_first);
    assert!(newest_first.age_ns < S, "{newest_first:?}");
    assert_eq!(newest_first.samples as usize, SAMPLES_OF_A_PAIR);
}

/// And where a clock was set back, its newest stamps are the smallest.
#[test]
fn the_newest_sample_of_a_clock_that_was_set_back_counts() {
    for (from, to, ahead_ms) in [("a", "b", 3_600_000), ("b", "a", -3_600_000)] {
        let mut samples = Samples::default();
        for s in 0..200 {
            // Of a's clock, which then is an hour behind.
            let (ahead_ms, at_s) =
                if s < 100 { (0, s) } else { (ahead_ms, s - if from == "a" { 3600 } else { 0 }) };
            samples.add(&sample(from, to, [ahead_ms, ahead_ms + 1], (10_000 + at_s) * S)).unwrap();
        }
        let map = solve(&samples, &Settings::default());
        let apart = map.links[0].measured.min_ns.abs().max(map.links[0].measured.max_ns.abs());
        assert!(apart > 3_500 * S, "{:?}", map.links[0]);
    }
}

/// What nodes say of UTC moves no clock against another: not a false statement either.
#[test]
fn a_false_claim_puts_no_clock_off() {
    let mut samples = Samples::default();
    let names = ["a", "b", "c", "d", "e"];
    for (index, from) in names.iter().enumerate() {
        for to in &names[..index] {
            samples.add(&sample(from, to, [-10, 10], S)).unwrap();
        }
        // Within what the pairs leave open.
        let offset_ns = if *from == "e" { -4 * MS } else { 0 };
        let claim = Claim { node: (*from).into(), offset_ns, bound_ns: MS / 10, at_ns: S };
        samples.claim(claim).unwrap();
    }
    let map = solve(&samples, &Settings { drift_ppm: 0.0, ..Settings::default() });
    assert_eq!(map.findings, []);
    assert!(map.nodes.iter().all(|it| it.ahead.unwrap().min_ns < -9 * MS), "{:?}", map.nodes);
    assert!(map.median_ahead_of_utc.is_some());
}

/// All clocks are alike and so are all ways; they drift, and c is 1.5 ms behind a since
/// the first pair was measured. No way is longer than back.
#[test]
fn what_drift_explains_is_no_asymmetry() {
    let mut samples = Samples::default();
    let (begin, later) = (1_700_000_000 * S, 1_700_000_100 * S);
    let mut pair = |from: &str, to: &str, ahead_us: i64, at_ns: i64| {
        let [min_ns, max_ns] = [ahead_us - 10, ahead_us + 10].map(|us| us * 1000);
        let sample = ProbeSample { from: from.into(), to: to.into(), min_ns, max_ns, at_ns };
        samples.add(&sample).unwrap();
    };
    pair("a", "b", 0, begin);
    // a is 1.5 ms behind of both after 100 s, as fast as clocks may drift apart here.
    pair("a", "c", 1_500, later);
    pair("c", "b", 0, later);
    let map = solve(&samples, &Settings { drift_ppm: 7.5, ..Settings::default() });
    assert_eq!(suspected(&map), 0, "{:?}", map.findings);
    let found: Vec<_> = map.links.iter().filter_map(|link| link.asymmetry).collect();
    assert_eq!(found, []);
}

fn suspected(map: &fleet_map::errormap::Map) -> usize {
    map.findings.iter().filter(|it| matches!(it, MapFinding::Contradiction { .. })).count()
}

/// Of several contradictions nobody is stated to be the only one who can be wrong; and of
/// more than are tried, none is named alone.
#[test]
fn of_many_contradictions_nobody_is_named_for_certain() {
    let mut fleet = Fleet::new(5, 400, 8);
    (0..60).for_each(|node| fleet.clocks[node].lie = 50 * MS);
    let map = solve(&fleet.probed(20 * S), &Settings::default());
    assert!(suspected(&map) > 32, "{}", suspected(&map));
    let mut alone = 0;
    for finding in &map.findings {
        let MapFinding::Contradiction { suspects, is_only, .. } = finding else { continue };
        assert!(!is_only, "{finding:?}");
        alone += usize::from(suspects.len() == 1);
    }
    assert!(alone <= 32, "{alone}");
}

/// A long way numbered against its direction, and many short ones that contradict it: the
/// search ends, and says so.
#[test]
fn what_cannot_be_solved_in_bounded_work_is_said() {
    const NODES: i64 = 1000;
    let mut random = Random::new(1);
    let mut samples = Samples::default();
    let mut pair = |from: i64, to: i64, ahead_ms| {
        let (from, to) = (name(from as usize), name(to as usize));
        samples.add(&sample(&from, &to, [ahead_ms; 2], S)).unwrap();
    };
    (1..NODES).rev().for_each(|node| pair(node - 1, node, 0));
    for _ in 0..40 {
        pair(random.below(NODES / 4), NODES - 1 - random.below(NODES / 4), -5000);
    }
    let settings = Settings { most_work: 20_000_000, ..Settings::default() };
    let map = solve(&samples, &settings);
    assert_eq!(map.findings, [MapFinding::NotSolved]);
    assert!(map.nodes.iter().all(|it| it.ahead.is_none()));
    assert!(map.work < settings.most_work + 10_000, "{}", map.work);
}
