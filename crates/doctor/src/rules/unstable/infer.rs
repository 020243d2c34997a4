//! The cause of a verdict, from its message, its counters and its skew, in this order.

use facts::kernel::{LogEvent, LogLine};

use super::cause::{UnstableCause, WatchdogForm, delays_before};
use super::interval::WatchdogInterval;
use super::is_test_clock;
use super::skew::{LogContext, cause_of_skew};
use crate::case::Case;

impl UnstableCause {
    /// The cause of the verdict in line `at`.
    pub(super) fn infer(
        case: &Case<'_>,
        log: &[LogLine],
        at: usize,
        because: &str,
        interval: Option<&WatchdogInterval>,
    ) -> Self {
        if is_forced(log, at) {
            return Self::Forced;
        }
        match Self::by_message(because) {
            Some(Self::NotCalibrated) if is_without_acpi(log) => return Self::WithoutAcpi,
            Some(cause) => return cause,
            None => {}
        }
        if let Some(what) = interval.and_then(|interval| interval.damage.clone()) {
            return Self::Damaged { what };
        }
        if let Some(interval) = interval {
            let form = WatchdogForm::infer(because, interval);
            let seen = LogContext::in_log(log, at, form);
            return Self::leapt(interval, log, at)
                .or_else(|| seen.counts_ticks(interval).then_some(Self::TickReference))
                .or_else(|| Self::by_reference(case, interval))
                .or_else(|| cause_of_skew(interval, &seen))
                .unwrap_or(Self::NotLogged);
        }
        // "hpet read-back delay of 215423ns, attempt 4, marking unstable"; a verdict by skew
        // has its figures between such a line and tsc.c's repetition.
        let is_repeated = because.contains("clocksource watchdog");
        let follows = is_repeated
            && at.checked_sub(1).is_some_and(|before| {
                matches!(
                    log[before].event,
                    LogEvent::WatchdogDelayed { .. } | LogEvent::WatchdogSkipped { .. }
                )
            });
        if follows || delays_before(log, at).any(|line| line.text.contains("unstable")) {
            Self::ReadLate
        } else {
            Self::NotLogged
        }
    }
}

/// Whether the kernel was booted without the timers that could have measured the TSC.
fn is_without_acpi(log: &[LogLine]) -> bool {
    log.iter().any(|line| matches!(&line.event, LogEvent::Stated { of, .. } if of == "acpi-off"))
}

/// A test announces what it injects just before, s; clocksource-wdtest.c waits a few seconds.
const FORCED_S: f64 = 60.0;

/// Whether the verdict in line `at` is about a test's own clock source, or follows a test's line.
fn is_forced(log: &[LogLine], at: usize) -> bool {
    let is_tests_own = match &log[at].event {
        LogEvent::MarkedUnstable { clocksource, .. } => is_test_clock(clocksource),
        _ => false,
    };
    is_tests_own
        || log[..at].iter().any(|line| {
            let is_near =
                line.at_s.zip(log[at].at_s).is_none_or(|(then, now)| now - then < FORCED_S);
            is_near && line.event == LogEvent::WatchdogTest
        })
}
