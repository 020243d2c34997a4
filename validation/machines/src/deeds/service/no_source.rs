//! Nothing tells the time: the service ends with the exit code for that, and is started
//! again, less and less often, and by nobody's hand once there is a source.

use std::ops::RangeInclusive;

use crate::checks::{Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;

use super::operator::started_again;
use super::right::{from_now, soon_right};
use super::setup::configure;

/// Nothing is looked for, and no server is named.
pub(crate) const CONFIGURATION: &str = "no-source = [\"vmclock\", \"phc\", \"rtc\"]\n";

/// Without a source for 40 s. The exit code is the last one's, but for the moment of a start.
pub(crate) const WITHOUT: &str = "systemctl stop parachrond; \
    systemctl start --no-block parachrond; sleep 40; \
    systemctl show -p NRestarts parachrond; for i in $(seq 10); do \
    systemctl show -p ExecMainStatus parachrond | grep '=4$' && break; sleep 0.2; done; \
    journalctl -u parachrond -n 7 -o cat";

/// How often it is started again meanwhile: after 10 and 20 s by a systemd of 254 or
/// later, else each 10 s; less often where a start takes long.
const RESTARTS: RangeInclusive<u32> = 1..=4;

/// Whether what [`WITHOUT`] printed is so.
pub(crate) fn backs_off(said: &str) -> bool {
    let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let restarts = value("NRestarts=").and_then(|count| count.parse().ok());
    restarts.is_some_and(|restarts| RESTARTS.contains(&restarts))
        && value("ExecMainStatus=") == Some("4")
        && said.contains("no time source")
}

pub(super) fn run(machine: &mut Machine, good: &str, checks: &mut Checks) -> Result {
    configure(machine, CONFIGURATION)?;
    let said = machine.line.run("without", 90, WITHOUT)?.stdout;
    let passed = backs_off(&said);
    checks.push(Check::new(
        "service: without a source: exit code 4, and started again 1 to 4 times in 40 s",
        said.trim(),
        passed,
    ));
    let since = from_now(machine)?;
    configure(machine, good)?;
    checks.push(started_again("a source is there", machine)?);
    checks.push(soon_right("a source is there", machine, since)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_never_and_another_reason_are_wrong() {
        let said = |restarts: u32, code: u8, why: &str| {
            backs_off(&format!("NRestarts={restarts}\nExecMainStatus={code}\nparachrond: {why}\n"))
        };
        assert!(said(2, 4, "no time source") && said(4, 4, "no time source"));
        assert!(!said(31, 4, "no time source") && !said(0, 4, "no time source"));
        assert!(!said(2, 3, "no time source") && !said(2, 4, "Read-only file system"));
        assert!(!backs_off(""));
    }
}
