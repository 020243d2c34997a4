//! What monitoring shows of adjtimex's offset, where that is not the clock's.

use facts::steering::TimeKeeperKind;
use instruments::figures;

use crate::case::Case;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, Skipped};

/// An expression that holds where the offset does not. The bound grows by
/// 500 µs a second between corrections: 0.5 s at chronyd's longest usual poll
/// (1024 s), 1.02 s at systemd-timesyncd's, 16 s on a clock that is not
/// synchronised. STA_UNSYNC alone says nothing: chronyd without `rtcsync` never
/// clears it.
const BY_BOUND: &str = "min_over_time(node_timex_maxerror_seconds[5m]) > 2.5";

/// `offset-miscast`
pub(crate) fn check_miscast(case: &Case<'_>) -> Check {
    let state = case.adjtimex_with(&["offset"])?;
    let Some(given_us) = state.miscast_offset_us else {
        return Outcome::fine(match state.offset_ns {
            0 => "adjtimex's offset is 0".to_owned(),
            ns => format!("adjtimex's offset is {}", figures::signed(ns as f64, figures::time)),
        });
    };
    let given = figures::seconds(given_us as f64 / 1e6);
    let truth = figures::signed(state.offset_ns as f64, figures::time);
    Finding::new(
        Severity::Note,
        format!("The kernel reports a clock offset of {given}; the true offset is {truth}"),
    )
    .evidence(format!("adjtimex: offset {given_us} µs, without STA_NANO"))
    .evidence(format!("{given_us}000 ns − 2^32 ns = {} ns, to 1 µs", state.offset_ns))
    .explain(
        "Kernels before 6.13 treat a small negative offset in nanoseconds as an unsigned number \
         before they divide it by 1000. Everything that reads the offset then shows 4.29 s, \
         node_exporter's node_timex_offset_seconds too, so the alert NodeClockSkewDetected \
         fires. The clock is right.",
    )
    .remedy(Remedy::advice(
        "Update the kernel: the fix \"ntp: Remove invalid cast in time offset math\" \
         (f5807b0606da) is in 6.13 and in the long-term kernels of December 2024 and later.",
    ))
    .remedy(
        Remedy::command("Until then, alert on the error bound instead of the offset.", BY_BOUND)
            .changes("the expression of that alert in Prometheus"),
    )
    .alone()
}

/// `offset-alarm-blind`
pub(crate) fn check_blind(case: &Case<'_>) -> Check {
    let Some(reader) = case.offset_readers()?.first() else {
        return Err(Skipped::DoesNotApply(
            "does not apply: nothing here monitors adjtimex".to_owned(),
        ));
    };
    let state = case.adjtimex_with(&["offset"])?;
    let never_set = case.running(&[TimeKeeperKind::Chrony, TimeKeeperKind::NtpdRs]);
    let Some(daemon) = never_set.first().filter(|_| state.offset_ns == 0) else {
        return Outcome::fine(format!("{reader} runs, and adjtimex's offset is set"));
    };
    let daemon = daemon.kind.program();
    let mut finding = Finding::new(
        Severity::Note,
        format!("{reader} always reports a clock offset of 0: {daemon} never sets it"),
    )
    .evidence(format!("running: {daemon}, {reader}"))
    .evidence("adjtimex: offset 0".to_owned());
    if let Some(tracking) = case.tracking().ok().filter(|tracking| tracking.stratum > 0) {
        finding = finding.evidence(format!(
            "chronyc tracking: last offset {}, root delay {}, root dispersion {}",
            figures::signed(tracking.last_offset_s, figures::seconds),
            figures::seconds(tracking.root_delay_s),
            figures::seconds(tracking.root_dispersion_s)
        ));
    }
    finding
        .explain(format!(
            "{daemon} does not pass the offset to the kernel and corrects the clock by changing \
             its frequency. An alert on node_timex_offset_seconds, such as NodeClockSkewDetected, \
             never fires, however wrong the clock is."
        ))
        .remedy(
            Remedy::command("Alert on the error bound instead of the offset.", BY_BOUND)
                .changes("the expression of that alert in Prometheus"),
        )
        .remedy(Remedy::advice(match daemon {
            "chronyd" => {
                "Run chrony_exporter: |last offset| + root dispersion + root delay / 2 bounds the \
                 clock's error."
            }
            _ => "Run ntp-metrics-exporter, which is part of ntpd-rs.",
        }))
        .alone()
}

#[cfg(test)]
mod tests;
