//! The checks on one boot.

use crate::boot::Boot;
use crate::expected::{self, ExpectedMachine, PAGE_PPM};
use crate::{Args, Check, Provider, join};
use host::ClockProvider;

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

pub(crate) fn judge(args: &Args, provider: Provider, boot: Result<&Boot, &str>) -> Vec<Check> {
    let what = format!("boots: reports its clocks, {} CPUs online", args.vcpus);
    let boot = match boot {
        Err(why) => return vec![Check::new(what, why, false)],
        Ok(boot) => boot,
    };
    let seen = &boot.booted;
    let found = format!("{}, {} CPUs, {:.1} s", seen.release, seen.cpus, boot.took.as_secs_f64());
    let mut checks = vec![Check::new(what, found, seen.cpus == args.vcpus)];
    let machine = ExpectedMachine::here(&seen.release, args.vcpus);
    let (wanted, source) = (expected::clocksource(provider, machine), seen.clocksource.as_str());
    let is_it = source == wanted || (wanted, source) == ("tsc", expected::EARLY);
    checks.push(Check::new(format!("clock source: {wanted}"), source, is_it));
    let true_ones = expected::true_verdicts(provider, machine);
    let verdicts = seen.log.iter().filter(|line| {
        let line = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        has(&VERDICTS) && !has(true_ones)
    });
    let verdicts: Vec<String> = verdicts.cloned().collect();
    let what = "kernel's log: no complaint about a clock";
    checks.push(Check::new(what, join(&verdicts), verdicts.is_empty()));
    checks.push(rates(provider, boot));
    checks.push(time_of_day(provider, boot));
    if args.kexec {
        let found = if seen.again { "the second kernel" } else { "the first kernel" };
        checks.push(Check::new("kexec: the second kernel reports", found, seen.again));
    }
    checks
}

/// Each clock of the guest runs at the rate of the host's that nothing steers.
fn rates(provider: Provider, boot: &Boot) -> Check {
    let has_page = provider.is_kvm_clock() || provider == Provider::Own(ClockProvider::HyperV);
    let ppm = if has_page { PAGE_PPM } else { CALIBRATED_PPM };
    let (mut found, mut passed) = (Vec::new(), boot.first.len() == boot.last.len());
    for (first, last) in boot.first.iter().zip(&boot.last) {
        let (gained_ns, span_ns) = last.gained_since(first);
        let most_ns = TOLERANCE_NS + first.bound_ns + last.bound_ns + ppm * span_ns / 1e6;
        found.push(format!("{} {gained_ns:+.0} ns in {:.1} s", last.clock, span_ns / 1e9));
        passed &= gained_ns.abs() <= most_ns;
    }
    let what = format!("clocks: within {ppm} ppm of the host's rate, and the readings' bounds");
    Check::new(what, join(&found), passed && !found.is_empty())
}

/// Until Linux takes kvm-clock it counts ticks, of which a slow host loses some
/// (kernel/time/timekeeping.c, timekeeping_init: clocksource_default_clock): it may be behind by
/// what it missed of its boot, and never ahead. Other clocks get their time from the RTC.
fn time_of_day(provider: Provider, boot: &Boot) -> Check {
    let realtime = boot.last.iter().find(|reading| reading.clock == "CLOCK_REALTIME");
    let (least_ns, most_ns) = if provider.is_kvm_clock() {
        (-(boot.took.as_nanos() as f64), TOLERANCE_NS)
    } else {
        (-RTC_NS, RTC_NS)
    };
    let what = format!("time of day: {least_ns:.0} to {most_ns:.0} ns of the host's");
    let is_right = realtime
        .is_some_and(|at| (least_ns - at.bound_ns..=most_ns + at.bound_ns).contains(&at.ahead_ns));
    let found = realtime.map_or("no reading".to_owned(), |at| {
        format!("{:+.0} ns, ± {:.0} ns", at.ahead_ns, at.bound_ns)
    });
    Check::new(what, found, is_right)
}
