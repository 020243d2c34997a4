//! `parachron doctor --quiet`: one line, and the exit code of a monitoring plugin.

use std::process::ExitCode;

use doctor::finding::{Diagnosis, Severity, TimeState};

use crate::error::CliError;
use crate::output;

/// Prints the verdict in one line.
pub(super) fn print(diagnosis: &Diagnosis) -> Result<ExitCode, CliError> {
    let (state, code) = state(diagnosis);
    output::text(&format!("{state} - {}\n", output::printable(&diagnosis.verdict)))?;
    Ok(ExitCode::from(code))
}

/// Says why there is no verdict: to a monitoring plugin's reader that is no error of the clock.
pub(super) fn not_examined(why: &CliError) -> Result<ExitCode, CliError> {
    output::text(&format!("UNKNOWN - {}\n", output::printable(&why.to_string())))?;
    Ok(ExitCode::from(3))
}

/// What Nagios and its kin expect of a plugin: word and exit code.
fn state(diagnosis: &Diagnosis) -> (&'static str, u8) {
    let worst = diagnosis.findings.first().map(|finding| finding.severity);
    match (worst, diagnosis.time.state) {
        (Some(Severity::Error), _) | (_, TimeState::Wrong) => ("CRITICAL", 2),
        (Some(Severity::Warning), _) => ("WARNING", 1),
        (_, TimeState::NotKnown) => ("UNKNOWN", 3),
        (_, TimeState::Right) => ("OK", 0),
    }
}
