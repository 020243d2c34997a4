//! What an ordinary user tries against the service.

use crate::checks::Check;
use crate::machine::Machine;

use super::operator::process;
use super::world::soon_right;

/// A user of no group.
const USER: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c";

/// Each must fail.
const TRIES: [&str; 24] = [
    "kill -KILL $(systemctl show -p MainPID --value parachrond)",
    "kill -STOP $(systemctl show -p MainPID --value parachrond)",
    "kill -HUP $(systemctl show -p MainPID --value parachrond)",
    "echo 1000 >/proc/$(systemctl show -p MainPID --value parachrond)/oom_score_adj",
    "renice 19 -p $(systemctl show -p MainPID --value parachrond)",
    "rm -f /run/parachron/keep.lock",
    ": >/run/parachron/keep.lock",
    "flock -n /run/parachron/keep.lock true",
    "mv /run/parachron /run/other",
    "mkdir /run/parachron.new",
    "ln -sf /dev/null /run/parachron/host.sock",
    "ln -sf /dev/null /run/parachron/status.sock",
    "rm -f /run/parachron/status.sock",
    "echo x >/run/clockbound/shm0",
    "ln -sf /dev/null /run/clockbound/shm0.new",
    "echo x >/var/lib/parachron/frequency",
    "ls /var/lib/parachron/*",
    "echo x >/etc/parachron/parachrond.toml",
    "systemctl stop parachrond",
    "systemctl reload parachrond",
    "systemctl set-property --runtime parachrond MemoryMax=1M",
    "timedatectl set-ntp true",
    "date -s @0",
    "parachron keep --ntp 10.0.2.2",
];

/// None is allowed, and the process is the same.
pub(super) fn out_of_users_reach(machine: &mut Machine) -> Result<Check, String> {
    let pid = process(machine)?;
    let mut allowed = Vec::new();
    for attempt in TRIES {
        let line = format!("{USER} '{attempt}' 2>&1 </dev/null");
        if machine.line.run("user", 30, &line)?.status == 0 {
            allowed.push(attempt);
        }
    }
    let found = format!("{} tried, allowed: {}", TRIES.len(), allowed.join("; "));
    let same = process(machine)? == pid;
    let what = "service: an ordinary user stops and moves nothing";
    Ok(Check::new(what, found, allowed.is_empty() && same))
}

/// Processes with the names of time daemons, which may not set the clock; and
/// connections that ask without end, and that say nothing. The clock is put right
/// after a pause all the same.
pub(super) fn floods(machine: &mut Machine) -> Result<Check, String> {
    let flood = "for name in chronyd ntpd phc2sys parachrond; do cp /bin/busybox /tmp/$name; \
        (exec -a $name /tmp/$name sleep 60) & done; for i in 1 2 3 4; do \
        (while :; do echo status | timeout 1 nc local:/run/parachron/status.sock; \
        timeout 1 parachron status; done) & done; \
        for i in $(seq 40); do (sleep 60 | nc local:/run/parachron/status.sock) & done";
    machine.execute(&format!("{USER} '{flood}' >/dev/null 2>&1 </dev/null & sleep 5"))?;
    machine.pause(super::setup::PAUSES[0])?;
    let mut check = soon_right("stop, cont while an ordinary user floods it", machine)?;
    let said = machine.execute(
        "pkill -KILL -u 65534; \
        journalctl -u parachrond -n 30 -o cat",
    )?;
    check.passed &= !said.contains("only steps");
    Ok(check)
}
