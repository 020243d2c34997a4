//! What a node knows of its peers, as metrics: written for a textfile collector, and read
//! from a page on which others may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fleet::errormap::{Claim, Sample, Samples};

use crate::pair::lines::Tally;

const MIN: &str = "parachron_pair_ahead_min_seconds";
const MAX: &str = "parachron_pair_ahead_max_seconds";
const AT: &str = "parachron_pair_measured_timestamp_seconds";
/// The exporter's: what to add to the clock, and how right that is.
const OFFSET: &str = "parachron_clock_offset_seconds";
const BOUND: &str = "parachron_clock_offset_bound_seconds";

/// A figure of a sample, ns.
type Of = fn(&Sample) -> i64;

/// What became of probes and requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Probes with a reply.
    pub replied: u64,
    /// Without.
    pub lost: u64,
    /// Requests of others, answered.
    pub answered: u64,
    /// Not answered.
    pub refused: u64,
}

/// The newest sample of each peer, and the counts, for a textfile collector.
pub fn exposition<'s>(samples: impl Iterator<Item = &'s Sample> + Clone, counts: Counts) -> String {
    let mut text = String::new();
    let gauges: [(&str, &str, Of); 3] = [
        (MIN, "The peer's clock is ahead of the node's by at least this", |it| it.min_ns),
        (MAX, "And by at most this", |it| it.max_ns),
        (AT, "When that was, by the node's clock", |it| it.at_ns),
    ];
    for (name, help, of) in gauges {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for sample in samples.clone() {
            let (node, peer) = (escaped(&sample.from), escaped(&sample.to));
            let _ =
                writeln!(text, "{name}{{node=\"{node}\",peer=\"{peer}\"}} {}", seconds(of(sample)));
        }
    }
    let counters = [
        (
            "parachron_pair_probes_total",
            "Probes of peers",
            [("replied", counts.replied), ("lost", counts.lost)],
        ),
        (
            "parachron_pair_requests_total",
            "Requests of peers",
            [("answered", counts.answered), ("refused", counts.refused)],
        ),
    ];
    for (name, help, results) in counters {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        for (result, count) in results {
            let _ = writeln!(text, "{name}{{result=\"{result}\"}} {count}");
        }
    }
    text
}

/// Exact: -0.000000001 of -1.
fn seconds(ns: i64) -> String {
    let (s, rest) = (ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000);
    format!("{}{s}.{rest:09}", if ns < 0 { "-" } else { "" })
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Adds what a page says of pairs to the samples, and what its node says of itself.
///
/// A page speaks for one node, and for a node one page: else any exporter could have any
/// node contradict itself. `named` are the nodes of earlier pages, to which its own is added.
pub fn take(page: &str, samples: &mut Samples, named: &mut BTreeSet<String>) -> Tally {
    let mut pairs: BTreeMap<(String, String), [Option<i64>; 3]> = BTreeMap::new();
    let (mut offset, mut bound) = (None, None);
    for (name, labels, value_ns) in page.lines().filter_map(sample) {
        let place = match name {
            MIN => 0,
            MAX => 1,
            AT => 2,
            OFFSET => {
                offset = Some(value_ns);
                continue;
            }
            BOUND => {
                bound = Some(value_ns);
                continue;
            }
            _ => continue,
        };
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        pairs.entry((label("node"), label("peer"))).or_default()[place] = Some(value_ns);
    }
    let mut tally = Tally::default();
    let nodes: BTreeSet<&String> = pairs.keys().map(|(from, _)| from).collect();
    let Some(node) = nodes.first().map(|node| (*node).clone()) else { return tally };
    let others = nodes.len() - 1;
    if others > 0 || !named.insert(node.clone()) {
        let why = match others {
            0 => format!("an earlier page speaks for {node}"),
            _ => format!("one page speaks for {node} and {others} more"),
        };
        pairs.iter().for_each(|_| tally.count(Err(why.clone())));
        return tally;
    }
    let mut newest_ns = i64::MIN;
    for ((from, to), values) in pairs {
        let [Some(min_ns), Some(max_ns), Some(at_ns)] = values else {
            tally.count(Err(format!("{from} and {to}: a metric of three is missing")));
            continue;
        };
        newest_ns = newest_ns.max(at_ns);
        let sample = Sample { from, to, min_ns, max_ns, at_ns };
        tally.count(samples.add(&sample).map_err(|why| why.to_string()));
    }
    if let (Some(offset_ns), Some(bound_ns)) = (offset, bound) {
        let claim = Claim { node, offset_ns, bound_ns, at_ns: newest_ns };
        tally.count(samples.claim(claim).map_err(|why| why.to_string()));
    }
    tally
}

/// A line of ours: name, labels, value in ns.
fn sample(line: &str) -> Option<(&str, BTreeMap<String, String>, i64)> {
    if !line.starts_with("parachron_") {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = unescaped(after)?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?;
    Some((name, labels, nanoseconds(value)?))
}

/// A label's value up to its quote, and what is behind that.
fn unescaped(text: &str) -> Option<(String, &str)> {
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return Some((value, &text[at + 1..])),
            '\\' if !is_escaped => is_escaped = true,
            _ => {
                value.push(if is_escaped && c == 'n' { '\n' } else { c });
                is_escaped = false;
            }
        }
    }
    None
}

/// Of seconds, as exact as they are written in digits; else as 64-bit floats are.
fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (s, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal(s) && is_decimal(rest) && (1..=10).contains(&s.len()) && rest.len() <= 9 {
        let fraction = format!("{rest:0<9}").parse::<i64>().ok()?;
        return s
            .parse::<i64>()
            .ok()?
            .checked_mul(1_000_000_000)?
            .checked_add(fraction)
            .map(|ns| sign * ns);
    }
    let ns = text.parse::<f64>().ok()? * 1e9;
    (ns.abs() < fleet::errormap::LONGEST_NS as f64).then_some(ns as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let sample = Sample {
            from: "a\"\\\n{}".into(),
            to: "b, c=\"".into(),
            min_ns: -1,
            max_ns: 1_500_000_001,
            at_ns: 1_700_000_000_123_456_789,
        };
        let counts = Counts { replied: 2, lost: 1, answered: 3, refused: 4 };
        let page = exposition([&sample].into_iter(), counts);
        assert!(page.contains("\nparachron_pair_probes_total{result=\"lost\"} 1\n"), "{page}");
        let page = format!("go_goroutines 7\n{page}{OFFSET} -0.005\n{BOUND} 1e-3\n");
        let mut samples = Samples::default();
        assert_eq!(
            take(&page, &mut samples, &mut BTreeSet::new()),
            Tally { taken: 2, ..Tally::default() }
        );
        let mut expected = Samples::default();
        expected.add(&sample).unwrap();
        let claim = Claim {
            node: sample.from.clone(),
            offset_ns: -5_000_000,
            bound_ns: 1_000_000,
            at_ns: sample.at_ns,
        };
        expected.claim(claim).unwrap();
        let settings = fleet::errormap::Settings::default();
        assert_eq!(
            fleet::errormap::solve(&samples, &settings),
            fleet::errormap::solve(&expected, &settings)
        );
    }

    #[test]
    fn a_page_speaks_for_one_node_and_for_a_node_one_page() {
        let sample = |from: &str, to: &str, ahead_ns| Sample {
            from: from.into(),
            to: to.into(),
            min_ns: ahead_ns,
            max_ns: ahead_ns + 1_000_000,
            at_ns: 1_700_000_000_000_000_000,
        };
        let page = |all: &[Sample]| exposition(all.iter(), Counts::default());
        let honest = ["a", "b", "c"].map(|from| {
            let peers = ["a", "b", "c"].into_iter().filter(|to| *to != from);
            page(&peers.map(|to| sample(from, to, 0)).collect::<Vec<_>>())
        });
        let far = 9_000_000_000;
        let evil = [
            page(&[sample("evil", "a", 0), sample("a", "b", far)]),
            page(&[sample("a", "c", far)]),
        ];
        let (mut samples, mut named) = (Samples::default(), BTreeSet::new());
        for page in &honest {
            assert_eq!(take(page, &mut samples, &mut named).taken, 2);
        }
        let refused = evil.map(|page| take(&page, &mut samples, &mut named));
        assert_eq!(refused[0].why.as_deref(), Some("one page speaks for a and 1 more"));
        assert_eq!(refused[1].why.as_deref(), Some("an earlier page speaks for a"));
        let map = fleet::errormap::solve(&samples, &fleet::errormap::Settings::default());
        assert_eq!(map.findings, []);
    }

    #[test]
    fn a_page_that_is_damaged_is_counted() {
        let mut samples = Samples::default();
        let half = format!("{MIN}{{node=\"a\",peer=\"b\"}} 1\n{MAX}{{node=\"a\",peer=\"b");
        assert_eq!(take(&half, &mut samples, &mut BTreeSet::new()).refused, 1);
        let crossed = ["1", "0", "5"]
            .iter()
            .zip([MIN, MAX, AT])
            .map(|(value, name)| format!("{name}{{node=\"a\",peer=\"b\"}} {value}\n"));
        let crossed = crossed.collect::<String>();
        assert_eq!(take(&crossed, &mut samples, &mut BTreeSet::new()).refused, 1);
        assert_eq!(nanoseconds("NaN"), None);
        assert_eq!(nanoseconds("1e300"), None);
        assert_eq!(nanoseconds(""), None);
    }
}
