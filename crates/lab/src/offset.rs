//! The guest's time against the host's.
//!
//! The host reads its TSC, requests the guest's time, and reads the TSC again
//! when the reply comes. Two references give the time that the guest's clock
//! should show at both:
//!
//! - the host's CLOCK_BOOTTIME since the host set the guest's clock, plus the time that it
//!   was set to. A page that is ahead by a constant shows, and a guest with a wrong
//!   advertised TSC frequency falls behind or gets ahead of it. KVM's own clock cannot be
//!   set at a known TSC: it begins with what KVM_GET_CLOCK returns;
//! - the page, extrapolated by the provider of the guest's clock: the guest reads
//!   the page as it was written.
//!
//! The guest reads between the two, whatever its own TSC is. It spins while it
//! waits, so no exit comes between, except for a clock that is itself one.

use std::time::{Duration, Instant};

use guest::request::GuestRequest;
use guest::source::Source;
use host::{HostEvent, VcpuId};
use instruments::measurements::Spread;
use instruments::rate::ReadingPair;
use kvm_bindings::KVM_CLOCK_HOST_TSC;
use pvclock::counter::{Counter, Tsc};
use pvclock::{Hertz, Nanos, Ticks};
use serde::Serialize;
use vmm::{Machine, MachineError, host_clock};

use crate::bench::{CLOCK_BY, LabBench, Provider};
use crate::drift::drift_ppm;
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable};
use crate::sample::{VCPU, at_tsc, nanos, not_read, on_own_cpus, providers, sources, width_ns};
use crate::settings::{LabError, LabProgress};
use crate::tsc_offsets::TscOffsets;

/// How long a clock is read: an error of 1 % becomes 5 ms.
const TIME: Duration = Duration::from_millis(500);

/// The narrowest of so many are used: the others were interrupted.
const KEPT_OF: usize = 4;

/// In addition to the clock's own step: two sums, each truncated to whole ns.
const ROUNDING_NS: u64 = 2;

/// The host's TSC against its own clock: the bound of reading both at once, and
/// two oscillators if its clocksource is not the TSC.
const CLOCK_NS: u64 = 1_000;
const CLOCK_PPM: u64 = 50;

const PPM: f64 = 1e6;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The guest's time less the host's.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct OffsetRow {
    clock_by: &'static str,
    source: &'static str,
    offset_ns: Spread,
    /// Of the best sample, either way.
    bound_ns: f64,
    samples: u64,
}

fn table(rows: &[OffsetRow]) -> ResultTable {
    use ColumnForm::{Count, Name, Nanos};
    let columns = [
        ("clock_by", "clock by", "", Name),
        ("source", "guest's clock", "", Name),
        ("offset_ns.min", "min", "", Nanos),
        ("offset_ns.median", "median", "", Nanos),
        ("offset_ns.p99", "p99", "", Nanos),
        ("bound_ns", "±", "", Nanos),
        ("samples", "samples", "", Count),
    ];
    ResultTable::new("Offset: the guest's clock minus the host's", &columns, rows)
        .worst("offset_ns.median")
        .note(CLOCK_BY)
        .note(
            "Host: CLOCK_BOOTTIME, plus its difference from the guest's clock at the machine's \
             start. ±: the bound of the best sample.",
        )
}

/// The step of clocks whose time the host knows: the others count from the
/// guest's first reading.
const fn step_ns(source: Source) -> Option<u64> {
    match source {
        Source::KvmClock => Some(1),
        Source::HyperVPage | Source::HyperVCounter => Some(100),
        Source::Tsc | Source::AcpiPm | Source::Hpet | Source::Rtc => None,
    }
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    let providers = providers(bench.settings);
    for (index, provider) in providers.iter().enumerate() {
        let mut step = |what: &str| progress.step(what, index as f64 / providers.len() as f64);
        if let Err(error) = of_provider(bench, *provider, &mut rows, &mut checks, &mut step) {
            checks.push(not_read(provider.label().to_owned(), expected(0.0), &error));
        }
    }
    Ok((table(&rows), checks))
}

/// Every clock of one machine whose time the host knows.
fn of_provider(
    bench: &LabBench<'_>,
    provider: Provider,
    rows: &mut Vec<OffsetRow>,
    checks: &mut Vec<Check>,
    step: &mut dyn FnMut(&str),
) -> Result<(), MachineError> {
    let machine = bench.start(provider, 1)?;
    let _pinned = on_own_cpus(&machine)?;
    let found = machine.discover(VCPU)?;
    // A provider outside KVM cannot follow offsets that KVM changes by itself.
    let moved = if provider.is_own() { TscOffsets::probe()?.why_moved() } else { None };
    for source in sources(bench.settings, &found) {
        let Some(step_ns) = step_ns(source) else { continue };
        let name = format!("{}: {}", provider.label(), source.name());
        step(&name);
        let factor = bench.advertised_over_true(provider);
        let drift_ppm = drift_ppm(source, found.frequency_from, factor);
        let start = OffsetStart::set(&machine, bench.host_tsc)?;
        match read(&machine, source, bench.host_tsc, start) {
            Ok(mut readings) => {
                let judged = judge(&name, &readings, step_ns, drift_ppm);
                checks.extend(judged.map(|check| check.excused(moved)));
                rows.extend(row(provider, source, &mut readings, step_ns));
            }
            Err(error) => checks.push(not_read(name, expected(drift_ppm), &error)),
        }
    }
    Ok(())
}

/// The guest's clock and CLOCK_BOOTTIME at one moment.
#[derive(Debug, Clone, Copy)]
struct OffsetStart {
    host: Nanos,
    shown_ns: u64,
}

impl OffsetStart {
    /// Sets the clock a second ahead, so that it never goes back, to whole units of each.
    fn set(machine: &Machine, rate: Hertz) -> Result<Self, MachineError> {
        let set = machine.with_clock_exclusive(|clock, now, ram| {
            let shown = clock.time(VcpuId(VCPU as u32), now).0;
            let shown_ns = (shown / NANOS_PER_SECOND + 2) * NANOS_PER_SECOND;
            clock.handle(HostEvent::ClockSet { clock: Nanos(shown_ns) }, now, ram);
            Self { host: now.boot, shown_ns }
        });
        if let Some(start) = set {
            return Ok(start);
        }
        let now = host_clock::read();
        let [shown_ns, _] = shown_at(machine, [now.tsc.0; 2], rate)?;
        Ok(Self { host: now.boot, shown_ns })
    }
}

/// One reading of the guest's clock.
#[derive(Debug, Clone, Copy)]
struct OffsetReading {
    /// Between two times by the host's CLOCK_BOOTTIME.
    by_clock: ReadingPair,
    /// Between two times by the guest's page.
    by_page: ReadingPair,
    /// Since the start, by CLOCK_BOOTTIME.
    elapsed_ns: u64,
}

fn read(
    machine: &Machine,
    source: Source,
    rate: Hertz,
    start: OffsetStart,
) -> Result<Vec<OffsetReading>, MachineError> {
    let mut readings = Vec::new();
    let started = Instant::now();
    while started.elapsed() < TIME {
        let before = Tsc.read_ordered();
        let [_, guest_ns, ..] = machine.request(VCPU, GuestRequest::Read(source))?;
        let after = Tsc.read_ordered();
        let pair =
            |[before_ns, after_ns]: [u64; 2]| ReadingPair { before_ns, tsc: guest_ns, after_ns };
        let now = host_clock::read();
        let elapsed = [before, after]
            .map(|tsc| at_tsc(now, Ticks(tsc), rate).boot.0.wrapping_sub(start.host.0));
        readings.push(OffsetReading {
            by_clock: pair(elapsed.map(|elapsed_ns| start.shown_ns.wrapping_add(elapsed_ns))),
            by_page: pair(shown_at(machine, [before, after], rate)?),
            elapsed_ns: elapsed[1],
        });
    }
    Ok(readings)
}

/// What the guest's clock should have shown at these recent values of the
/// host's TSC.
fn shown_at(machine: &Machine, tscs: [u64; 2], rate: Hertz) -> Result<[u64; 2], MachineError> {
    let ours = machine.with_clock(|host, now, _| {
        tscs.map(|tsc| host.time(VcpuId(VCPU as u32), at_tsc(now, Ticks(tsc), rate)).0)
    });
    if let Some(shown) = ours {
        return Ok(shown);
    }
    let clock = machine.kernel_clock()?;
    if clock.flags & KVM_CLOCK_HOST_TSC == 0 {
        return Err(MachineError::Unsupported {
            what: "KVM_CLOCK_HOST_TSC (since Linux 5.16, while the host's clocksource is the TSC)",
        });
    }
    let cycles = |tsc: u64| tsc.wrapping_sub(clock.host_tsc).cast_signed();
    Ok(tscs.map(|tsc| clock.clock.wrapping_add_signed(nanos(cycles(tsc), rate))))
}

fn row(
    provider: Provider,
    source: Source,
    readings: &mut [OffsetReading],
    step_ns: u64,
) -> Option<OffsetRow> {
    readings.sort_by_key(|reading| width_ns(reading.by_clock));
    let bound_ns = width_ns(readings.first()?.by_clock) as f64 / 2.0 + step_ns as f64;
    let kept = &readings[..readings.len().div_ceil(KEPT_OF)];
    let offsets = kept.iter().map(|OffsetReading { by_clock, .. }| {
        // Differences first: an hour is beyond 2^53 in fractions of a ns.
        let since_before = by_clock.tsc.wrapping_sub(by_clock.before_ns).cast_signed();
        since_before as f64 - width_ns(*by_clock) as f64 / 2.0
    });
    Some(OffsetRow {
        clock_by: provider.label(),
        source: source.name(),
        offset_ns: Spread::from_values(offsets.collect())?,
        bound_ns,
        samples: kept.len() as u64,
    })
}

fn expected(drift_ppm: f64) -> String {
    format!(
        "between the host's readings before and after, with a drift of \
         {drift_ppm:+.1} ppm, ± {} µs and {CLOCK_PPM} ppm",
        CLOCK_NS / 1000
    )
}

/// The checks against CLOCK_BOOTTIME, at the drift in theory, and against the
/// page.
fn judge(name: &str, readings: &[OffsetReading], step_ns: u64, drift_ppm: f64) -> [Check; 2] {
    let rounding_ns = step_ns + ROUNDING_NS;
    let clock = readings.iter().map(|reading| {
        let due_ns = reading.elapsed_ns as f64 * drift_ppm / PPM;
        let tolerance_ns = rounding_ns + CLOCK_NS + reading.elapsed_ns / 1_000_000 * CLOCK_PPM;
        beyond_ns(reading.by_clock, due_ns.round() as i64, tolerance_ns)
    });
    let page = readings.iter().map(|reading| beyond_ns(reading.by_page, 0, rounding_ns));
    [
        check(name.to_owned(), expected(drift_ppm), clock.collect()),
        check(
            format!("{name}: against its page"),
            "between the page's times before and after".to_owned(),
            page.collect(),
        ),
    ]
}

/// How far the guest's clock is outside of the two times, each shifted by
/// `due_ns` and widened by the tolerance.
fn beyond_ns(reading: ReadingPair, due_ns: i64, tolerance_ns: u64) -> u64 {
    let shifted = |ns: u64| i128::from(ns) + i128::from(due_ns);
    let (guest, tolerance) = (i128::from(reading.tsc), i128::from(tolerance_ns));
    let behind = shifted(reading.before_ns) - tolerance - guest;
    let ahead = guest - shifted(reading.after_ns) - tolerance;
    behind.max(ahead).max(0) as u64
}

fn check(name: String, expected: String, beyond_ns: Vec<u64>) -> Check {
    let outside = beyond_ns.iter().filter(|beyond| **beyond > 0).count();
    let worst = beyond_ns.iter().max().filter(|worst| **worst > 0);
    let worst = worst.map_or(String::new(), |worst| format!(", by at most {worst} ns"));
    let found = format!("{outside} of {} readings outside{worst}", beyond_ns.len());
    Check::new(name, expected, found, outside == 0 && !beyond_ns.is_empty())
}

#[cfg(test)]
mod tests {
    use host::ClockProvider;

    use super::*;
    use crate::results::Verdict;

    const MS: u64 = 1_000_000;

    fn pair(before_ns: u64, guest_ns: u64, after_ns: u64) -> OffsetReading {
        let pair = ReadingPair { before_ns, tsc: guest_ns, after_ns };
        OffsetReading { by_clock: pair, by_page: pair, elapsed_ns: 0 }
    }

    #[test]
    fn the_narrowest_quarter_is_used() {
        // 50 ns ahead of the middle, except those that were interrupted.
        let mut readings = vec![pair(1000, 9_000, 90_000); 6];
        readings.extend([pair(2000, 2150, 2200), pair(2000, 2350, 2600)]);
        let row =
            row(Provider::Own(ClockProvider::Kvm), Source::KvmClock, &mut readings, 1).unwrap();
        assert_eq!((row.offset_ns.min, row.offset_ns.max), (50.0, 50.0));
        assert_eq!((row.bound_ns, row.samples), (101.0, 2));
        assert_eq!(super::row(Provider::Kernel, Source::KvmClock, &mut [], 1), None);
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
        let none = judge("", &[], 1, 0.0);
        assert_eq!(none.each_ref().map(|check| &check.verdict), [&failed, &failed]);
        let [excused, _] = none.map(|check| check.excused(Some("KVM's doing")));
        assert_eq!(excused.verdict, Verdict::NotMeasured("KVM's doing".to_owned()));
    }

    /// A host advertises 1.02299 times the true frequency: half a second
    /// later its guests are 11 ms behind, though each page is as written.
    #[test]
    fn a_wrong_frequency_shows_against_the_host_s_clock() {
        let drift =
            drift_ppm(Source::KvmClock, guest::discovery::FrequencyOrigin::KvmClockPage, 1.02299);
        let slow_ns = (500.0 * MS as f64 * drift / PPM).round() as i64;
        assert_eq!(slow_ns / MS.cast_signed(), -11);
        let guest_ns = (600 * MS).wrapping_add_signed(slow_ns);
        let by_its_page =
            ReadingPair { before_ns: guest_ns - 50, tsc: guest_ns, after_ns: guest_ns + 50 };
        let by_clock =
            ReadingPair { before_ns: 600 * MS - 50, tsc: guest_ns, after_ns: 600 * MS + 50 };
        let reading = OffsetReading { by_clock, by_page: by_its_page, elapsed_ns: 500 * MS };
        let row =
            row(Provider::Own(ClockProvider::Kvm), Source::KvmClock, &mut [reading], 1).unwrap();
        assert_eq!(row.offset_ns.median, slow_ns as f64);
        let verdicts = |drift_ppm| judge("", &[reading], 1, drift_ppm).map(|check| check.verdict);
        assert_eq!(verdicts(drift), [Verdict::Passed, Verdict::Passed]);
        assert_eq!(verdicts(0.0), [Verdict::Failed, Verdict::Passed]);
    }
}
