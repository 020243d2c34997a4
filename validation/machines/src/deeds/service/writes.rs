//! Who writes to the kernel's clock, by probes in that kernel: beside another daemon ours steps,
//! puts back the error that the step has reset, and writes nothing else.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use crate::checks::Check;
use crate::machine::Machine;
use crate::outcome::Result;

/// `do_adjtimex` and `do_settimeofday64` (kernel/time/timekeeping.c) are behind every system
/// call that changes the clock. A call that only reads has no modes, or ADJ_OFFSET_SS_READ.
const PROBES: &str = "mountpoint -q /sys/kernel/tracing || mount -t tracefs none \
    /sys/kernel/tracing; cd /sys/kernel/tracing && \
    echo 'p:clock/adjtimex do_adjtimex modes=+0($arg1):x32' >kprobe_events && \
    echo 'p:clock/set do_settimeofday64' >>kprobe_events && \
    echo 'modes != 0 && modes != 0xa001' >events/clock/adjtimex/filter && \
    echo 1 >events/clock/enable && echo >trace";

const READ: &str = "grep -v '^#' /sys/kernel/tracing/trace; true";

/// A write of somebody else, which the probes must show: the status as it is.
const PLANTED: &str = "guest-clock leap none";
const PLANTED_BY: &str = "guest-clock";

/// Our program, as the kernel names its threads.
const OURS: &str = "parachrond";

/// ADJ_SETOFFSET, without ADJ_NANO.
const STEP: &str = "modes=0x100";

/// ADJ_MAXERROR and ADJ_ESTERROR, and ADJ_STATUS where the clock was synchronised: a step resets
/// them, and the other daemon reports them only at its next poll.
const ERROR: [&str; 2] = ["modes=0xc", "modes=0x1c"];

/// How long nothing happens: some polls of ours, and of a daemon that polls every 64 s.
const CALM: Duration = Duration::from_secs(130);

/// How often each process made each kind of write.
#[derive(Debug, Default, PartialEq, Eq)]
struct ClockWrites(BTreeMap<(String, String), u32>);

/// Sets the probes.
pub(super) fn watch(machine: &mut Machine) -> Result<(), String> {
    machine.execute(PROBES).map(drop)
}

/// In calm ours writes nothing, and a planted write shows that it would be seen.
pub(super) fn check_calm(machine: &mut Machine) -> Result<Check> {
    machine.execute("echo >/sys/kernel/tracing/trace")?;
    sleep(CALM);
    let calm = ClockWrites::parse(&machine.execute(READ)?);
    machine.execute(PLANTED)?;
    let planted = ClockWrites::parse(&machine.execute(READ)?);
    Ok(Check::new(
        format!(
            "service: beside chronyd, {} calm seconds: ours writes nothing to the kernel's clock",
            CALM.as_secs()
        ),
        format!("{calm}; with a planted write: {planted}"),
        calm.kinds(OURS).is_empty() && !planted.kinds(PLANTED_BY).is_empty(),
    ))
}

/// Since the probes were set, ours has written steps, and the error after them.
pub(super) fn check_steps(machine: &mut Machine) -> Result<Check> {
    let writes = ClockWrites::parse(&machine.execute(READ)?);
    Ok(Check::new(
        "service: beside chronyd: ours writes steps to the kernel's clock, and the error after them",
        writes.to_string(),
        writes.is_ours_of_steps(),
    ))
}

impl ClockWrites {
    /// Lines such as `chronyd-412 [000] d.... 9.1: adjtimex: (do_adjtimex+0x0/0x2f0) modes=0x2`.
    fn parse(trace: &str) -> Self {
        let mut writes = Self::default();
        for line in trace.lines() {
            let Some((process, rest)) = line.trim().split_once(" [") else { continue };
            let name = process.trim().rsplit_once('-').map_or(process, |(name, _)| name);
            let what = match rest.split_once(": adjtimex:") {
                Some((_, call)) => call.split(' ').find(|word| word.starts_with("modes=")),
                None => rest.contains(": set:").then_some("set"),
            };
            let Some(what) = what else { continue };
            *writes.0.entry((name.to_owned(), what.to_owned())).or_default() += 1;
        }
        writes
    }

    /// The kinds of a process.
    fn kinds(&self, process: &str) -> Vec<&str> {
        let of_process = self.0.keys().filter(|(name, _)| name == process);
        of_process.map(|(_, what)| what.as_str()).collect()
    }

    fn is_ours_of_steps(&self) -> bool {
        let ours = self.kinds(OURS);
        ours.contains(&STEP) && ours.iter().all(|what| *what == STEP || ERROR.contains(what))
    }
}

impl std::fmt::Display for ClockWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each =
            self.0.iter().map(|((name, what), times)| format!("{name} {what} {times} times"));
        let each: Vec<String> = each.collect();
        f.write_str(if each.is_empty() { "nobody" } else { "" })?;
        f.write_str(&each.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_process_and_kind() {
        let line = |process: &str, event: &str| {
            format!("   {process}     [000] d....   191.4: {event}: (do_{event}+0x0/0x2f0)")
        };
        let step = line("parachrond-512", "adjtimex") + " modes=0x100\n";
        let other = line("chrony-d-9", "adjtimex") + " modes=0x4002\n";
        let set = line("systemd-1", "set") + "\n";
        let writes = |trace: &str| ClockWrites::parse(trace);
        let all = writes(&format!("{other}{other}{step}{set}\nCPU:0 [LOST 3 EVENTS]\n"));
        assert_eq!(
            all.to_string(),
            "chrony-d modes=0x4002 2 times, parachrond modes=0x100 1 times, systemd set 1 times"
        );
        assert!(all.is_ours_of_steps());
        assert!(writes(&other).kinds(OURS).is_empty() && !writes(&other).is_ours_of_steps());
        let and = |modes: &str| {
            let more = line("parachrond-512", "adjtimex") + " modes=" + modes;
            writes(&format!("{step}{more}\n")).is_ours_of_steps()
        };
        assert!(and("0x1c") && and("0xc") && !and("0x2") && !and("0x8001"));
        assert_eq!(writes("").to_string(), "nobody");
    }
}
