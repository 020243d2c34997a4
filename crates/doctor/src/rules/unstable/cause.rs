//! Why the kernel marked the TSC unstable: by its message, or by the size and
//! sign of the figures.

use facts::kernel::{LogEvent, LogLine};

use super::interval::{ACPI_PM_HZ, Interval};
use crate::case::{Case, log_evidence};

/// A cause, with the figures that show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cause {
    /// No `constant_tsc` on several CPUs: assumed to disagree.
    NotSynchronised,
    /// One CPU was seen behind another.
    Warp,
    /// It stops when the CPU idles deeply.
    Halts,
    /// It follows the CPU's frequency.
    FollowsFrequency,
    /// No frequency could be found for it.
    NotCalibrated,
    /// KVM saw it smaller after a suspend of this host.
    HostBackward,
    /// It was smaller than half a second before.
    Backward,
    /// The reference counts timer ticks, which come late or not at all.
    TickReference,
    /// The reference's counter wrapped this many times.
    ReferenceWrapped { times: f64, wrap_ns: f64 },
    /// The difference is a power of two of nanoseconds.
    Overflow { power: u32 },
    /// It gained seconds at once, or the reference lost them.
    JumpedAhead,
    /// It stopped, or was set back, while the reference advanced.
    Stopped,
    /// One of the two reads was late: a busy host, an SMI.
    ReadLate,
    /// It runs at another rate than the kernel assumes.
    WrongRate { ppm: f64 },
    /// As small as a wrong rate would make it, but after this long without.
    WrongOnce { ppm: f64, after_s: f64 },
    /// The log does not show it.
    NotLogged,
}

/// The range of the ACPI PM timer's 24 bits.
const ACPI_PM_WRAP_NS: f64 = 16_777_216.0 / ACPI_PM_HZ * 1e9;

/// A difference this close to a wrap is one: twice the watchdog's tolerance.
const WRAP_TOLERANCE_NS: f64 = 125e6;

/// A difference this close to a power of two of nanoseconds is no accident.
const OVERFLOW_TOLERANCE: f64 = 1e-5;

/// No quartz and no calibration is wrong by more: beyond it, something happened
/// in the interval. The worst known calibration was 2.3 % off.
const RATE_LIMIT_PPM: f64 = 30_000.0;

/// The first checks find a rate that is wrong from the start.
const SETTLED_S: f64 = 60.0;

/// Twice the watchdog's interval when it is on time, 0.5 s.
const LATE_NS: f64 = 1e9;

impl Cause {
    /// The cause of the verdict in line `at`.
    pub(super) fn of(
        case: &Case<'_>,
        log: &[LogLine],
        at: usize,
        because: &str,
        interval: Option<&Interval>,
    ) -> Self {
        if let Some(cause) = Self::by_message(because) {
            return cause;
        }
        if let Some(interval) = interval {
            return Self::by_figures(case, log, at, interval);
        }
        // "hpet read-back delay of 215423ns, attempt 4, marking unstable"
        if delays_before(log, at).any(|line| line.text.contains("unstable")) {
            Self::ReadLate
        } else {
            Self::NotLogged
        }
    }

    /// By the kernel's message: arch/x86/kernel/tsc.c, tsc_sync.c, process.c,
    /// arch/x86/kvm/x86.c, drivers/acpi/processor_idle.c,
    /// drivers/idle/intel_idle.c.
    fn by_message(because: &str) -> Option<Self> {
        const MESSAGES: [(&str, Cause); 8] = [
            ("TSCs unsynchronized", Cause::NotSynchronised),
            ("check_tsc_sync_source failed", Cause::Warp),
            ("inter CPU skew", Cause::Warp),
            ("TSC halt", Cause::Halts),
            ("cpufreq changes", Cause::FollowsFrequency),
            ("could not calculate TSC", Cause::NotCalibrated),
            ("backwards TSC", Cause::HostBackward),
            ("UV BIOS", Cause::NotSynchronised),
        ];
        MESSAGES.into_iter().find(|(part, _)| because.contains(part)).map(|(_, cause)| cause)
    }

    fn by_figures(case: &Case<'_>, log: &[LogLine], at: usize, interval: &Interval) -> Self {
        let Interval { skew_ns, watchdog_ns, .. } = *interval;
        if interval.backward_cycles.is_some() {
            return Self::Backward;
        }
        if interval.watchdog.as_deref().is_some_and(|name| name.contains("jiffies")) {
            return Self::TickReference;
        }
        if let Some(wrapped) = Self::wrapped(case, interval) {
            return wrapped;
        }
        let power = skew_ns.abs().log2().round();
        let exact = power.exp2();
        if power >= 32.0 && (skew_ns.abs() - exact).abs() < exact * OVERFLOW_TOLERANCE {
            return Self::Overflow { power: power as u32 };
        }
        let delayed = delays_before(log, at).next().is_some();
        match (watchdog_ns, interval.ppm()) {
            // The TSC lost most of the interval: it stopped, or was reset.
            (Some(ns), _) if skew_ns < -0.4 * ns => Self::Stopped,
            (Some(ns), _) if skew_ns > 0.4 * ns => Self::JumpedAhead,
            (Some(ns), _) if ns > LATE_NS || delayed => Self::ReadLate,
            (Some(_), Some(ppm)) if ppm.abs() > RATE_LIMIT_PPM => Self::ReadLate,
            (Some(_), Some(ppm)) => match log[at].at_s.filter(|at_s| *at_s > SETTLED_S) {
                Some(after_s) => Self::WrongOnce { ppm, after_s },
                None => Self::WrongRate { ppm },
            },
            // Without the interval, its usual half second.
            _ if skew_ns < -0.4e9 => Self::Stopped,
            _ if skew_ns > 0.4e9 => Self::JumpedAhead,
            _ => Self::ReadLate,
        }
    }

    /// The watchdog counted too little by whole wraps of its counter.
    fn wrapped(case: &Case<'_>, interval: &Interval) -> Option<Self> {
        let short_counter = match interval.watchdog.as_deref() {
            Some("acpi_pm") => true,
            Some(_) => false,
            None => case.offers("acpi_pm") && !case.offers("hpet"),
        };
        let wrap_ns = interval.wrap_ns.or(short_counter.then_some(ACPI_PM_WRAP_NS))?;
        let times = (interval.skew_ns / wrap_ns).round();
        let rest_ns = (interval.skew_ns - times * wrap_ns).abs();
        (times >= 1.0 && rest_ns < WRAP_TOLERANCE_NS)
            .then_some(Self::ReferenceWrapped { times, wrap_ns })
    }

    /// Other lines of the log that concern it.
    pub(super) fn context(&self, case: &Case<'_>, log: &[LogLine], at: usize) -> Vec<String> {
        let last_before = |wanted: fn(&LogEvent) -> bool| {
            log[..at].iter().rev().find(|line| wanted(&line.event)).map(log_evidence)
        };
        let pause = last_before(|event| matches!(event, LogEvent::Restored | LogEvent::Resumed));
        match self {
            Self::Backward | Self::Stopped | Self::JumpedAhead => pause.into_iter().collect(),
            Self::ReadLate => delays_before(log, at).take(2).map(log_evidence).collect(),
            Self::Warp | Self::NotCalibrated => {
                let faults = log.iter().filter(|line| line.event == LogEvent::TscFault);
                faults.take(2).map(log_evidence).collect()
            }
            Self::NotSynchronised | Self::Halts | Self::FollowsFrequency => {
                case.flags().map(flags_line).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Late reads that the watchdog logged in the ten minutes before line `at`.
fn delays_before(log: &[LogLine], at: usize) -> impl Iterator<Item = &LogLine> {
    const NEAR_S: f64 = 600.0;
    let when_s = log[at].at_s;
    log[..at].iter().rev().filter(move |line| {
        let near = line.at_s.zip(when_s).is_none_or(|(one, other)| other - one < NEAR_S);
        near && matches!(line.event, LogEvent::WatchdogDelayed { .. })
    })
}

fn flags_line(flags: &facts::cpu::TscFlags) -> String {
    let yes_no = |has: bool| if has { "yes" } else { "no" };
    format!(
        "CPU flags: constant_tsc {}, nonstop_tsc {}",
        yes_no(flags.constant_tsc),
        yes_no(flags.nonstop_tsc)
    )
}
