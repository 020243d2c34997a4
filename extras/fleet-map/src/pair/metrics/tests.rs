use crate::errormap::{Settings, solve};

use super::*;

#[test]
fn what_is_written_is_read_again() {
    let sample = ProbeSample {
        from: "a\"\\\n{}".into(),
        to: "b, c=\"".into(),
        min_ns: -1,
        max_ns: 1_500_000_001,
        // A float of seconds has this exactly.
        at_ns: 1_700_000_000_125_000_000,
    };
    let counts = Counts { replied: 2, lost: 1, answered: 3, refused: 4 };
    let page = textfile([&sample].into_iter(), counts);
    assert!(page.contains("\nparachron_pair_probes_total{result=\"lost\"} 1.0\n"), "{page}");
    let page = format!("go_goroutines 7\n{page}{OFFSET} -0.005\n{BOUND} 1e-3\n");
    let mut samples = Samples::default();
    let tally = add_page(&page, &mut samples, &mut BTreeSet::new());
    assert_eq!(tally, SampleTally { taken: 2, ..SampleTally::default() });
    let mut expected = Samples::default();
    expected.add(&sample).unwrap();
    let claim = Claim {
        node: sample.from.clone(),
        offset_ns: -5_000_000,
        bound_ns: 1_000_000,
        at_ns: sample.at_ns,
    };
    expected.claim(claim).unwrap();
    assert_eq!(solve(&samples, &Settings::default()), solve(&expected, &Settings::default()));
}

/// A clock of 1970, compared with one of 2023: seconds as floats are 0.24 us apart there.
#[test]
fn a_bound_of_any_size_does_not_narrow() {
    for ns in [0, 1, 999_999_999, (1 << 50) - 1, 1 << 50, 1_700_000_000_123_456_789] {
        for ns in [ns, -ns] {
            let read = |s: f64| (s * 1e9).round() as i64;
            let (min_ns, max_ns) = (read(seconds_at_most(ns)), read(-seconds_at_most(-ns)));
            assert!(min_ns <= ns && ns <= max_ns, "{min_ns} {ns} {max_ns}");
            assert!(max_ns - min_ns < 2_000, "{min_ns} {ns} {max_ns}");
        }
    }
}

fn sample(from: &str, to: &str, ahead_ns: i64) -> ProbeSample {
    let (min_ns, max_ns) = (ahead_ns, ahead_ns + 1_000_000);
    ProbeSample {
        from: from.into(),
        to: to.into(),
        min_ns,
        max_ns,
        at_ns: 1_700_000_000_000_000_000,
    }
}

fn page(all: &[ProbeSample]) -> String {
    textfile(all.iter(), Counts::default())
}

/// Each of three against both others, all right.
fn honest() -> [String; 3] {
    ["a", "b", "c"].map(|from| {
        let peers = ["a", "b", "c"].into_iter().filter(|to| *to != from);
        page(&peers.map(|to| sample(from, to, 0)).collect::<Vec<_>>())
    })
}

const FAR_NS: i64 = 9_000_000_000;

#[test]
fn a_page_describes_one_node_and_a_node_has_one_page() {
    let evil = [
        page(&[sample("evil", "a", 0), sample("a", "b", FAR_NS)]),
        page(&[sample("a", "c", FAR_NS)]),
    ];
    let (mut samples, mut named) = (Samples::default(), BTreeSet::new());
    for page in &honest() {
        assert_eq!(add_page(page, &mut samples, &mut named).taken, 2);
    }
    let refused = evil.map(|page| add_page(&page, &mut samples, &mut named).why.unwrap());
    assert_eq!(refused[0], "the page describes a and 1 more; expected one node");
    assert_eq!(refused[1], "another page already describes a");
    assert_eq!(solve(&samples, &Settings::default()).findings, []);
}

/// As Prometheus 2.42 writes `/federate`: its own labels beside the exporter's, and a time.
fn federated(pages: &[(&str, String)]) -> String {
    let line = |line: &str, instance: &str| match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, value) = rest.rsplit_once('}').unwrap();
            format!(
                "{name}{{instance=\"{instance}\",job=\"node\",{labels}}}{value} 1700000000000\n"
            )
        }
        None => format!("{line}\n"),
    };
    let lines = |(instance, page): &(&str, String)| -> String {
        page.lines()
            .filter(|text| !text.starts_with('#'))
            .map(|text| line(text, instance))
            .collect()
    };
    pages.iter().map(lines).collect()
}

#[test]
fn a_federated_page_describes_a_node_an_instance() {
    let [a, b, c] = honest();
    let all = federated(&[("1:9100", a), ("2:9100", b), ("3:9100", c)]);
    let (mut samples, mut named) = (Samples::default(), BTreeSet::new());
    let tally = add_federated(&all, &mut samples, &mut named);
    assert_eq!((tally.taken, tally.refused), (6, 0), "{tally:?}");
    let map = solve(&samples, &Settings::default());
    assert_eq!((map.nodes.len(), map.findings), (3, vec![]));
    // An exporter can no more speak for others by way of Prometheus than by itself.
    let evil = federated(&[("4:9100", page(&[sample("a", "b", FAR_NS)]))]);
    let tally = add_federated(&evil, &mut samples, &mut named);
    assert_eq!(tally.why.unwrap(), "another page already describes a");
    // Read as one exporter's, the page is refused.
    let tally = add_page(&all, &mut Samples::default(), &mut BTreeSet::new());
    assert_eq!((tally.taken, tally.refused), (0, 6));
}

#[test]
fn a_page_that_is_damaged_is_counted() {
    let mut samples = Samples::default();
    let half = format!("{MIN}{{node=\"a\",peer=\"b\"}} 1\n{MAX}{{node=\"a\",peer=\"b");
    assert_eq!(add_page(&half, &mut samples, &mut BTreeSet::new()).refused, 1);
    let crossed = ["1", "0", "5"]
        .iter()
        .zip([MIN, MAX, AT])
        .map(|(value, name)| format!("{name}{{node=\"a\",peer=\"b\"}} {value}\n"));
    let crossed = crossed.collect::<String>();
    assert_eq!(add_page(&crossed, &mut samples, &mut BTreeSet::new()).refused, 1);
}
