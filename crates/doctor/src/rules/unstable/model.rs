//! What the watchdog of this kernel makes of the log's figures, and what that of Linux 7.1
//! does: by the model that is held against kernels (`kernel-clock`).

use facts::kernel::version::KernelVersion;
use instruments::figures;
use kernel_clock::watchdog::{REWRITTEN, Readout, Watchdog, WatchdogVerdict};
use kernel_clock::{KernelClockSource, LinuxKernel, Version};

use super::cause::UnstableCause;
use super::interval::{WatchdogInterval, WatchdogReference};
use crate::case::Case;

/// The most common tick, and no margin is less than a tick of jiffies: those are told of
/// elsewhere.
const TICK_HZ: u32 = 250;

/// The two verdicts in a line of evidence; none without both counters.
pub(super) fn verdicts(
    case: &Case<'_>,
    cause: &UnstableCause,
    interval: &WatchdogInterval,
) -> Option<String> {
    let release = case.release().ok()?;
    let this = version(KernelVersion::parse(release)?)?;
    // What this kernel read was in time by its own rules: it judged it.
    let here = judge(this, interval, 0.0)?;
    let name = format!("Linux {this}");
    let here = match here {
        WatchdogVerdict::UnstableSkew { limit_ns, .. } => {
            format!("The watchdog of {name} tolerates up to {} in such a check", time(limit_ns))
        }
        WatchdogVerdict::TooLong { .. } => {
            format!("The watchdog of {name} drops a check that is so late")
        }
        _ => format!("By the rules of {name} the TSC would have passed this check"),
    };
    if this >= REWRITTEN {
        return Some(format!("{here}."));
    }
    let late_ns = if *cause == UnstableCause::ReadLate { interval.skew_ns?.abs() } else { 0.0 };
    let later = match judge(REWRITTEN, interval, late_ns)? {
        WatchdogVerdict::TooSlow { .. } => "drops a check whose reads are so late".to_owned(),
        WatchdogVerdict::TooLong { .. } => "drops a check that is so late".to_owned(),
        WatchdogVerdict::UnstableSkew { limit_ns, .. } => {
            format!("marks the TSC unstable as well, beyond {}", time(limit_ns))
        }
        _ => "keeps the TSC".to_owned(),
    };
    Some(format!("{here}; that of {REWRITTEN} and later {later}."))
}

fn time(ns: u64) -> String {
    figures::time(ns as f64)
}

fn version(of: KernelVersion) -> Option<Version> {
    // Which of a stable series it is, a release's name does not tell.
    Some(Version(of.major.try_into().ok()?, of.minor.try_into().ok()?, 0))
}

/// What the watchdog of a version makes of it, had the second read taken so long.
fn judge(version: Version, interval: &WatchdogInterval, late_ns: f64) -> Option<WatchdogVerdict> {
    let reference = interval.reference.as_ref()?;
    let counter = reference.counter?;
    let tsc = interval.tsc?;
    let mut watched =
        KernelClockSource::new("tsc", 300, rate_hz(tsc.ticks(), interval.tsc_ns?)?, 64);
    // Refined by another clock, as where no hypervisor states its rate.
    watched.is_calibrated = true;
    let kernel = LinuxKernel::new(version, TICK_HZ);
    let source = source(reference)?;
    let mut watchdog = Watchdog::new(kernel, watched, source, 1);
    let at = |(reference, watched): (u64, u64), late: u64| {
        let after = reference.wrapping_add(late);
        move || Readout { reference, watched, after, again: after }
    };
    let ((now, last), (tsc_now, tsc_last)) = (counter.readings(), tsc.readings());
    watchdog.check(at((last, tsc_last), 0));
    let late = (late_ns * source.hz as f64 / 1e9) as u64;
    Some(watchdog.check(at((now, tsc_now), late)))
}

/// The reference as the kernel registers it.
fn source(reference: &WatchdogReference) -> Option<KernelClockSource> {
    let hz = || rate_hz(reference.counter?.ticks(), reference.counted_ns?);
    match reference.name.as_str() {
        "hpet" => hz().map(KernelClockSource::hpet),
        "acpi_pm" => Some(KernelClockSource::acpi_pm()),
        "kvm-clock" => Some(KernelClockSource::kvm_clock(false)),
        _ => None,
    }
}

fn rate_hz(ticks: u64, ns: f64) -> Option<u64> {
    (ticks > 0 && ns > 0.0).then(|| (ticks as f64 / ns * 1e9).round() as u64)
}
