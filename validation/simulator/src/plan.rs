//! What happens to a guest, and when.

use crate::fault::{Fault, FaultKind, Planned};
use crate::quantity::PerDay;
use crate::random::{Purpose, RandomStream};
use crate::scenario::Scenario;

/// A guest needs this long between two faults to be looked at, ns.
const APART_NS: i64 = 2_000_000_000;

/// Faults of one guest: beyond this a run is one long fault.
const MOST: usize = 100_000;

/// What happens to a guest, in order. One that is away cannot be taken away, and at
/// the end of the run all are back: what would be otherwise is left out.
#[must_use]
pub(crate) fn plan(scenario: &Scenario, seed: u64, guest: u64, span_ns: i64) -> Vec<Planned> {
    let mut all = if scenario.events.is_empty() {
        let faults = (0..).zip(&scenario.faults);
        faults.flat_map(|(index, fault)| plan_fault(fault, seed, guest, index, span_ns)).collect()
    } else {
        scenario.events.clone()
    };
    all.sort_by_key(|event| (event.at_ns, event.kind));
    let mut free_ns = APART_NS;
    all.retain(|event| {
        let lives_ns = match event.kind {
            kind if kind.is_elsewhere() => 0,
            // Away, alive for as long, and away again for both.
            FaultKind::RestoreTwice => event.length_ns.saturating_mul(4),
            _ => event.length_ns,
        };
        let until_ns = event.at_ns.saturating_add(lives_ns).saturating_add(APART_NS);
        let is_free = event.at_ns >= free_ns && until_ns < span_ns;
        if is_free {
            free_ns = until_ns;
        }
        is_free
    });
    all
}

/// The times of one kind.
fn plan_fault(fault: &Fault, seed: u64, guest: u64, index: u32, span_ns: i64) -> Vec<Planned> {
    let mut stream = RandomStream::new(seed, guest, Purpose::Fault(index));
    let mut times = Vec::new();
    if let Some(at_s) = fault.at_s {
        times.push(at_s.ns() + (stream.unit() * fault.within_s.0 * 1e9) as i64);
    }
    if let Some(PerDay(rate)) = fault.per_day.filter(|rate| rate.0 > 0.0) {
        let mut at_ns = 0_i64;
        while times.len() < MOST {
            let wait_ns = stream.exponential() * 86_400e9 / rate;
            at_ns = at_ns.saturating_add(wait_ns as i64);
            if at_ns >= span_ns {
                break;
            }
            times.push(at_ns);
        }
    }
    let [low, high] = fault.length_s.map(|length| length.0.max(1e-6));
    let length = |stream: &mut RandomStream| {
        let exponent = stream.between(libm::log(low), libm::log(high));
        (libm::exp(exponent) * 1e9) as i64
    };
    let planned = |at_ns| Planned {
        at_ns,
        length_ns: length(&mut stream),
        kind: fault.kind,
        away: fault.away,
        missed: fault.missed,
        off_s: fault.off_s,
        factor: fault.factor,
        server: fault.server.unwrap_or(0),
    };
    times.into_iter().map(planned).collect()
}
