//! The first line of the result: whether the clock is right, by how much, and how that is known.

use inspect::comparison::{ClockName, PairReport};
use instruments::figures::time;

use super::report::DriftReport;
use super::text::{frequency_bound, with_sign};

/// The name of CLOCK_MONOTONIC_RAW as a reference.
const RAW: &str = "raw";

/// One sentence; then the reason why nothing is known of true time, where that is so.
pub(super) fn sentence(report: &DriftReport) -> String {
    let Some(pair) = pair(report) else { return "No clock was compared.".into() };
    let limits = limits(report);
    if !report.pairs.iter().any(|pair| pair.offset_is_error) {
        let warning = if pair.reference == RAW {
            " raw is a clock of this machine, so this shows nothing about true time: add --ntp HOST."
        } else {
            ""
        };
        return format!(
            "{} {} against {}{limits}.{warning}",
            pair.clock,
            rate(pair),
            pair.reference
        );
    }
    let offset = &pair.drift.offset;
    let bound = time(offset.bound_ns);
    let place = if offset.ns.abs() <= offset.bound_ns {
        format!("agrees with {} within {bound}", pair.reference)
    } else {
        let side = if offset.ns < 0.0 { "behind" } else { "ahead of" };
        format!("is {} ± {bound} {side} {}", time(offset.ns.abs()), pair.reference)
    };
    format!("{} {place} and {}{limits}.", pair.clock, rate(pair))
}

/// The clock that programs read, against the first reference that gives the time of day.
fn pair(report: &DriftReport) -> Option<&PairReport> {
    let pairs = || report.pairs.iter();
    let of = |name: ClockName| pairs().find(move |pair| pair.clock == name && pair.offset_is_error);
    of(ClockName::Realtime)
        .or_else(|| pairs().find(|pair| pair.offset_is_error))
        .or_else(|| pairs().find(|pair| pair.clock == ClockName::Monotonic))
        .or_else(|| pairs().next())
}

/// `runs 0.30 ± 0.08 ppm slow`, unless that is within its own interval.
fn rate(pair: &PairReport) -> String {
    let Some(frequency) = pair.drift.frequency else {
        return "was compared too rarely for a rate".into();
    };
    let (bound, digits) = frequency_bound(&pair.drift);
    let ppm = frequency.ppm;
    match bound {
        Some(bound) if ppm.abs() <= bound => {
            format!("keeps its rate within {bound:.digits$} ppm")
        }
        _ => {
            let bound = bound.map_or(String::new(), |bound| format!(" ± {bound:.digits$}"));
            let side = if ppm < 0.0 { "slow" } else { "fast" };
            format!("runs {}{bound} ppm {side}", with_sign(ppm.abs(), digits).replace('+', ""))
        }
    }
}

fn limits(report: &DriftReport) -> &'static str {
    if report.budget.is_empty() {
        ""
    } else if report.is_outside() {
        ": outside the limit"
    } else if report.not_held.is_empty() {
        ": within the limit"
    } else {
        ": not known whether within the limit"
    }
}
