//! The checks on one boot.

use host::ClockProvider;
use instruments::figures::time;

use super::expected::{self, ExpectedMachine, PAGE_PPM};
use super::host_line::signed;
use super::seen::StockReading;
use super::{Boot, Stock, row, vmclock};
use crate::bench::{LabBench, Provider};
use crate::results::Check;

/// How far a guest's time of day may be off where its host tells it, beyond the
/// bounds of the readings, ns.
const TOLERANCE_NS: f64 = 1_000.0;
/// A real-time clock counts seconds; the kernel reads it when it has just ticked, or not.
const RTC_NS: f64 = 1e9;
/// What the kernel's own calibration by the PIT promises
/// (arch/x86/kernel/tsc.c, quick_pit_calibrate: 500 ppm).
const CALIBRATED_PPM: f64 = 500.0;
/// Lines of the log that are a verdict against the clock.
const VERDICTS: [&str; 4] =
    ["marked unstable", "marking clocksource", "tsc unstable", "unchecked msr access"];

/// The guest's clocks against the host's.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgedTimes {
    /// Its time of day less the host's at the last reading, ns, and the bound of
    /// reading both.
    pub(super) offset_ns: Option<f64>,
    pub(super) bound_ns: f64,
    /// What the host's time of day was steered by since the guest began, ns.
    steered_ns: f64,
    /// By how much its time of day gained on the host's between the two readings, ns, and
    /// what the host's was steered by between them.
    real_gained_ns: f64,
    steered_between_ns: f64,
    /// By how much its clock is faster between the two readings, and the bound.
    pub(super) rate_ppm: Option<f64>,
    /// The same in ns, of this span, read with this bound.
    gained_ns: f64,
    span_ns: f64,
    gained_bound_ns: f64,
    /// From the machine's start to its report, ns.
    took_ns: f64,
}

/// The row and the checks.
pub(super) fn judge(
    bench: &LabBench<'_>,
    provider: Provider,
    booted: Result<Boot, String>,
) -> (Option<Stock>, Vec<Check>) {
    let vcpus = bench.settings.vcpus;
    let expected = format!("reports its clocks, {vcpus} CPUs online");
    let boot = match booted {
        Err(why) => {
            let check = Check::new("boots", expected, why, false);
            return (None, vec![check.prefix(provider.label())]);
        }
        Ok(boot) => boot,
    };
    let seen = &boot.seen;
    let watched = bench.settings.stock.as_ref().map_or_else(Default::default, |one| one.watched);
    let found = format!("{}, {} CPUs, {:.1} s", seen.release, seen.cpus, boot.took.as_secs_f64());
    let mut checks = vec![Check::new("boots", expected, found, seen.cpus as usize == vcpus)];
    let machine = machine(&boot, vcpus);
    let wanted = expected::clocksource(provider, machine);
    let source = seen.clocksource.as_str();
    let is_it = source == wanted || (wanted, source) == ("tsc", expected::EARLY);
    checks.push(Check::new("clock source", wanted, source, is_it));
    let true_ones = expected::true_verdicts(provider, machine);
    let verdicts = seen.log.iter().filter(|line| {
        let line = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|one| line.contains(one));
        has(&VERDICTS) && !has(true_ones)
    });
    let verdicts: Vec<&str> = verdicts.map(String::as_str).collect();
    checks.push(Check::new(
        "kernel's log",
        format!("no complaint about a clock for at least {watched:?}"),
        join(&verdicts),
        verdicts.is_empty(),
    ));
    let wrong: Vec<&str> = seen.findings.iter().map(String::as_str).filter(is_wrong).collect();
    checks.push(Check::new(
        "doctor inside",
        "only warnings that are true of this machine",
        join(&wrong),
        wrong.is_empty() && seen.errors.is_empty(),
    ));
    let told: Vec<&str> = seen.disruptions.iter().map(String::as_str).collect();
    checks.push(Check::new("watch inside", "no disruption", join(&told), told.is_empty()));
    let times = times(&boot);
    checks.extend(time_checks(provider, &times));
    let by_vmclock = vmclock::times(&seen.vmclock, &boot.host, boot.tsc_offset, machine.kernel);
    if bench.settings.stock.as_ref().is_some_and(|stock| stock.vmclock) {
        let by_driver = expected::driver_reads_vmclock(provider, machine);
        checks.push(vmclock_check(by_vmclock, by_driver));
    }
    checks.extend(second_boot(bench, &boot));
    let checks = checks.into_iter().map(|check| check.prefix(provider.label())).collect();
    (Some(row(provider, vcpus, &boot, &times, by_vmclock.as_ref())), checks)
}

/// Of the second boot, where it was asked for.
fn second_boot(bench: &LabBench<'_>, boot: &Boot) -> Option<Check> {
    let found = if boot.seen.again { "the second kernel" } else { "the first kernel" };
    let is_wanted = bench.settings.stock.as_ref().is_some_and(|stock| stock.kexec);
    is_wanted.then(|| Check::new("kexec", "the second kernel reports", found, boot.seen.again))
}

fn is_wrong(finding: &&str) -> bool {
    let grave = finding.starts_with("warning") || finding.starts_with("error");
    grave && !expected::TRUE_FINDINGS.contains(finding)
}

fn machine(boot: &Boot, vcpus: usize) -> ExpectedMachine {
    let mut numbers = boot.seen.release.split(['.', '-']).map_while(|word| word.parse().ok());
    let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (invariant_tsc, is_intel) = (vmm::kvm::tsc_is_invariant(), vmm::kvm::is_intel());
    ExpectedMachine { kernel, vcpus, invariant_tsc, is_intel }
}

fn join(words: &[&str]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
}

fn times(boot: &Boot) -> JudgedTimes {
    let mut times = JudgedTimes { took_ns: boot.took.as_nanos() as f64, ..JudgedTimes::default() };
    let at = |reading: &StockReading| boot.host.locate(reading.tsc, boot.tsc_offset);
    let (Some(first), Some(last)) = (boot.seen.readings.first(), boot.seen.readings.last()) else {
        return times;
    };
    let Some((host_first, host_last)) = at(first).zip(at(last)) else { return times };
    let real_ns = signed(last.real_ns, boot.host.epoch_ns());
    times.offset_ns = Some(real_ns - host_last.real_ns);
    times.bound_ns = host_last.bound_ns;
    times.steered_ns = host_last.steered_ns.abs();
    times.real_gained_ns =
        signed(last.real_ns, first.real_ns) - (host_last.real_ns - host_first.real_ns);
    times.steered_between_ns = (host_last.steered_ns - host_first.steered_ns).abs();
    let host_ns = host_last.boot_ns - host_first.boot_ns;
    let guest_ns = signed(last.raw_ns, first.raw_ns);
    if host_ns > 0.0 {
        times.rate_ppm = Some((guest_ns / host_ns - 1.0) * 1e6);
        (times.gained_ns, times.span_ns) = (guest_ns - host_ns, host_ns);
        times.gained_bound_ns = host_first.bound_ns + times.bound_ns;
    }
    times
}

fn vmclock_check(times: Option<vmclock::VmClockTimes>, by_driver: bool) -> Check {
    let who =
        |by_driver| if by_driver { "read by the driver" } else { "the driver refuses to read it" };
    let found = |is: vmclock::VmClockTimes| {
        format!("{}, ± {}, {}", time(is.offset_ns), time(is.bound_ns), who(is.by_driver))
    };
    let is_right = |is: vmclock::VmClockTimes| is.offset_ns.abs() <= TOLERANCE_NS + is.bound_ns;
    Check::new(
        "VMClock",
        format!(
            "the host's time, within {} plus the bound, {}",
            time(TOLERANCE_NS),
            who(by_driver)
        ),
        times.map_or("no reading".to_owned(), found),
        times.is_some_and(|is| is_right(is) && is.by_driver == by_driver),
    )
}

fn time_checks(provider: Provider, times: &JudgedTimes) -> [Check; 3] {
    let tells_time = provider.name() == ClockProvider::Kvm.name();
    let has_page = tells_time || provider.name() == ClockProvider::HyperV.name();
    let (offset, bound) = (times.offset_ns, times.bound_ns);
    // Until Linux takes kvm-clock it counts ticks, of which a slow host loses some
    // (kernel/time/timekeeping.c, timekeeping_init: clocksource_default_clock): it may
    // be behind by what it missed of its boot, and never ahead. From the first reading on
    // it keeps its distance.
    let most = bound + times.steered_ns + if tells_time { TOLERANCE_NS } else { RTC_NS };
    let least = if tells_time { -times.took_ns } else { -most };
    let ppm = if has_page { PAGE_PPM } else { CALIBRATED_PPM };
    let gain = TOLERANCE_NS + times.gained_bound_ns + ppm * times.span_ns / 1e6;
    let span = time(times.span_ns);
    let kept = gain + times.steered_between_ns;
    [
        Check::new(
            "time of day, after the boot",
            format!("within {} of the host's over {span}", time(kept)),
            time(times.real_gained_ns),
            offset.is_some() && times.real_gained_ns.abs() <= kept,
        ),
        Check::new(
            "time of day, boot included",
            format!("{} to {} of the host's", time(least), time(most)),
            offset.map_or("no reading".to_owned(), |ns| format!("{}, ± {}", time(ns), time(bound))),
            offset.is_some_and(|ns| (least..=most).contains(&ns)),
        ),
        Check::new(
            "clock",
            format!("within {} of the host's over {span}", time(gain)),
            match times.rate_ppm {
                None => "no reading".to_owned(),
                Some(ppm) => format!("{}, {ppm:.3} ppm", time(times.gained_ns)),
            },
            times.rate_ppm.is_some() && times.gained_ns.abs() <= gain,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Verdict;

    fn verdicts(provider: Provider, times: &JudgedTimes) -> [Verdict; 3] {
        time_checks(provider, times).map(|check| check.verdict)
    }

    /// Behind by 2 s of its boot, read 5 s apart with 300 ns of bound each.
    fn booted(real_gained_ns: f64) -> JudgedTimes {
        JudgedTimes {
            offset_ns: Some(-2e9),
            bound_ns: 300.0,
            real_gained_ns,
            rate_ppm: Some(0.0),
            span_ns: 5e9,
            gained_bound_ns: 600.0,
            took_ns: 9e9,
            ..JudgedTimes::default()
        }
    }

    #[test]
    fn a_time_of_day_that_moves_after_the_boot_is_wrong() {
        let kvm = Provider::Own(ClockProvider::Kvm);
        // 1 µs, 600 ns of bound and 0.25 ppm of 5 s.
        for (gained_ns, is_right) in [(0.0, true), (2_800.0, true), (-2_900.0, false)] {
            let [once_booted, of_the_boot, rate] = verdicts(kvm, &booted(gained_ns));
            assert_eq!(once_booted, Verdict::judge(is_right), "{gained_ns}");
            assert_eq!([of_the_boot, rate], [Verdict::Passed, Verdict::Passed]);
        }
        let steered = JudgedTimes { steered_between_ns: 100.0, ..booted(-2_900.0) };
        assert_eq!(verdicts(kvm, &steered)[0], Verdict::Passed, "the host's was steered");
        let ahead = JudgedTimes { offset_ns: Some(2_000.0), ..booted(0.0) };
        assert_eq!(verdicts(kvm, &ahead)[1], Verdict::Failed, "never ahead");
        let unread = JudgedTimes { offset_ns: None, ..booted(0.0) };
        assert_eq!(verdicts(kvm, &unread)[0], Verdict::Failed);
    }
}
