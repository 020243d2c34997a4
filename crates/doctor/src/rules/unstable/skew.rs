//! The cause by the size and sign of the skew.

use facts::kernel::{LogEvent, LogLine};

use super::cause::{BRACKETED_LATE_NS, LATE_NS};
use super::cause::{UnstableCause, WatchdogForm, delays_before};
use super::interval::{WatchdogInterval, WatchdogReference};

/// A difference this close to a power of two of nanoseconds is no accident.
const OVERFLOW_TOLERANCE: f64 = 1e-5;

/// From here on the power is that of a 64-bit product after the conversion's shift, by
/// which a negative interval becomes a positive one.
const UNSIGNED_POWER: f64 = 40.0;

/// No quartz and no calibration is wrong by more: beyond it, something happened
/// in the interval. The worst known calibration was 2.3 % off.
const RATE_LIMIT_PPM: f64 = 30_000.0;

/// The first checks find a rate that is wrong from the start: they begin once the TSC is
/// registered, about a second after boot, and come each half second.
const SETTLED_S: f64 = 15.0;

/// The limit of kernels before 5.13 (WATCHDOG_THRESHOLD, NSEC_PER_SEC >> 4), and how little
/// above it a drift is found, ns.
const OLD_LIMIT_NS: std::ops::Range<f64> = 62_500_000.0..62_562_500.0;

/// A difference that grew so slowly was no jump, s.
const SLOWLY_S: f64 = 3600.0;

/// CPUs of machines on which a read of the HPET takes hundreds of µs under load.
const MANY_CPUS: u32 = 256;

/// Lines in which a verdict's stamp may be.
const REACH: usize = 10;

/// What else the log shows of the check.
pub(super) struct LogContext {
    form: WatchdogForm,
    /// Why a read was probably late: others were, or the machine has many CPUs.
    reads_are_slow: bool,
    at_s: Option<f64>,
    /// The kernel fell back to timer ticks, as it had no other clock.
    has_ticks_alone: bool,
    /// By how much a later calibration differs from the first, ppm.
    refined_ppm: Option<f64>,
}

impl LogContext {
    pub(super) fn in_log(log: &[LogLine], at: usize, form: WatchdogForm) -> Self {
        let near = &log[at..log.len().min(at + REACH)];
        let next = &near[1..near.len().min(3)];
        let cpu = log[at].text.split_once("watchdog on CPU").and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
        });
        let hz = |wanted: bool| {
            log.iter().find_map(|line| match line.event {
                LogEvent::TscFrequency { hz, refined } if refined == wanted => Some(hz as f64),
                _ => None,
            })
        };
        Self {
            form,
            reads_are_slow: delays_before(log, at).next().is_some()
                || cpu.is_some_and(|cpu| cpu >= MANY_CPUS),
            at_s: near.iter().find_map(|line| line.at_s.or_else(|| uptime_s(&line.text))),
            has_ticks_alone: next
                .iter()
                .any(|line| matches!(&line.event, LogEvent::Switched { to } if to == "jiffies")),
            refined_ppm: hz(true).zip(hz(false)).map(|(late, early)| (late / early - 1.0) * 1e6),
        }
    }

    /// Whether a difference alone is from timer ticks.
    pub(super) fn counts_ticks(&self, interval: &WatchdogInterval) -> bool {
        interval.reference.is_none() && self.has_ticks_alone
    }
}

/// `sched_clock: Marking unstable (882011139159, …`, in ns since boot.
fn uptime_s(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("Marking unstable (")?;
    Some(rest.split(',').next()?.parse::<f64>().ok()? / 1e9)
}

/// The cause, by the size and sign of the skew.
pub(super) fn cause_of_skew(
    interval: &WatchdogInterval,
    seen: &LogContext,
) -> Option<UnstableCause> {
    let skew_ns = interval.skew_ns?;
    if let Some(cause) = overflowed(skew_ns) {
        return Some(cause);
    }
    if interval.is_difference_alone() {
        return Some(match seen.at_s {
            Some(after_s) if after_s > SLOWLY_S && OLD_LIMIT_NS.contains(&skew_ns.abs()) => {
                UnstableCause::Drifted { by_ns: skew_ns, after_s }
            }
            _ => UnstableCause::Unexplained { by_ns: skew_ns },
        });
    }
    // Without the interval, its usual half second. Where no late read can
    // be the cause, what is no rate is a jump.
    let length_ns = interval.reference_ns.filter(|ns| *ns > 0.0);
    let is_early = seen.at_s.is_some_and(|at_s| at_s <= SETTLED_S);
    let by_emulation = interval.has_emulated_hpet();
    let large = if seen.form == WatchdogForm::Apart { 0.4 } else { RATE_LIMIT_PPM / 1e6 };
    let large_ns = length_ns.map_or(0.4e9, |ns| large * ns);
    if skew_ns.abs() > large_ns && seen.form == WatchdogForm::Bracketed && is_early {
        return Some(UnstableCause::OneCheck { by_ns: skew_ns, by_emulation });
    }
    // The TSC lost most of the interval: it stopped, or was reset.
    if skew_ns < -large_ns {
        let by_page = interval.reference.as_ref().is_some_and(WatchdogReference::is_page);
        return Some(UnstableCause::Stopped { by_ns: Some(skew_ns.abs()), by_page });
    }
    if skew_ns > large_ns {
        return Some(UnstableCause::JumpedAhead { by_ns: Some(skew_ns) });
    }
    let late = match seen.form {
        WatchdogForm::Apart => length_ns.is_none_or(|ns| ns > LATE_NS) || seen.reads_are_slow,
        WatchdogForm::Bracketed => {
            let is_slow = seen.reads_are_slow || by_emulation;
            skew_ns.abs() < BRACKETED_LATE_NS && is_slow
        }
        WatchdogForm::Rewritten => false,
    };
    let Some(ppm) = interval.ppm().filter(|_| !late) else { return Some(UnstableCause::ReadLate) };
    let form = seen.form;
    if ppm.abs() > RATE_LIMIT_PPM && form == WatchdogForm::Apart {
        return Some(UnstableCause::ReadLate);
    }
    let is_page = interval.reference.as_ref().is_some_and(WatchdogReference::is_page);
    if form == WatchdogForm::Bracketed && is_page {
        return Some(UnstableCause::PageOff { by_ns: 0.0 - skew_ns });
    }
    let is_refined = seen.refined_ppm.is_some_and(|refined| (refined - ppm).abs() < 50.0);
    Some(match seen.at_s {
        Some(after_s) if after_s > SETTLED_S => {
            UnstableCause::Jumped { by_ns: skew_ns, after_s, form }
        }
        // QEMU's main loop serves an HPET's read: it may be milliseconds late, between the
        // kernel's two reads of it too. Whether it is QEMU's is shown by its counters.
        at_s if form == WatchdogForm::Bracketed
            && !is_refined
            && (at_s.is_none() || by_emulation || !interval.has_reference_counter()) =>
        {
            UnstableCause::OneCheck { by_ns: skew_ns, by_emulation }
        }
        _ => UnstableCause::WrongRate { ppm, form, is_refined },
    })
}

/// A difference that is a power of two of nanoseconds, less a rest: `-8589935096` is
/// -(2^33 + 504).
fn overflowed(skew_ns: f64) -> Option<UnstableCause> {
    let exponent = skew_ns.abs().log2().round();
    let power = exponent as u32;
    let rest_ns = skew_ns - exponent.exp2().copysign(skew_ns);
    // The TSC's shift was 22 (2.6, arch/x86/kernel/tsc.c), and 64 - 22 is 42.
    if exponent == 42.0 && (-2e9..-1000.0).contains(&rest_ns) {
        return Some(UnstableCause::SignLost { power, by_ns: rest_ns });
    }
    if exponent < 32.0 || rest_ns.abs() >= exponent.exp2() * OVERFLOW_TOLERANCE {
        return None;
    }
    let is_unsigned = exponent >= UNSIGNED_POWER && skew_ns > 0.0 && rest_ns < -1000.0;
    Some(match is_unsigned {
        true => UnstableCause::SignLost { power, by_ns: rest_ns },
        false => UnstableCause::Overflow { power, rest_ns },
    })
}
