//! A map of 10,000 nodes with 8 peers each: what it takes of one CPU, against its bar.
//!
//! `cargo run --release -p parachron-fleet-map --example ten_thousand`

use fleet_map::errormap::{Map, ProbeSample, Samples, Settings, solve};
use pvclock::units::random::SplitMix64;

const NODES: u64 = 10_000;
const PEERS: u64 = 8;
/// Samples of each pair, as of a minute.
const SAMPLES: u64 = 6;
/// On one CPU, s.
const BAR_S: f64 = 1.0;
const MS: i64 = 1_000_000;

/// Clocks within half a millisecond; the first is 5 ms ahead, and those of `liars` show half
/// of their peers 50 ms more.
fn samples(liars: u64) -> Samples {
    let mut random = SplitMix64::new(7);
    let mut random = || (random.bits() >> 33) as i64;
    let mut clocks: Vec<i64> = (0..NODES).map(|_| random() % MS - MS / 2).collect();
    clocks[0] = 5 * MS;
    let mut samples = Samples::default();
    for from in 0..NODES {
        for _ in 0..PEERS {
            let to = (from + 1 + random() as u64 % (NODES - 1)) % NODES;
            let lie = if (1..=liars).contains(&to) && from % 2 == 0 { 50 * MS } else { 0 };
            let apart = clocks[to as usize] - clocks[from as usize] + lie;
            for sample in 0..SAMPLES {
                let mut way = || 50_000 + random() % 150_000;
                let (there, back) = (way(), way());
                let at_ns = (sample as i64) * 10_000 * MS;
                let (from, to) = (format!("n{from}"), format!("n{to}"));
                let sample =
                    ProbeSample { from, to, min_ns: apart - back, max_ns: apart + there, at_ns };
                samples.add(&sample).expect("a sample");
            }
        }
    }
    samples
}

/// What this thread has run, s, without what others took of its CPU.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e9)
}

fn timed(samples: &Samples) -> (Map, f64) {
    let begun_s = cpu_s();
    let map = solve(samples, &Settings::default());
    (map, cpu_s() - begun_s)
}

fn main() {
    for (liars, bar_s) in [(0, Some(BAR_S)), (3, None)] {
        let samples = samples(liars);
        let mut runs: Vec<(Map, f64)> = (0..3).map(|_| timed(&samples)).collect();
        runs.sort_by(|one, other| one.1.total_cmp(&other.1));
        let (map, took_s) = &runs[0];
        let word = match bar_s {
            Some(bar_s) if *took_s < bar_s => "met",
            Some(_) => "NOT MET",
            None => "no bar",
        };
        println!(
            "{NODES} nodes, {} pairs, {liars} liars: {took_s:.3} s, {} edges looked at, {} findings; bar {BAR_S} s: {word}",
            map.links.len(),
            map.work,
            map.findings.len()
        );
        let first = &map.nodes.iter().find(|node| node.ahead.is_some()).expect("one is known");
        println!("    worst: {} {:?}", first.name, first.ahead);
    }
}
