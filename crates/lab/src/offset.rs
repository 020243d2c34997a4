//! The guest's now against what its host says that it is.
//!
//! The host takes its TSC, asks, and takes it again when it is answered. What
//! the guest's clock should show at both is said by two:
//!
//! - the host's own clock, which nobody told a rate: it goes on from what the
//!   guest's clock showed when the machine had started. A guest that is told
//!   a wrong rate of its TSC falls behind it, or gets ahead of it;
//! - whoever makes the guest's clock, by the line that is in the page: that
//!   the page is read as it was written.
//!
//! The guest read between the two, whatever its own TSC may be. The guest
//! spins meanwhile, so that no exit is in between, but for a clock that is
//! itself one.

use std::time::{Duration, Instant};

use guest::request::Request;
use guest::source::Source;
use host::VcpuId;
use instruments::measurements::Spread;
use instruments::rate::Pair;
use kvm_bindings::KVM_CLOCK_HOST_TSC;
use platform::cpus::{self, Pinned};
use pvclock::counter::{Counter, Tsc};
use pvclock::{Hertz, Nanos, Ticks};
use vmm::{Machine, MachineError, host_clock};

use crate::bench::{Bench, Maker};
use crate::drift::drift_ppm;
use crate::results::{Check, Findings, Offset, Verdict};
use crate::run::Found;
use crate::sample::{VCPU, at_tsc, makers, missed, nanos, sources, width_ns};
use crate::settings::{LabError, Progress};

/// How long a clock is read: 1 % off are 5 ms then.
const TIME: Duration = Duration::from_millis(500);

/// The narrowest of so many count: the others were interrupted.
const KEPT_OF: usize = 4;

/// Beside the clock's own step: two sums that are each cut to whole ns.
const ROUNDING_NS: u64 = 2;

/// The host's TSC against its own clock: what reading them together leaves
/// open, and two oscillators where its clocksource is not the TSC.
const CLOCK_NS: u64 = 1_000;
const CLOCK_PPM: u64 = 50;

const PPM: f64 = 1e6;

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
        let found = machine.discover(VCPU)?;
        let start = Start::of(&machine, bench.host_tsc)?;
        for source in sources(bench.settings, &found) {
            let Some(step_ns) = step_ns(source) else { continue };
            let name = format!("{}: {}", maker.label(), source.name());
            progress.step(&name, index as f64 / makers.len() as f64);
            let told = drift_ppm(source, found.frequency_from, bench.told_over_true(*maker));
            match read(&machine, source, bench.host_tsc, start) {
                Ok(mut readings) => {
                    checks.extend(judge(&name, &readings, step_ns, told));
                    rows.extend(row(*maker, source, &mut readings, step_ns));
                }
                Err(error) => checks.push(missed(name, bar(told), &error)),
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

/// What the guest's clock showed at a moment of the host's own clock.
#[derive(Debug, Clone, Copy)]
struct Start {
    host: Nanos,
    shown_ns: u64,
}

impl Start {
    fn of(machine: &Machine, rate: Hertz) -> Result<Self, MachineError> {
        let now = host_clock::read();
        let [shown_ns, _] = shown_at(machine, [now.tsc.0; 2], rate)?;
        Ok(Self { host: now.boot, shown_ns })
    }
}

/// One reading of the guest's clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Between what the host's own clock says.
    by_clock: Pair,
    /// Between what the guest's clock should show by its line.
    by_line: Pair,
    /// By the host's own clock since the start.
    elapsed_ns: u64,
}

fn read(
    machine: &Machine,
    source: Source,
    rate: Hertz,
    start: Start,
) -> Result<Vec<Reading>, MachineError> {
    let mut readings = Vec::new();
    let started = Instant::now();
    while started.elapsed() < TIME {
        let before = Tsc.read_ordered();
        let [_, guest_ns, ..] = machine.ask(VCPU, Request::Read(source))?;
        let after = Tsc.read_ordered();
        let pair = |[before_ns, after_ns]: [u64; 2]| Pair { before_ns, tsc: guest_ns, after_ns };
        let now = host_clock::read();
        let elapsed = [before, after]
            .map(|tsc| at_tsc(now, Ticks(tsc), rate).boot.0.wrapping_sub(start.host.0));
        readings.push(Reading {
            by_clock: pair(elapsed.map(|elapsed_ns| start.shown_ns.wrapping_add(elapsed_ns))),
            by_line: pair(shown_at(machine, [before, after], rate)?),
            elapsed_ns: elapsed[1],
        });
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

fn row(maker: Maker, source: Source, readings: &mut [Reading], step_ns: u64) -> Option<Offset> {
    readings.sort_by_key(|reading| width_ns(reading.by_clock));
    let bound_ns = width_ns(readings.first()?.by_clock) as f64 / 2.0 + step_ns as f64;
    let kept = &readings[..readings.len().div_ceil(KEPT_OF)];
    let offsets = kept.iter().map(|Reading { by_clock, .. }| {
        // Differences first: an hour is beyond 2^53 in fractions of a ns.
        let since_before = by_clock.tsc.wrapping_sub(by_clock.before_ns).cast_signed();
        since_before as f64 - width_ns(*by_clock) as f64 / 2.0
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

fn bar(told_ppm: f64) -> String {
    format!(
        "between the host's two, {told_ppm:+.1} ppm of its own clock since the start, ± {} µs and \
         {CLOCK_PPM} ppm",
        CLOCK_NS / 1000
    )
}

/// By the host's own clock, a guest that was told so much; and by its line.
fn judge(name: &str, readings: &[Reading], step_ns: u64, told_ppm: f64) -> [Check; 2] {
    let line_ns = step_ns + ROUNDING_NS;
    let clock = readings.iter().map(|reading| {
        let due_ns = reading.elapsed_ns as f64 * told_ppm / PPM;
        let slack_ns = line_ns + CLOCK_NS + reading.elapsed_ns / 1_000_000 * CLOCK_PPM;
        beyond_ns(reading.by_clock, due_ns.round() as i64, slack_ns)
    });
    let line = readings.iter().map(|reading| beyond_ns(reading.by_line, 0, line_ns));
    [
        check(name.to_owned(), bar(told_ppm), clock.collect()),
        check(
            format!("{name}: against its line"),
            "no reading outside of the line's two".to_owned(),
            line.collect(),
        ),
    ]
}

/// How far the guest's clock is outside of the two, each moved by `due_ns`
/// and further out by the slack.
fn beyond_ns(reading: Pair, due_ns: i64, slack_ns: u64) -> u64 {
    let moved = |ns: u64| i128::from(ns) + i128::from(due_ns);
    let (guest, slack) = (i128::from(reading.tsc), i128::from(slack_ns));
    let behind = moved(reading.before_ns) - slack - guest;
    let ahead = guest - moved(reading.after_ns) - slack;
    behind.max(ahead).max(0) as u64
}

fn check(name: String, bar: String, beyond_ns: Vec<u64>) -> Check {
    let outside = beyond_ns.iter().filter(|beyond| **beyond > 0).count();
    let worst = beyond_ns.iter().max().filter(|worst| **worst > 0);
    let worst = worst.map_or(String::new(), |worst| format!(", by {worst} ns at the most"));
    let found = format!("{outside} of {} outside{worst}", beyond_ns.len());
    let verdict = Verdict::of(outside == 0 && !beyond_ns.is_empty());
    Check { name, bar, found, verdict }
}

#[cfg(test)]
mod tests {
    use host::Kind;

    use super::*;

    const MS: u64 = 1_000_000;

    fn pair(before_ns: u64, guest_ns: u64, after_ns: u64) -> Reading {
        let pair = Pair { before_ns, tsc: guest_ns, after_ns };
        Reading { by_clock: pair, by_line: pair, elapsed_ns: 0 }
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
        let verdicts =
            |guest_ns| judge("", &[pair(5000, guest_ns, 5100)], 1, 0.0).map(|check| check.verdict);
        let (passed, failed) = (Verdict::Passed, Verdict::Failed);
        for guest_ns in [4997, 5103] {
            assert_eq!(verdicts(guest_ns), [passed.clone(), passed.clone()]);
        }
        for guest_ns in [4996, 5104, 3997, 6103] {
            assert_eq!(verdicts(guest_ns), [passed.clone(), failed.clone()]);
        }
        for guest_ns in [3996, 6104] {
            assert_eq!(verdicts(guest_ns), [failed.clone(), failed.clone()]);
        }
        assert_eq!(judge("", &[], 1, 0.0).map(|check| check.verdict), [failed.clone(), failed]);
    }

    /// VirtualBox 5.0's guests were told 1.02299 times the truth: half a
    /// second on they are 11 ms behind, though each page is as it was written.
    #[test]
    fn a_clock_that_is_told_wrong_is_seen_by_the_host_s_own() {
        let told =
            drift_ppm(Source::KvmClock, guest::discovery::FrequencyFrom::KvmClockPage, 1.02299);
        let slow_ns = (500.0 * MS as f64 * told / PPM).round() as i64;
        assert_eq!(slow_ns / MS.cast_signed(), -11);
        let guest_ns = (600 * MS).wrapping_add_signed(slow_ns);
        let on_its_line = Pair { before_ns: guest_ns - 50, tsc: guest_ns, after_ns: guest_ns + 50 };
        let by_clock = Pair { before_ns: 600 * MS - 50, tsc: guest_ns, after_ns: 600 * MS + 50 };
        let reading = Reading { by_clock, by_line: on_its_line, elapsed_ns: 500 * MS };
        let row = row(Maker::Own(Kind::Kvm), Source::KvmClock, &mut [reading], 1).unwrap();
        assert_eq!(row.offset_ns.median, slow_ns as f64);
        let verdicts = |told| judge("", &[reading], 1, told).map(|check| check.verdict);
        assert_eq!(verdicts(told), [Verdict::Passed, Verdict::Passed]);
        assert_eq!(verdicts(0.0), [Verdict::Failed, Verdict::Passed]);
    }
}
