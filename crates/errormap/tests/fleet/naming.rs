//! Who is named, and how soon.

use errormap::{Finding, Settings, solve};

use crate::model::{Fleet, MS, S, name};

/// A fleet of 1,000 with one clock 5 ms off: named alone within 60 s, at a probe in 10 s of
/// each peer; the interval is narrow enough to be of use.
#[test]
fn a_clock_5_ms_off_is_named_within_a_minute() {
    for seed in 0..3 {
        let mut fleet = Fleet::new(seed, 1000, 8);
        // Against its own error of up to half a millisecond, and the same drift.
        fleet.clocks[17].ahead = if seed % 2 == 0 { 5 * MS } else { -5 * MS };
        let map = solve(&fleet.probed(60 * S), &Settings::default());
        let [Finding::Off { node, ahead }] = &map.findings[..] else {
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
    let mut samples = errormap::Samples::default();
    for (from, to, ahead_ms) in [("a", "b", 0), ("b", "c", 0), ("a", "c", 9)] {
        let sample = errormap::Sample {
            from: from.into(),
            to: to.into(),
            min_ns: ahead_ms * MS,
            max_ns: (ahead_ms + 1) * MS,
            at_ns: S,
        };
        samples.add(&sample).unwrap();
    }
    let map = solve(&samples, &Settings::default());
    let [Finding::Contradiction { suspects, shown_by }, ..] = &map.findings[..] else {
        panic!("{:?}", map.findings);
    };
    let mut suspects = suspects.clone();
    suspects.sort();
    assert_eq!(suspects, ["a", "b", "c"]);
    assert!(shown_by.iter().map(|step| step.most_ns).sum::<i64>() < 0, "{shown_by:?}");
    assert!(map.nodes.iter().all(|node| node.ahead.is_none()));
}

/// A clock that is set between two probes contradicts itself.
#[test]
fn a_clock_that_was_set_is_seen() {
    let mut samples = errormap::Samples::default();
    for (at_ns, ahead_ns) in [(S, 0), (11 * S, 50 * MS)] {
        let sample = errormap::Sample {
            from: "a".into(),
            to: "b".into(),
            min_ns: ahead_ns,
            max_ns: ahead_ns + MS,
            at_ns,
        };
        samples.add(&sample).unwrap();
    }
    let map = solve(&samples, &Settings::default());
    let changed = Finding::Changed { node: "a".into(), peer: "b".into() };
    assert!(map.findings.contains(&changed), "{:?}", map.findings);
    // The newest sample counts.
    assert!(map.links[0].measured.min_ns > 49 * MS);
}

/// A way there of 3 ms and none back: bounded, and never less than what is certain.
#[test]
fn an_asymmetric_link_is_bounded() {
    let mut samples = errormap::Samples::default();
    let mut pair = |from: &str, to: &str, min_us: i64, max_us: i64| {
        let sample = errormap::Sample {
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
