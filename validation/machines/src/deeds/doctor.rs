//! What `doctor` says of a machine.

use crate::checks::{self, Check};
use crate::machine::Machine;

/// All that it says.
pub(super) const DOCTOR: &str = "parachron doctor --format json";

/// Whether a report, which a line prints, has a finding of a rule.
pub(super) fn found(
    machine: &mut Machine,
    line: &str,
    rule: &str,
    when: &str,
    expected: bool,
) -> Result<Check, String> {
    let findings = checks::findings(&machine.execute(line)?)?;
    let finding = findings.iter().find(|finding| finding["rule"] == rule);
    let found = finding.and_then(|finding| finding["what"].as_str()).unwrap_or("nothing");
    Ok(Check::new(format!("doctor: {rule}: {when}"), found, finding.is_some() == expected))
}
