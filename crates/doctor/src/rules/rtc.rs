//! The battery-backed clock: what the next boot starts from.

use facts::hardware::RtcConvention;
use facts::steering::Adjtimex;

use crate::case::{Case, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// `rtc-local-time`
pub(crate) fn local_time(case: &Case<'_>) -> Check {
    no_rtc(case)?;
    match case.facts.rtc.convention.known() {
        None => Err(why_not(&case.facts.rtc.convention)),
        Some(RtcConvention::Utc) => Outcome::fine("the RTC holds UTC"),
        Some(RtcConvention::Local) => {
            Finding::new(Severity::Warning, "The RTC is kept in local time")
                .evidence("/etc/adjtime, line 3: LOCAL")
                .why(
                    "Until user space corrects it, each boot starts hours off; twice a year \
                     nobody knows whether the hour was already changed. A hypervisor that gives \
                     the guest an RTC in UTC makes it wrong all year.",
                )
                .remedy(
                    Remedy::command("Keep it in UTC.", "sudo timedatectl set-local-rtc 0").changes(
                        "rewrites the RTC and /etc/adjtime; another system that shares \
                                  the RTC must be told too",
                    ),
                )
                .alone()
        }
    }
}

/// `rtc-off`
pub(crate) fn off(case: &Case<'_>) -> Check {
    no_rtc(case)?;
    let Some(&minus_system_s) = case.facts.rtc.minus_system_s.known() else {
        return Err(why_not(&case.facts.rtc.minus_system_s));
    };
    let local = case.facts.rtc.convention.known() == Some(&RtcConvention::Local);
    // It resolves 1 s; a minute is beyond any drift of one day.
    const FAR_S: u64 = 60;
    let off_s = minus_system_s.unsigned_abs();
    if off_s < FAR_S {
        return Outcome::fine(format!("the RTC is {minus_system_s:+} s from the system's clock"));
    }
    let by_zone = whole_quarter_hours(off_s);
    if local && by_zone {
        return Outcome::fine("the RTC differs by a time zone, as its convention says");
    }
    let direction = if minus_system_s > 0 { "ahead of" } else { "behind" };
    let shown = text::duration_s(off_s as f64);
    let finding = Finding::new(
        Severity::Warning,
        format!("The RTC is {shown} {direction} the system's clock"),
    )
    .evidence(format!("RTC minus system time: {minus_system_s:+} s (resolution 1 s)"));
    let unsteered =
        case.facts.steering.adjtimex.is_known_and(|state| state.has(Adjtimex::STA_UNSYNC));
    let why = if by_zone {
        "That is a whole number of quarter hours, so the RTC likely holds local time while the \
         system takes it for UTC: each boot starts off by as much."
    } else if case.is_guest() == Some(true) && unsteered {
        "A guest's RTC follows the host's clock, which is mostly steered. Nobody steers the \
         system's clock here, so that is likely the one that is wrong: after a pause or a \
         restored snapshot, say."
    } else {
        "The next boot starts from the RTC, and is wrong by that much until the time daemon has \
         found its servers; certificates may fail until then."
    };
    let finding = finding.why(why);
    match case.is_guest() == Some(true) && unsteered && !by_zone {
        true => finding.remedy(
            Remedy::command(
                "If the RTC is right, set the clock from it.",
                "sudo hwclock --hctosys",
            )
            .changes("steps the system's clock now"),
        ),
        false => finding.remedy(
            Remedy::command(
                "If the system's clock is right, set the RTC from it.",
                "sudo hwclock --systohc --utc",
            )
            .changes("writes the RTC; a steered kernel keeps it right from then on"),
        ),
    }
    .alone()
}

/// Time zones differ by quarters of an hour; the RTC resolves a second and is
/// allowed a few of drift.
fn whole_quarter_hours(off_s: u64) -> bool {
    const QUARTER_S: u64 = 900;
    const SLACK_S: u64 = 10;
    let rest_s = off_s % QUARTER_S;
    (QUARTER_S..=14 * 3600 + SLACK_S).contains(&(off_s + SLACK_S))
        && (rest_s <= SLACK_S || rest_s >= QUARTER_S - SLACK_S)
}

/// `rtc-missing`
pub(crate) fn missing(case: &Case<'_>) -> Check {
    use facts::Unknown;
    let devices = &case.facts.rtc.devices;
    let none = match (devices.known(), devices.unknown()) {
        (Some(devices), _) => devices.is_empty(),
        (None, Some(Unknown::NotThere { .. })) => true,
        _ => return Err(why_not(devices)),
    };
    if !none {
        let names: Vec<_> =
            devices.known().into_iter().flatten().map(|rtc| rtc.name.as_str()).collect();
        return Outcome::fine(text::list(&names));
    }
    // arch/x86/kernel/kvmclock.c sets get_wallclock whenever the page is set
    // up, whichever source is in use.
    if case.offers("kvm-clock") {
        return Outcome::fine("none, and none is needed: kvm-clock gives the time of day at boot");
    }
    match case.is_guest() {
        Some(false) => {}
        Some(true) => return Outcome::fine("none: the hypervisor gives the time of day at boot"),
        None => return Err(Skipped::CouldNot("none seen; a guest may do without".to_owned())),
    }
    Finding::new(Severity::Note, "This machine has no battery-backed clock")
        .evidence("no device below /sys/class/rtc")
        .why("Each boot starts at a made-up time until a time daemon has found its servers.")
        .remedy(Remedy::advice(
            "Have a time daemon that steps at start (chrony: makestep 1 3), or add an RTC.",
        ))
        .alone()
}

/// Rules about an RTC's time do not apply where there is none.
fn no_rtc(case: &Case<'_>) -> Result<(), Skipped> {
    use facts::Unknown;
    let devices = &case.facts.rtc.devices;
    let none = devices.known().is_some_and(Vec::is_empty)
        || matches!(devices.unknown(), Some(Unknown::NotThere { .. }));
    match none {
        true => Err(Skipped::DoesNotApply("does not apply: there is no RTC".to_owned())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
