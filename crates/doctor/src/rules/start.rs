//! Where the time of day starts.

use facts::kernel::LogEvent;
use facts::kernel::version::date;
use instruments::figures;

use crate::case::{Case, log_evidence};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome};

/// The date of a build is in the builder's time zone.
const ZONES_S: f64 = 86_400.0;

/// `clock-before-build`
pub(crate) fn check_before_build(case: &Case<'_>) -> Check {
    let &built_day_s = case.built_s()?;
    let &booted_at_s = case.booted_at_s()?;
    let &uptime_s = case.uptime_s()?;
    let built_s = built_day_s as f64;
    let behind_now_s = built_s - ZONES_S - (booted_at_s as f64 + uptime_s);
    let at_boot = case.logged(|event| matches!(event, LogEvent::Rtc { .. })).find_map(|line| {
        let start_s = set_to(&line.text)?;
        Some((line, built_s - ZONES_S - start_s)).filter(|(_, behind_s)| *behind_s > 0.0)
    });
    let (severity, what) = if behind_now_s > 0.0 {
        (
            Severity::Error,
            format!(
                "The clock is at least {} behind: before its kernel was built",
                figures::seconds(behind_now_s)
            ),
        )
    } else if at_boot.is_some() {
        (Severity::Warning, "At boot the clock shows a date before the kernel was built".to_owned())
    } else {
        return Outcome::fine("after the kernel's build, now and at boot");
    };
    let mut finding = Finding::new(severity, what).evidence(format!(
        "kernel built on {}; this boot began on {}",
        date(built_day_s),
        date(booted_at_s)
    ));
    if behind_now_s > 0.0 {
        finding = finding.wrong_now();
    }
    if let Some((line, _)) = at_boot {
        finding = finding.evidence(log_evidence(line));
    }
    finding
        .explain(
            "This machine's RTC is wrong, or was not available when the kernel set the clock. \
             Until a time daemon sets it, certificates are not yet valid and files are from the \
             past; a daemon that authenticates its servers (NTS) may fail for the same reason.",
        )
        .remedy(first(case, behind_now_s > 0.0))
        .remedies(remedies::run_time_daemon(case))
        .alone()
}

/// Where its RTC gets the right time from.
fn first(case: &Case<'_>, is_behind_now: bool) -> Remedy {
    let is_bare = case.is_guest() == Some(false);
    // Whatever confirms this clock is wrong as well.
    if is_bare && is_behind_now {
        return Remedy::advice(
            "Have the clock set first. The RTC is to be written only from a clock that a server \
             confirms; if it forgets the time again, replace its battery.",
        );
    }
    if is_bare {
        let write = Remedy::command(
            "Set the RTC; if it forgets the time again, replace its battery.",
            "sudo hwclock --systohc",
        );
        return remedies::with_witness(case, write.changes("the RTC"));
    }
    Remedy::advice(
        "Give the machine the time at boot, on the host (QEMU: remove -rtc base=DATE; the default \
         is the host's UTC).",
    )
}

/// `… setting system clock to 2020-02-29T12:00:03 UTC (1582977603)`
fn set_to(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("setting system clock to ")?;
    let (_, seconds) = rest.rsplit_once('(')?;
    seconds.trim_end().strip_suffix(')')?.parse::<i64>().ok().map(|s| s as f64)
}

#[cfg(test)]
mod tests;
