//! The RTC (battery-backed clock): the time of day that a boot starts from.

use facts::hardware::{RtcConvention, RtcDevice};
use facts::steering::Adjtimex;

use crate::case::{Case, FAR_S, adjtimex_evidence, whole_quarter_hours};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// `rtc-local-time`
pub(crate) fn check_local_time(case: &Case<'_>) -> Check {
    needs_rtc(case)?;
    match case.rtc_convention()? {
        RtcConvention::Utc => Outcome::fine("the RTC holds UTC"),
        RtcConvention::Local if case.rtc_minus_system_s().is_ok_and(|s| s.unsigned_abs() < FAR_S.unsigned_abs()) => {
            Finding::new(
                Severity::Warning,
                "/etc/adjtime states that the RTC holds local time, and the RTC holds UTC",
            )
            .evidence("/etc/adjtime, line 3: LOCAL")
            .evidence("RTC minus system clock, both read as UTC: under a minute")
            .explain(
                "Whatever sets the clock from the RTC by that line (hwclock --hctosys at boot, a \
                 cloud's agent after a migration) sets it off by the time zone, unless that is UTC.",
            )
            .remedy(
                Remedy::command("Set that line right.", "sudo sed -i '3s/LOCAL/UTC/' /etc/adjtime")
                    .changes("that line; the RTC stays as it is"),
            )
            .alone()
        }
        RtcConvention::Local => Finding::new(Severity::Warning, "The RTC holds local time")
            .evidence("/etc/adjtime, line 3: LOCAL")
            .explain(
                "Until user space corrects it, each boot starts hours off; at a change to or from \
                 summer time the hour is ambiguous. A hypervisor that emulates the RTC in UTC \
                 makes it wrong all year.",
            )
            .remedy(remedies::with_witness(
                case,
                Remedy::command("Set it to UTC.", "sudo timedatectl set-local-rtc 0").changes(
                    "the RTC and /etc/adjtime; change any other system on this machine too",
                ),
            ))
            .alone(),
    }
}

/// `rtc-off`
pub(crate) fn check_off(case: &Case<'_>) -> Check {
    needs_rtc(case)?;
    let &minus_system_s = case.rtc_minus_system_s()?;
    let local = case.rtc_convention() == Ok(&RtcConvention::Local);
    let off_s = minus_system_s.unsigned_abs();
    if off_s < FAR_S.unsigned_abs() {
        let proves = if case.is_flagged_unsynchronised() {
            ", which proves nothing: the kernel counts the clock as not synchronised"
        } else {
            ""
        };
        return Outcome::fine(format!(
            "the RTC minus the system clock: {minus_system_s:+} s{proves}"
        ));
    }
    let by_zone = whole_quarter_hours(off_s);
    if local && by_zone {
        return Outcome::fine("the RTC differs by the time zone, because it holds local time");
    }
    let evidence = format!("RTC minus system clock: {minus_system_s:+} s (resolution 1 s)");
    if let Some(behind) = case.behind_rtc() {
        return behind_host(case, &behind).evidence(evidence).alone();
    }
    let differs = case.rtc_differs().unwrap_or_default().replace("the RTC", "The RTC");
    let finding = Finding::new(Severity::Warning, differs).evidence(evidence).explain(if by_zone {
        "The difference is a whole number of quarter hours: the RTC probably holds local \
                 time while the system reads it as UTC, so each boot starts off by that much."
    } else if case.is_confirmed() {
        "chronyd's sources confirm the system clock. The next boot starts from the RTC, so \
                 the clock is then wrong by that much until the time daemon reaches its servers."
    } else {
        "One of the two is wrong; nothing here shows which. The next boot starts from the \
                 RTC."
    });
    let write =
        Remedy::command("Set the RTC from the system clock.", "sudo hwclock --systohc --utc")
            .changes("the RTC; a kernel with a synchronised clock keeps it right from then on");
    finding.remedy(remedies::with_witness(case, write)).alone()
}

/// A paused guest.
fn behind_host(case: &Case<'_>, behind: &str) -> Finding {
    let since = case.adjtimex().ok().filter(|state| !state.has(Adjtimex::STA_UNSYNC));
    Finding::new(
        Severity::Warning,
        format!("This clock is probably {behind} behind: the guest's RTC, which follows its host, is ahead"),
    )
    .wrong_now()
    .evidence_from(since.map(|state| {
        format!("{}: the flag is from before the pause", adjtimex_evidence(state))
    }))
    .explain(
        "The RTC of a guest counts on while the guest is paused or its host sleeps; the system \
         clock and the kernel's flag of a synchronised clock do not notice. The RTC itself must not \
         be set from this clock.",
    )
    .remedy(remedies::compare())
    .remedy(
        Remedy::command("Set the clock from the RTC if the RTC is right.", "sudo hwclock --hctosys")
            .changes("the system clock, which steps now")
            .then(),
    )
}

/// `rtc-missing`
pub(crate) fn check_missing(case: &Case<'_>) -> Check {
    let devices = devices(case)?;
    if !devices.is_empty() {
        let names: Vec<_> = devices.iter().map(|rtc| rtc.name.as_str()).collect();
        return Outcome::fine(text::list(&names));
    }
    // arch/x86/kernel/kvmclock.c sets get_wallclock whenever the page is set
    // up, whichever source is in use.
    if case.offers("kvm-clock") {
        return Outcome::fine("none, and none needed: kvm-clock provides the time of day at boot");
    }
    match case.is_guest() {
        Some(false) => {}
        Some(true) => {
            return Outcome::fine("none: the hypervisor provides the time of day at boot");
        }
        // A board whose /sys lists none, and where nothing shows a hypervisor.
        None if case.rtcs().is_ok()
            && case.is_arm64()
            && matches!(case.hypervisor(), Err(Skipped::DoesNotApply(_))) => {}
        None => return Err(Skipped::CouldNot("none found; a guest may not need one".to_owned())),
    }
    Finding::new(Severity::Note, "This machine has no RTC")
        .evidence("no device in /sys/class/rtc")
        .explain(
            "Each boot starts with an arbitrary time, until a time daemon reaches its servers.",
        )
        .remedy(Remedy::advice(
            "Run a time daemon that steps the clock at startup (chrony: makestep 1 3), or add an \
             RTC.",
        ))
        .alone()
}

/// Rules about an RTC's time do not apply where there is none.
fn needs_rtc(case: &Case<'_>) -> Result<(), Skipped> {
    // A capture may have its time alone.
    if case.rtc_minus_system_s().is_err() && devices(case)?.is_empty() {
        return Err(Skipped::DoesNotApply("does not apply: no RTC".to_owned()));
    }
    Ok(())
}

/// The RTCs; none where the kernel has no class of them.
fn devices<'a>(case: &Case<'a>) -> Result<&'a [RtcDevice], Skipped> {
    match case.rtcs() {
        Err(Skipped::Absent(_)) => Ok(&[]),
        devices => devices,
    }
}

#[cfg(test)]
mod tests;
