//! The guest's now against what its host says that it is.
//!
//! The host takes its TSC, asks, and takes it again when it is answered; what
//! the guest's clock should show at both it is told by whoever makes that
//! clock. The guest read between the two, whatever its own TSC may be. The
//! guest spins meanwhile, so that no exit is in between, but for a clock that
//! is itself one.

use std::time::{Duration, Instant};

use guest::request::Request;
use guest::source::Source;
use instruments::measurements::Spread;
use instruments::rate::Pair;
use kvm_bindings::KVM_CLOCK_HOST_TSC;
use machine::{Machine, MachineError};
use platform::cpus::{self, Pinned};
use provider::VcpuId;
use pvclock::counter::{Counter, Tsc};
use pvclock::{Hertz, Ticks};

use crate::bench::{Bench, Maker};
use crate::results::{Check, Findings, Offset, Verdict};
use crate::run::Found;
use crate::sample::{VCPU, at_tsc, makers, missed, nanos, sources, width_ns};
use crate::settings::{LabError, Progress};

/// Readings of a clock, unless they take too long.
const READINGS: usize = 2000;
const TIME_MAX: Duration = Duration::from_millis(500);

/// The narrowest of so many count: the others were interrupted.
const KEPT_OF: usize = 4;

/// Beside the clock's own step: two sums that are each cut to whole ns.
const ROUNDING_NS: u64 = 2;

const BAR: &str = "no reading outside of the host's two";

/// Clocks whose time the host knows: the others count from where the guest
/// first looked.
const fn step_ns(source: Source) -> Option<u64> {
    match source {
        Source::KvmClock => Some(1),
        Source::HyperVPage | Source::HyperVCounter => Some(100),
        Source::Tsc | Source::AcpiPm | Source::Hpet | Source::Pit | Source::Rtc => None,
    }
}

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    let makers = makers(bench.settings);
    for (index, maker) in makers.iter().enumerate() {
        let machine = bench.start(*maker, 1)?;
        let _pinned = apart(&machine)?;
        for source in sources(bench.settings, &machine.discover(VCPU)?) {
            let Some(step_ns) = step_ns(source) else { continue };
            let name = format!("{}: {}", maker.label(), source.name());
            progress.step(&name, index as f64 / makers.len() as f64);
            match read(&machine, source, bench.host_tsc) {
                Ok(mut readings) => {
                    checks.push(check(name, &readings, step_ns));
                    rows.extend(row(*maker, source, &mut readings, step_ns));
                }
                Err(error) => checks.push(missed(name, BAR.to_owned(), &error)),
            }
        }
    }
    Ok((Findings::Offset(rows), checks))
}

/// Keeps this thread and the vCPU on CPUs of their own, where there are two:
/// on one the guest's turn comes while ours is over, and every reading is as
/// wide as a turn.
fn apart(machine: &Machine) -> Result<Option<Pinned>, MachineError> {
    let allowed = cpus::allowed().unwrap_or_default();
    let [ours, theirs, ..] = allowed[..] else { return Ok(None) };
    machine.move_vcpu(VCPU, theirs)?;
    // Not bound, readings are wider at the worst.
    Ok(cpus::pin(ours).ok())
}

fn read(machine: &Machine, source: Source, rate: Hertz) -> Result<Vec<Pair>, MachineError> {
    let mut readings = Vec::with_capacity(READINGS);
    let started = Instant::now();
    while readings.len() < READINGS && started.elapsed() < TIME_MAX {
        let before = Tsc.read_ordered();
        let [_, guest_ns, ..] = machine.ask(VCPU, Request::Read(source))?;
        let after = Tsc.read_ordered();
        let [before_ns, after_ns] = shown_at(machine, [before, after], rate)?;
        readings.push(Pair { before_ns, tsc: guest_ns, after_ns });
    }
    Ok(readings)
}

/// What the guest's clock should have shown at these values of the host's
/// TSC, a moment ago.
fn shown_at(machine: &Machine, tscs: [u64; 2], rate: Hertz) -> Result<[u64; 2], MachineError> {
    let ours = machine.with_host(|host, now, _| {
        tscs.map(|tsc| host.time(VcpuId(VCPU as u32), at_tsc(now, Ticks(tsc), rate)).0)
    });
    if let Some(shown) = ours {
        return Ok(shown);
    }
    let clock = machine
        .vm()
        .get_clock()
        .map_err(|error| MachineError::Kvm { call: "KVM_GET_CLOCK", error })?;
    if clock.flags & KVM_CLOCK_HOST_TSC == 0 {
        return Err(MachineError::Lacks { what: "KVM_CLOCK_HOST_TSC (Linux 5.16, TSC-based)" });
    }
    let cycles = |tsc: u64| tsc.wrapping_sub(clock.host_tsc).cast_signed();
    Ok(tscs.map(|tsc| clock.clock.wrapping_add_signed(nanos(cycles(tsc), rate))))
}

fn row(maker: Maker, source: Source, readings: &mut [Pair], step_ns: u64) -> Option<Offset> {
    readings.sort_by_key(|reading| width_ns(*reading));
    let bound_ns = width_ns(*readings.first()?) as f64 / 2.0 + step_ns as f64;
    let kept = &readings[..readings.len().div_ceil(KEPT_OF)];
    let offsets = kept.iter().map(|reading| {
        // Differences first: an hour is beyond 2^53 in fractions of a ns.
        let since_before = reading.tsc.wrapping_sub(reading.before_ns).cast_signed();
        since_before as f64 - width_ns(*reading) as f64 / 2.0
    });
    Some(Offset {
        backend: maker.backend(),
        provider: maker.provider().to_owned(),
        source: source.name().to_owned(),
        offset_ns: Spread::of(offsets.collect())?,
        bound_ns,
        samples: kept.len() as u64,
    })
}

fn check(name: String, readings: &[Pair], step_ns: u64) -> Check {
    let slack_ns = step_ns + ROUNDING_NS;
    let outside = readings.iter().filter(|reading| {
        reading.tsc.saturating_add(slack_ns) < reading.before_ns
            || reading.tsc > reading.after_ns.saturating_add(slack_ns)
    });
    let outside = outside.count();
    let found = format!("{outside} of {}", readings.len());
    let verdict = Verdict::of(outside == 0 && !readings.is_empty());
    Check { name, bar: BAR.to_owned(), found, verdict }
}

#[cfg(test)]
mod tests {
    use provider::Kind;

    use super::*;

    fn pair(before_ns: u64, guest_ns: u64, after_ns: u64) -> Pair {
        Pair { before_ns, tsc: guest_ns, after_ns }
    }

    #[test]
    fn the_narrowest_quarter_counts() {
        // 50 ns ahead of the middle, but for those that were interrupted.
        let mut readings = vec![pair(1000, 9_000, 90_000); 6];
        readings.extend([pair(2000, 2150, 2200), pair(2000, 2350, 2600)]);
        let row = row(Maker::Own(Kind::Kvm), Source::KvmClock, &mut readings, 1).unwrap();
        assert_eq!((row.offset_ns.min, row.offset_ns.max), (50.0, 50.0));
        assert_eq!((row.bound_ns, row.samples), (101.0, 2));
        assert_eq!(super::row(Maker::Kernel, Source::KvmClock, &mut [], 1), None);
    }

    #[test]
    fn a_guest_ahead_or_behind_is_outside() {
        let check = |guest_ns| check(String::new(), &[pair(1000, guest_ns, 1100)], 1).verdict;
        assert_eq!((check(997), check(1103)), (Verdict::Passed, Verdict::Passed));
        assert_eq!((check(996), check(1104)), (Verdict::Failed, Verdict::Failed));
        assert_eq!(super::check(String::new(), &[], 1).verdict, Verdict::Failed);
    }
}
