//! What the kernel logged of the firmware's setup of the TSC.

use facts::kernel::{LogEvent, LogLine};

use crate::case::{Case, log_evidence};
use crate::fault;
use crate::finding::{Finding, Remedy, Severity};
use crate::rule::{Check, Outcome, perhaps};

/// `tsc-firmware`
pub(crate) fn check_firmware(case: &Case<'_>) -> Check {
    case.log()?;
    let faults: Vec<_> = case
        .logged(|event| *event == LogEvent::TscFault)
        // Logged where the fast calibration failed before a slower one succeeded.
        .filter(|line| !line.text.contains("Fast TSC calibration failed"))
        // A guess that the kernel adds to each verdict of its watchdog.
        .filter(|line| !line.text.contains("TSC found unstable after boot"))
        .collect();
    let Some(first) = faults.first() else {
        return Outcome::fine("the kernel log reports no fault in the TSC's setup");
    };
    if !case.is_log_alone() {
        perhaps(case.hypervisor())?;
    }
    if case.is_guest() == Some(true) {
        return Outcome::fine(format!(
            "\"{}\": the hypervisor hides that register; harmless in a guest",
            first.text.trim()
        ));
    }
    if faults.iter().all(|line| line.text.contains("Restoring")) {
        return written_while_running(&faults).alone();
    }
    Finding::new(Severity::Note, "The firmware set up the TSC wrongly")
        .evidence_from(faults.iter().take(3).copied().map(log_evidence))
        .explain(format!(
            "The kernel corrects what it can at boot; otherwise it marks the TSC unstable. {}",
            fault::hardware(case.is_guest())
        ))
        .remedy(Remedy::advice(if faults.iter().all(|line| is_compensated(&line.text)) {
            "Do nothing: the kernel has set these counters right by TSC_ADJUST. Update the \
             firmware if the lines return at each boot."
        } else {
            "Update the firmware (`sudo dmidecode -s bios-version` shows the present version)."
        }))
        .alone()
}

/// `TSC ADJUST differs: CPU2 0 --> -45928000242. Restoring`, by a check of running CPUs
/// (arch/x86/kernel/tsc_sync.c, tsc_verify_tsc_adjust).
fn written_while_running(faults: &[&LogLine]) -> Finding {
    Finding::new(
        Severity::Note,
        "Something wrote to the TSC while the system ran, and the kernel undid it",
    )
    .evidence_from(faults.iter().take(3).copied().map(log_evidence))
    .explain(
        "The kernel restored TSC_ADJUST. At fault: this machine's firmware (SMM), or a module or \
         test of its kernel.",
    )
    .remedy(Remedy::advice(
        "Do nothing if a test or a module did so on purpose; otherwise update the firmware.",
    ))
}

/// `TSC ADJUST compensate: CPU36 observed 86056 warp (overhead 150). Adjust: 86206`
fn is_compensated(text: &str) -> bool {
    text.contains("TSC ADJUST compensate")
}
