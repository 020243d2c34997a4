//! The state of the discipline: frequency, offset, error bound.

use facts::steering::chrony_config::{DEFAULT_MAX_SLEW_RATE_PPM, MakeStep};
use facts::steering::{Adjtimex, TimeKeeperKind};
use instruments::figures;

use crate::case::{Case, adjtimex_evidence};
use crate::finding::{Finding, Remedy, Severity, TimeNow, TimeState};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped, perhaps};
use crate::{fault, headline};

/// The largest correction of the kernel, and so of ntpd and timesyncd
/// (include/linux/timex.h, MAXFREQ).
const KERNEL_LIMIT_PPM: f64 = 500.0;

/// So close to the limit, the daemon cannot follow a change.
const AT_LIMIT_PPM: f64 = 490.0;

/// The ends of the tick's range, 9000 and 11000 µs, and what is close to them: no clock
/// needs that, ppm.
const LEFT_TICK_PPM: f64 = 90_000.0;

/// A quartz is good to 100 ppm; more is a wrong frequency, not a bad quartz.
const SUSPECT_PPM: f64 = 200.0;

/// chronyd takes a second for a slew at least (MIN_SLEW_DURATION, sys_generic.c): of all but
/// its last hundredth so much is left, s.
const SLEW_LEFT_S: f64 = 0.01;

/// `frequency-correction`
pub(crate) fn check_frequency(case: &Case<'_>) -> Check {
    let state = match adjtimex(case, &["frequency"]) {
        Err(why @ Skipped::Absent(_)) => return frequency_by_chronyd_alone(case, why),
        Err(why) => return Err(why),
        Ok(state) => state,
    };
    let chrony_runs = !case.running(&[TimeKeeperKind::Chrony]).is_empty();
    // chrony exceeds the kernel's limit by the length of the tick: one
    // microsecond more in 10 000 is 100 ppm.
    let is_at_limit = state.frequency_ppm.abs() >= AT_LIMIT_PPM && !chrony_runs;
    let (by_tick_ppm, tick) = if is_at_limit && !state.gives("tick") {
        (0.0, String::new())
    } else {
        let tick_us = case.adjtimex_of(&["tick"])?.tick_us;
        ((tick_us - 10_000) as f64 * 100.0, format!(", tick {tick_us} µs"))
    };
    let kernels_ppm = state.frequency_ppm + by_tick_ppm;
    let chronyds_ppm = frequency_by_chronyd(case, kernels_ppm);
    let correction_ppm = chronyds_ppm.unwrap_or(kernels_ppm);
    if correction_ppm.abs() < SUSPECT_PPM {
        let slew_ppm = kernels_ppm - correction_ppm;
        let slewing = if slew_ppm.abs() < SUSPECT_PPM {
            String::new()
        } else {
            format!(", and chronyd slews by {}", figures::ppm(slew_ppm))
        };
        return Outcome::fine(format!("{}{slewing}; limit ±500 ppm", figures::ppm(correction_ppm)));
    }
    // chronyd's slew looks the same.
    perhaps(case.tracking())?;
    let chrony = chrony_runs || by_tick_ppm != 0.0;
    let error = correction_ppm.abs() >= if chrony { 2.0 * KERNEL_LIMIT_PPM } else { AT_LIMIT_PPM };
    let severity = if error { Severity::Error } else { Severity::Warning };
    let finding = needs_correction(severity, correction_ppm)
        .evidence(format!("adjtimex: frequency {}{tick}", figures::ppm(state.frequency_ppm)))
        .explain(why_corrected(correction_ppm, error && !chrony));
    let to_correct = |ppm| format!("chronyc tracking: {} to correct", figures::ppm(ppm));
    let finding = finding
        .evidence_from(chronyds_ppm.map(to_correct))
        .evidence_from(case.current().ok().map(|name| format!("current_clocksource: {name}")));
    // Left by a daemon that has ended: chronyd sets it back when it stops in order.
    if by_tick_ppm.abs() >= LEFT_TICK_PPM && state.frequency_ppm.abs() < KERNEL_LIMIT_PPM {
        return finding
            .remedy(
                Remedy::command("Set the tick to its normal length.", "sudo adjtimex --tick 10000")
                    .changes("the clock's rate, at once; a running time daemon then adjusts it"),
            )
            .remedy(Remedy::command(
                "Restart the time daemon, if one set the tick.",
                "sudo systemctl restart chronyd",
            ))
            .alone();
    }
    finding
        .remedy(Remedy::advice(
            "Reboot: the kernel then calibrates the TSC again. See the other findings about the \
             TSC's frequency.",
        ))
        .alone()
}

fn needs_correction(severity: Severity, ppm: f64) -> Finding {
    let pace = if ppm > 0.0 { "slow" } else { "fast" };
    let size = figures::ppm(ppm);
    Finding::new(severity, format!("The clock needs a correction of {size}: it runs too {pace}"))
}

/// What chronyd corrects, where a capture lacks the kernel's state.
fn frequency_by_chronyd_alone(case: &Case<'_>, why: Skipped) -> Check {
    let Some(tracking) = case.tracking().ok().filter(|tracking| tracking.stratum > 0) else {
        return Err(why);
    };
    let ppm = 0.0 - tracking.frequency_ppm;
    if ppm.abs() < SUSPECT_PPM {
        return Outcome::fine(format!("{} by chronyd", figures::ppm(ppm)));
    }
    needs_correction(Severity::Error, ppm)
        .evidence(format!("chronyc tracking: {} to correct", figures::ppm(ppm)))
        .explain(format!(
            "{} In a virtual machine all its clocks come from the host. {}",
            why_corrected(ppm, false),
            fault::hardware(case.is_guest())
        ))
        .remedy(Remedy::advice(
            "Reboot: the kernel then calibrates the clock source again. If the same rate returns, \
         report it to the host's operator.",
        ))
        .alone()
}

/// What the clock needs by chronyd, ppm, where it knows and the rest of what the kernel does
/// is its slew. It slews by the kernel's frequency and tick as well, and counts apart what of
/// them is the clock's (sys_generic.c, update_slew); its sign is the other one (sys_linux.c,
/// set_frequency).
fn frequency_by_chronyd(case: &Case<'_>, kernels_ppm: f64) -> Option<f64> {
    let runs = !case.running(&[TimeKeeperKind::Chrony]).is_empty();
    let tracking = case.tracking().ok()?;
    let own_ppm = 0.0 - tracking.frequency_ppm;
    let slew_ppm = kernels_ppm - own_ppm;
    // A slew has an end, which something is left to until then, on the same side.
    let left_s = tracking.system_offset_s * slew_ppm.signum();
    let explains = slew_ppm.abs() < SUSPECT_PPM || left_s >= slew_ppm.abs() * 1e-6 * SLEW_LEFT_S;
    (runs && tracking.stratum > 0 && explains).then_some(own_ppm)
}

fn why_corrected(ppm: f64, is_at_kernels_limit: bool) -> String {
    if is_at_kernels_limit {
        return "The kernel can correct 500 ppm. At that limit the clock drifts in spite of the \
                daemon, which steps it repeatedly."
            .to_owned();
    }
    format!(
        "A quartz is off by less than 100 ppm. A correction this large means that the kernel \
         assumes a wrong frequency for the clock source; uncorrected, the clock drifts by {} a \
         day.",
        figures::seconds(ppm.abs() * 0.0864)
    )
}

/// `clock-offset`
pub(crate) fn check_offset(case: &Case<'_>) -> Check {
    const LARGE_S: f64 = 0.1;
    const WRONG_S: f64 = 1.0;
    let to_correct = |(who, offset_s): (_, f64)| {
        let left = figures::seconds(offset_s.abs());
        (vec![format!("{who}: {left} still to be corrected")], offset_s, None)
    };
    let (evidence, offset_s, bound_s) = match headline::by_references(case) {
        Ok(TimeNow { state: TimeState::NotKnown, by, .. }) => {
            // A reference that cannot tell hides nothing that the daemon reports.
            let reported = reported_offset(case).ok().filter(|(_, off_s)| off_s.abs() >= LARGE_S);
            to_correct(reported.ok_or(Skipped::CouldNot(by))?)
        }
        Ok(TimeNow { offset_s, bound_s, .. }) => {
            let evidence = case.references().into_iter().map(headline::reference_evidence);
            (evidence.collect(), offset_s.unwrap_or_default(), bound_s)
        }
        Err(_) => to_correct(reported_offset(case)?),
    };
    let magnitude = figures::seconds(offset_s.abs());
    if offset_s.abs() - bound_s.unwrap_or_default() < LARGE_S {
        return Outcome::fine(evidence.join("; "));
    }
    let chrony = !case.running(&[TimeKeeperKind::Chrony]).is_empty();
    let wrong = offset_s.abs() >= WRONG_S;
    let finding = Finding::new(
        if wrong { Severity::Error } else { Severity::Warning },
        format!("The clock is {magnitude} {}", if offset_s > 0.0 { "behind" } else { "ahead" }),
    )
    .wrong_now()
    .evidence_from(evidence)
    .explain(format!(
        "{} Until then timestamps of this machine cannot be compared with those of others. \
         CockroachDB shuts itself down at 400 ms, 80 % of its default limit.",
        slewing(case, offset_s.abs())
    ));
    let finding = if chrony {
        let now = Remedy::command("Step it now.", "sudo chronyc makestep")
            .changes("the time of day, at once; programs see the clock jump");
        let config = case.chrony_config();
        let may_step = config.and_then(|config| config.makestep);
        if may_step.is_some_and(MakeStep::at_any_time) || config.is_none() {
            finding.remedy(now)
        } else {
            let line = may_step.map_or("no makestep line".to_owned(), |step| step.to_string());
            finding
                .evidence(format!("chrony's configuration: {line}"))
                .remedy(remedies::makestep(case))
                .remedy(now)
        }
    } else if case.is_unkept() {
        finding.remedies(remedies::run_time_daemon(case))
    } else {
        finding
            .remedy(Remedy::advice("Restart the time daemon: it steps a large offset at startup."))
    };
    let unbind = remedies::unbind_hyperv_sync(case);
    finding.remedies(unbind.or_else(|| remedies::read_by_cockroachdb(case))).alone()
}

/// The offset that the daemon reports, and where.
fn reported_offset(case: &Case<'_>) -> Result<(&'static str, f64), Skipped> {
    case.keepers()?;
    let tracking = case.tracking();
    // Opposite signs: the correction still to come, and the offset last measured.
    if let Some(tracking) = tracking.as_ref().ok().filter(|tracking| tracking.stratum > 0) {
        return Ok(("chronyc tracking", tracking.system_offset_s));
    }
    let state = adjtimex(case, &["status", "offset"])?;
    match tracking {
        _ if state.has(Adjtimex::STA_UNSYNC) => {
            Err(Skipped::CouldNot("unknown while no daemon disciplines the clock".to_owned()))
        }
        Err(why) if !case.running(&[TimeKeeperKind::Chrony]).is_empty() => {
            Err(Skipped::CouldNot(format!("chronyd alone knows the offset: {why}")))
        }
        _ => Ok(("adjtimex", state.offset_ns as f64 / 1e9)),
    }
}

/// What the daemon does about an offset, and how long that takes.
fn slewing(case: &Case<'_>, offset_s: f64) -> String {
    let takes = |ppm: f64| figures::seconds(offset_s / (ppm * 1e-6));
    let runs = |kind| !case.running(&[kind]).is_empty();
    if runs(TimeKeeperKind::Chrony) {
        let makestep = case.chrony_config().and_then(|config| config.makestep);
        if let Some(step) =
            makestep.filter(|step| step.at_any_time() && offset_s > step.threshold_s)
        {
            return format!("chronyd will step it at its next update ({step}).");
        }
        let configured = case.chrony_config().and_then(|config| config.max_slew_rate_ppm);
        let ppm = configured.filter(|ppm| *ppm > 0.0).unwrap_or(DEFAULT_MAX_SLEW_RATE_PPM);
        return format!(
            "chronyd slews it, by at most {} ({}): this takes at least {}.",
            figures::ppm(ppm).trim_start_matches('+'),
            if configured.is_some() { "maxslewrate" } else { "its default maxslewrate" },
            takes(ppm)
        );
    }
    if case.is_unkept() {
        return "No program here corrects it.".to_owned();
    }
    // The kernel slews no faster for a program that uses adjtime or the PLL.
    let slow = format!(
        "at the kernel's limit of {KERNEL_LIMIT_PPM} ppm this takes {}.",
        takes(KERNEL_LIMIT_PPM)
    );
    if runs(TimeKeeperKind::Ntpd) && offset_s > 0.128 {
        "ntpd steps an offset above 128 ms after it has lasted for five minutes.".to_owned()
    } else if runs(TimeKeeperKind::SystemdTimesyncd) && offset_s > 0.4 {
        "systemd-timesyncd steps an offset above 0.4 s at its next poll.".to_owned()
    } else {
        format!("The daemon slews it: {slow}")
    }
}

/// `error-bound`
pub(crate) fn check_error_bound(case: &Case<'_>) -> Check {
    let state = adjtimex(case, &["status", "maxerror"])?;
    if state.has(Adjtimex::STA_UNSYNC) {
        return Err(Skipped::CouldNot("unknown while no daemon disciplines the clock".to_owned()));
    }
    let bound_s = state.max_error_us as f64 / 1e6;
    // systemd-timesyncd polls every 34 minutes at the longest: 1.02 s.
    const GROWN_S: f64 = 2.5;
    if bound_s < GROWN_S {
        return Outcome::fine(format!("error bound {}", figures::seconds(bound_s)));
    }
    let age_s = bound_s / 500e-6;
    Finding::new(
        Severity::Warning,
        format!("The clock was last corrected about {} ago", figures::seconds(age_s)),
    )
    .evidence(adjtimex_evidence(state))
    .explain(
        "The kernel's error bound grows by 500 ppm between corrections. At 16 s the kernel marks \
         its clock unsynchronised.",
    )
    .remedy(
        Remedy::command("Check whether the time daemon still reaches its servers.", "timedatectl")
            .changes(remedies::READ_ONLY),
    )
    .alone()
}

fn adjtimex<'a>(case: &Case<'a>, fields: &[&str]) -> Result<&'a Adjtimex, Skipped> {
    let state = case.adjtimex_of(fields)?;
    // The limits of kernel/time/ntp.c and timekeeping.c, and a little more.
    let possible = state.frequency_ppm.abs() <= KERNEL_LIMIT_PPM + 1.0
        && (!state.gives("tick") || (9_000..=11_000).contains(&state.tick_us));
    if possible {
        return Ok(state);
    }
    Err(Skipped::CouldNot(format!(
        "impossible values: frequency {}, tick {} µs",
        figures::ppm(state.frequency_ppm),
        state.tick_us
    )))
}

#[cfg(test)]
mod tests;
