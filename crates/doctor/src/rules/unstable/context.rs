//! Other lines of the log that concern a cause.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::cause::{UnstableCause, delays_before};
use super::interval::old_delta_ns;
use super::rate;
use crate::case::{Case, log_evidence};

/// A timer interrupt that took so long held up the watchdog, ns.
const STALL_NS: u64 = 100_000_000;

impl UnstableCause {
    /// Other lines of the log that concern it.
    pub(super) fn context(&self, case: &Case<'_>, log: &[LogLine], at: usize) -> Vec<String> {
        let last_before = |wanted: fn(&LogEvent) -> bool| {
            log[..at].iter().rev().find(|line| wanted(&line.event)).map(log_evidence)
        };
        let pause = last_before(|event| matches!(event, LogEvent::Restored | LogEvent::Resumed));
        match self {
            Self::Backward { .. } | Self::Stopped { .. } | Self::JumpedAhead { .. } => {
                pause.into_iter().collect()
            }
            Self::ReadLate | Self::Forced => {
                let longest = delays_before(log, at).filter_map(|line| match line.event {
                    LogEvent::WatchdogDelayed { delay_ns } => delay_ns,
                    _ => None,
                });
                let longest = longest
                    .max()
                    .map(|ns| format!("longest delay of a read: {}", figures::time(ns as f64)));
                delays_before(log, at).take(2).map(log_evidence).chain(longest).collect()
            }
            Self::Warp | Self::NotCalibrated | Self::WithoutAcpi => {
                let faults = log.iter().filter(|line| line.event == LogEvent::TscFault);
                let warp = faults.clone().find_map(|line| warp_in_time(case, &line.text));
                faults.take(2).map(log_evidence).chain(warp).collect()
            }
            Self::RateUnknown { .. } | Self::Unexplained { .. } | Self::NotLogged => last_before(
                |event| matches!(event, LogEvent::HrtimerLate { took_ns } if *took_ns >= STALL_NS),
            )
            .map(|line| format!("{line}: the machine stalled, so the check or a read was late"))
            .into_iter()
            .collect(),
            Self::TickReference => lost_tick_signs(log).map(log_evidence).collect(),
            Self::PageLeapt { .. } => {
                last_before(|event| *event == LogEvent::CpuAdded).into_iter().collect()
            }
            Self::NotSynchronised | Self::Halts | Self::FollowsFrequency => {
                let later = log[at + 1..].iter().find_map(old_delta_ns).map(|ns| {
                    let by = figures::signed(ns, figures::time);
                    format!("TSC minus its reference in a later check: {by}")
                });
                case.flags().map(flags_line).into_iter().chain(later).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// What shows that ticks were lost beside the verdict: one line of each kind.
pub(crate) fn lost_tick_signs(log: &[LogLine]) -> impl Iterator<Item = &LogLine> {
    const KINDS: [fn(&LogEvent) -> bool; 3] = [
        |event| matches!(event, LogEvent::TicksLost { .. }),
        |event| matches!(event, LogEvent::RtcNotSet { .. }),
        |event| *event == LogEvent::TimerNotConnected,
    ];
    KINDS.iter().filter_map(|is_kind| log.iter().find(|line| is_kind(&line.event)))
}

/// `Measured 1234 cycles TSC warp between CPUs` in time, where the TSC's rate is known.
fn warp_in_time(case: &Case<'_>, text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Measured ")?;
    let cycles: u64 = rest.split_once(" cycles TSC warp")?.0.trim().parse().ok()?;
    let Some(rate) = rate::tsc(case) else {
        let cycles = figures::count(cycles);
        return Some(format!("TSC warp: {cycles} cycles; the TSC's rate is not in the log"));
    };
    Some(format!(
        "TSC warp: {} cycles at {} are {}",
        figures::count(cycles),
        rate.in_words(),
        figures::time(cycles as f64 / rate.hz * 1e9)
    ))
}

fn flags_line(flags: &facts::cpu::TscFlags) -> String {
    let yes_no = |has: bool| if has { "yes" } else { "no" };
    format!(
        "CPU flags: constant_tsc {}, nonstop_tsc {}",
        yes_no(flags.constant_tsc),
        yes_no(flags.nonstop_tsc)
    )
}
