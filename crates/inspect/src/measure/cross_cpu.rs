//! One CPU's clocks against another's: offset, and order.

use std::time::{Duration, Instant};

use instruments::measurements::Measurements;
use instruments::offset::{MeasuredClockOffset, RoundTrip};
use instruments::order::OrderCount;

use crate::cross_cpu::{Stamps, round_trips};
use crate::measure::MeasurementPlan;
use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};
use linux::cpus::PinError;

/// Round trips to each pair, time permitting.
const TRIPS: u32 = 20_000;

const ACROSS: &str = "across CPUs";

/// One pair whose counters are not known to this in the plan's time is compared for a second
/// more, ns. In a virtual machine the two vCPUs may hardly have run at once: in an emulated host
/// the shortest of the trips of 19 ms took 3 to 10 ms (row kvm-no-master-clock), and it showed
/// nothing of TSCs that were 33 to 158 µs apart.
const KNOWN_NS: f64 = 1000.0;
const LONGER: Duration = Duration::from_secs(1);

/// Compares up to `plan.pairs` pairs of `cpus`.
pub(super) fn measure(
    plan: &MeasurementPlan,
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
    let mut longer = LONGER;
    for (a, b) in pairs {
        progress(&format!("comparing CPU {a} with CPU {b}"));
        if let Some(ns_per_cycle) = ns_per_cycle.filter(|_| counter::is_readable()) {
            let mut offset = MeasuredClockOffset::new();
            compare(plan.pair / 2, &mut longer, |limit| {
                let trips = trips(a, b, limit, || CpuCounter.read_ordered(), &mut tsc_order, found);
                for &[sent, turned, back] in &trips {
                    offset.observe(RoundTrip { sent, turned, back });
                }
                let (_, bound) = offset.estimate().filter(|_| !trips.is_empty())?;
                Some(bound * ns_per_cycle)
            });
            match offset.skew(a, b, ns_per_cycle) {
                Some(skew) => found.skews.push(skew),
                None => not_compared(found, a, b, "no round trip completed in time".into()),
            }
        }
        let monotonic = || LinuxClock::Monotonic.read_ns().unwrap_or_default();
        trips(a, b, plan.pair / 2, monotonic, &mut clock_order, found);
    }
    if let Some(ns_per_cycle) = ns_per_cycle {
        found.order.push(tsc_order.result(&format!("{} {ACROSS}", counter::NAME), ns_per_cycle));
    }
    let name = format!("{} {ACROSS}", LinuxClock::Monotonic.name());
    found.order.push(clock_order.result(&name, 1.0));
}

/// Compares for a while, and where the bound, ns, is too wide then, for as long as `longer`
/// says: all of it, as counters that are set now and then show that now and then alone.
fn compare(
    limit: Duration,
    longer: &mut Duration,
    mut bound_ns: impl FnMut(Duration) -> Option<f64>,
) {
    if bound_ns(limit).is_none_or(|ns| ns <= KNOWN_NS) {
        return;
    }
    let longer = std::mem::take(longer);
    let start = Instant::now();
    while let Some(left) = longer.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        if bound_ns(left).is_none() {
            return;
        }
    }
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

    /// How often a pair is compared, and what is left for others.
    fn compared(bound_ns: Option<f64>, longer_ms: u64) -> (u32, Duration) {
        let (mut longer, mut times) = (Duration::from_millis(longer_ms), 0);
        compare(Duration::ZERO, &mut longer, |limit| {
            times += 1;
            std::thread::sleep(limit.min(Duration::from_millis(1)));
            bound_ns
        });
        (times, longer)
    }

    #[test]
    fn a_pair_of_which_nothing_is_known_is_compared_for_longer_and_one_alone() {
        let (times, left) = compared(Some(1.67e6), 20);
        assert!(times > 1 && left.is_zero(), "{times}, {left:?}");
        assert_eq!(compared(Some(1.67e6), 0), (1, Duration::ZERO), "another had it");
        let longer = Duration::from_millis(20);
        assert_eq!(compared(Some(60.0), 20), (1, longer), "it is known");
        assert_eq!(compared(None, 20), (1, longer), "no trip came back");
    }

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
