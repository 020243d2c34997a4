//! One CPU's clocks against another's: offset, and order.

use std::time::Duration;

use instruments::measurements::Measurements;
use instruments::offset::{Offset, RoundTrip};
use instruments::order::OrderCount;

use super::plan::Plan;
use crate::cross_cpu::{Stamps, round_trips};
use linux::clock::Clock;
use linux::counter::{self, Counter, CpuCounter};
use linux::cpus::PinError;

/// Round trips to each pair, time permitting.
const TRIPS: u32 = 20_000;

const ACROSS: &str = "across CPUs";

/// Compares up to `plan.pairs` pairs of `cpus`.
pub(super) fn measure(
    plan: &Plan,
    cpus: Result<Vec<u32>, PinError>,
    found: &mut Measurements,
    progress: &dyn Fn(&str),
) {
    if plan.pairs == 0 {
        return;
    }
    let pairs = match cpus {
        Ok(cpus) if cpus.len() < 2 => {
            return skip(found, "this process may use one CPU only".into());
        }
        Ok(cpus) => pairs(&cpus, plan.pairs),
        Err(error) => return skip(found, error.to_string()),
    };
    let ns_per_cycle = found.tsc_rate.map(|rate| 1e9 / rate.hz);
    let (mut tsc_order, mut clock_order) = (OrderCount::new(), OrderCount::new());
    for (a, b) in pairs {
        progress(&format!("comparing CPU {a} with CPU {b}"));
        if let Some(ns_per_cycle) = ns_per_cycle.filter(|_| counter::is_readable()) {
            let trips =
                trips(a, b, plan.pair / 2, || CpuCounter.read_ordered(), &mut tsc_order, found);
            let mut offset = Offset::new();
            for [sent, turned, back] in trips {
                offset.observe(RoundTrip { sent, turned, back });
            }
            match offset.skew(a, b, ns_per_cycle) {
                Some(skew) => found.skews.push(skew),
                None => not_compared(found, a, b, "no round trip ended in time".into()),
            }
        }
        let monotonic = || Clock::Monotonic.read_ns().unwrap_or_default();
        trips(a, b, plan.pair / 2, monotonic, &mut clock_order, found);
    }
    if let Some(ns_per_cycle) = ns_per_cycle {
        found.order.push(tsc_order.result(&format!("{} {ACROSS}", counter::NAME), ns_per_cycle));
    }
    let name = format!("{} {ACROSS}", Clock::Monotonic.name());
    found.order.push(clock_order.result(&name, 1.0));
}

fn trips(
    a: u32,
    b: u32,
    limit: Duration,
    clock: impl Fn() -> u64 + Sync,
    order: &mut OrderCount,
    found: &mut Measurements,
) -> Vec<Stamps> {
    let trips = round_trips(a, b, TRIPS, limit, clock).unwrap_or_else(|error| {
        not_compared(found, a, b, error.to_string());
        Vec::new()
    });
    trips.iter().flatten().for_each(|&reading| order.observe(reading));
    trips
}

fn not_compared(found: &mut Measurements, a: u32, b: u32, why: String) {
    found.miss(format!("CPU {b} against CPU {a}"), why);
}

fn skip(found: &mut Measurements, why: String) {
    found.miss(format!("clocks {ACROSS}"), why);
}

/// All pairs while there are at most `most`; else the first CPU against
/// others, spread evenly over the machine.
fn pairs(cpus: &[u32], most: usize) -> Vec<(u32, u32)> {
    let all =
        cpus.iter().enumerate().flat_map(|(i, &a)| cpus[i + 1..].iter().map(move |&b| (a, b)));
    if cpus.len() * (cpus.len() - 1) / 2 <= most {
        return all.collect();
    }
    let others = cpus.len() - 1;
    let taken = others.min(most);
    (1..=taken).map(|i| (cpus[0], cpus[i * others / taken])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cpus_are_all_compared() {
        assert_eq!(pairs(&[0, 2, 5], 8), [(0, 2), (0, 5), (2, 5)]);
    }

    #[test]
    fn many_cpus_are_sampled_up_to_the_last() {
        let cpus: Vec<u32> = (0..128).collect();
        let pairs = pairs(&cpus, 8);
        assert_eq!(pairs.len(), 8);
        assert_eq!(pairs.last(), Some(&(0, 127)));
        assert!(pairs.windows(2).all(|two| two[0].1 < two[1].1));
    }
}
