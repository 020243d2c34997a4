//! How the steered clock stands: frequency, offset, error bound.

use facts::steering::{Adjtimex, TimeKeeperKind};

use super::steering::status_line;
use crate::case::{Case, why_not};
use crate::finding::{Finding, Remedy, Severity};
use crate::remedies;
use crate::rule::{Check, Outcome, Skipped};
use crate::text;

/// What the kernel, and so ntpd and timesyncd, can correct at most
/// (include/linux/timex.h, MAXFREQ).
const KERNEL_LIMIT_PPM: f64 = 500.0;

/// So close to the limit nothing is left to follow a change with.
const AT_LIMIT_PPM: f64 = 490.0;

/// A quartz is good to 100 ppm; more is a wrong frequency, not a bad quartz.
const SUSPECT_PPM: f64 = 200.0;

/// `frequency-correction`
pub(crate) fn frequency(case: &Case<'_>) -> Check {
    let state = adjtimex(case)?;
    // chrony goes beyond the kernel's limit by the length of the tick: one
    // microsecond more in 10 000 is 100 ppm.
    let by_tick_ppm = (state.tick_us - 10_000) as f64 * 100.0;
    let correction_ppm = state.frequency_ppm + by_tick_ppm;
    if correction_ppm.abs() < SUSPECT_PPM {
        return Outcome::fine(format!("{} of at most ±500 ppm", text::ppm(correction_ppm)));
    }
    let chrony = !case.running(&[TimeKeeperKind::Chrony]).is_empty() || by_tick_ppm != 0.0;
    let error = correction_ppm.abs() >= if chrony { 2.0 * KERNEL_LIMIT_PPM } else { AT_LIMIT_PPM };
    let finding = Finding::new(
        if error { Severity::Error } else { Severity::Warning },
        format!(
            "The clock must be corrected by {}: it runs too {}",
            text::ppm(correction_ppm),
            if correction_ppm > 0.0 { "slow" } else { "fast" }
        ),
    )
    .evidence(format!(
        "adjtimex: frequency {}, tick {} µs",
        text::ppm(state.frequency_ppm),
        state.tick_us
    ))
    .why(match error && !chrony {
        true => "The kernel can correct 500 ppm. At that limit the clock drifts in spite of the \
                 daemon, and is stepped each time it has drifted too far."
            .to_owned(),
        false => format!(
            "A quartz is off by less than 100 ppm. A correction this large means that the clock \
             source's frequency was taken wrongly; unsteered, the clock is off by {} a day.",
            text::duration_s(correction_ppm.abs() * 0.0864)
        ),
    });
    let finding = match case.current() {
        Ok(current) => finding.evidence(format!("current_clocksource: {current}")),
        Err(_) => finding,
    };
    finding
        .remedy(Remedy::advice(
            "Look for the wrong frequency: the findings about the TSC name it if the log shows \
             it; a reboot calibrates anew.",
        ))
        .alone()
}

/// `clock-offset`
pub(crate) fn offset(case: &Case<'_>) -> Check {
    let state = adjtimex(case)?;
    let (who, offset_s) = match case.facts.steering.chrony.known() {
        // The two are of opposite sign: what is still to be corrected, and
        // what was last seen of it.
        Some(tracking) if tracking.stratum > 0 => ("chronyc tracking", tracking.system_offset_s),
        _ if state.has(Adjtimex::STA_UNSYNC) => {
            return Err(Skipped::CouldNot("nobody knows it while nobody steers".to_owned()));
        }
        _ => ("adjtimex", state.offset_ns as f64 / 1e9),
    };
    const LARGE_S: f64 = 0.1;
    const WRONG_S: f64 = 1.0;
    let magnitude = text::duration_s(offset_s.abs());
    if offset_s.abs() < LARGE_S {
        return Outcome::fine(format!("{magnitude} left to correct"));
    }
    let chrony = who == "chronyc tracking";
    let wrong = offset_s.abs() >= WRONG_S;
    let finding = Finding::new(
        if wrong { Severity::Error } else { Severity::Warning },
        format!("The clock is {magnitude} off"),
    )
    .evidence(format!("{who}: {magnitude} left to correct"))
    .why(
        "The daemon slews it: at the kernel's 500 ppm, one second takes 33 minutes. Until then \
         stamps from here and from other machines do not compare.",
    );
    match chrony {
        true => finding
            .remedy(
                Remedy::command("Correct it at once.", "sudo chronyc makestep")
                    .changes("steps the clock now; programs see a jump"),
            )
            .remedy(remedies::makestep(case)),
        false => finding.remedy(Remedy::advice(
            "Restart the time daemon: it steps a large offset when it starts.",
        )),
    }
    .alone()
}

/// `error-bound`
pub(crate) fn error_bound(case: &Case<'_>) -> Check {
    let state = adjtimex(case)?;
    if state.has(Adjtimex::STA_UNSYNC) {
        return Err(Skipped::CouldNot("there is none while nobody steers".to_owned()));
    }
    let bound_s = state.max_error_us as f64 / 1e6;
    // systemd-timesyncd asks every 34 minutes at the longest: 1.02 s.
    const GROWN_S: f64 = 2.5;
    if bound_s < GROWN_S {
        return Outcome::fine(format!("the clock is within {}", text::duration_s(bound_s)));
    }
    let silent_s = bound_s / 500e-6;
    Finding::new(
        Severity::Warning,
        format!("The clock was last corrected some {} ago", text::duration_s(silent_s)),
    )
    .evidence(status_line(state))
    .why(
        "The kernel's error bound grows by 500 ppm from one correction to the next. At 16 s the \
         kernel declares its clock unsynchronised.",
    )
    .remedy(
        Remedy::command("See whether the time daemon still reaches its servers.", "timedatectl")
            .changes(remedies::LOOKS),
    )
    .alone()
}

fn adjtimex<'a>(case: &Case<'a>) -> Result<&'a Adjtimex, Skipped> {
    let fact = &case.facts.steering.adjtimex;
    let state = fact.known().ok_or_else(|| why_not(fact))?;
    // What kernel/time/ntp.c and timekeeping.c let through, and a little.
    let possible = state.frequency_ppm.abs() <= KERNEL_LIMIT_PPM + 1.0
        && (9_000..=11_000).contains(&state.tick_us);
    match possible {
        true => Ok(state),
        false => Err(Skipped::CouldNot(format!(
            "no kernel has this: frequency {}, tick {} µs",
            text::ppm(state.frequency_ppm),
            state.tick_us
        ))),
    }
}

#[cfg(test)]
mod tests;
