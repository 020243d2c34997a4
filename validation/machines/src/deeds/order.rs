//! Whether the CPUs' TSCs are apart, in each boot anew: a host whose own TSC is
//! not stable sets a vCPU's each time that it runs (kvm_arch_vcpu_load,
//! arch/x86/kvm/x86.c). What the doctor says of it is held against a witness
//! (`guest-clock tsc-order`).

use serde_json::Value;

use crate::checks::{Check, list};
use crate::machine::Machine;

/// The doctor's rule.
pub(crate) const RULE: &str = "tsc-across-cpus";

/// A program sees more than this, cycles: three times what the rule's finest
/// finding is.
const APART: u64 = 1000;

/// How often the witness may change its mind.
const TRIES: usize = 5;

pub(super) fn run(machine: &mut Machine, checks: &mut Vec<Check>) -> Result<(), String> {
    let mut all = Vec::new();
    while all.len() < TRIES && all.last().is_none_or(|last| verdict(*last).is_none()) {
        let before = witness(machine)?;
        let said = machine.execute(&format!("parachron doctor --only {RULE} --format json"))?;
        let said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        all.push((before, found(&said["diagnosis"]), witness(machine)?));
    }
    checks.push(judge(&all));
    Ok(())
}

/// Whether the doctor found them apart; unknown where it says that it cannot tell.
fn found(diagnosis: &Value) -> Option<bool> {
    if !list(&diagnosis["findings"]).is_empty() {
        return Some(true);
    }
    list(&diagnosis["checked"]).iter().any(|one| one["state"] == "in-order").then_some(false)
}

/// By how many cycles a TSC is behind the other CPU's.
fn witness(machine: &mut Machine) -> Result<u64, String> {
    let cycles = machine.execute("guest-clock tsc-order")?;
    cycles.parse().map_err(|error| format!("guest-clock printed {cycles:?}: {error}"))
}

/// What the witness saw, the doctor found, and the witness saw again.
type Seen = (u64, Option<bool>, u64);

/// Whether the doctor is right, where the witness saw the same before and after. That it cannot
/// tell is right where they are not apart, and decides nothing where they are.
fn verdict((before, found, after): Seen) -> Option<bool> {
    let apart = match (before, after) {
        (0, 0) => false,
        (before, after) if before.min(after) > APART => true,
        _ => return None,
    };
    match found {
        Some(found) => Some(found == apart),
        None => (!apart).then_some(true),
    }
}

/// The last decides: where none does, that is wrong.
fn judge(all: &[Seen]) -> Check {
    let what = format!("doctor: {RULE} agrees with a witness before and after");
    let is_right = all.last().is_some_and(|last| verdict(*last) == Some(true));
    Check::new(what, format!("cycles behind, found apart, cycles behind: {all:?}"), is_right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_is_wrong_where_the_witness_is_sure_of_another() {
        let passed = |before, found, after| judge(&[(before, Some(found), after)]).passed;
        assert!(passed(0, false, 0) && passed(9000, true, 5000));
        assert!(!passed(0, true, 0) && !passed(9000, false, 5000));
        for found in [true, false] {
            assert!(!judge(&[(0, Some(found), 9000); TRIES]).passed, "nothing was decided");
        }
        assert!(judge(&[(0, None, 0)]).passed, "it does not claim to know");
        // Seen by a witness each time, and by the doctor at none of five.
        assert!(!judge(&[(85_255, None, 411_749); TRIES]).passed);
        assert_eq!(verdict((9000, None, 9000)), None);
        let late = [(9000, None, 9000), (9000, Some(true), 9000)];
        assert!(judge(&late).passed && !judge(&[]).passed);
        let report = |text| found(&serde_json::from_str(text).unwrap());
        assert_eq!(report(r#"{"findings":[{}],"checked":[]}"#), Some(true));
        assert_eq!(report(r#"{"findings":[],"checked":[{"state":"in-order"}]}"#), Some(false));
        assert_eq!(report(r#"{"findings":[],"checked":[{"state":"not-checked"}]}"#), None);
    }
}
