//! The emulated host runs others on the CPU of the machine's vCPU. What its scheduler says
//! that the vCPU's thread waited for is the truth: the second figure of the thread's schedstat
//! (Linux: Documentation/scheduler/sched-stats.rst), which KVM passes on as steal time
//! (record_steal_time, arch/x86/kvm/x86.c).

use std::time::Duration;

use serde_json::json;

use crate::checks::{self, Check, Checks};
use crate::machine::Machine;
use crate::outcome::Result;
use crate::shell::Shell;

use super::Place;
use super::watching::{self, Caused};

/// For a program with a limit of its own, and for others.
const REPLY: Duration = Duration::from_secs(30);

/// Of this system's util-linux (`base/kvm.rs`).
const CHRT: &str = "/machine/chrt";

/// For how long a real-time program takes the CPU, ms. The kernel must not end it: neither
/// by its limit of real-time programs nor by its deadline server for others
/// (Documentation/scheduler/sched-rt-group.rst, kernel/sched/debug.c).
const TAKEN_MS: u32 = 2500;
const UNLIMITED: &str = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; \
    mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null; \
    for server in /sys/kernel/debug/sched/*server/cpu0/runtime; do \
    [ ! -e $server ] || echo 0 >$server; done";

/// Until `watch` has seen what a machine does that has nothing to do.
const LEARNING: &str = "sleep 15";

/// What else the CPU did before and after, in the time that `watch` counts, s.
const KNOWN_S: f64 = 0.05;

/// By how much a share may be off that was measured in a part of the time: of one CPU
/// that two programs take turns at.
const SHARE: f64 = 0.1;

/// The rule of `doctor`.
const RULE: &str = "steal-time";

/// A program that takes a CPU.
pub(super) const LOOP: &str = "sh -c 'while :; do :; done'";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, checks: &mut Checks) -> Result {
    let mut host = Host::connect(place, machine)?;
    host.keep_apart()?;
    let all = taken(&mut host, machine, checks).and_then(|()| shared(&mut host, machine, checks));
    // What comes next has both CPUs.
    host.pin("3", "3").and(all)
}

/// The host, and its vCPU's thread.
#[derive(Debug)]
pub(super) struct Host {
    shell: Shell,
    thread: u64,
}

impl Host {
    pub(super) fn connect(place: &Place<'_>, machine: &mut Machine) -> Result<Self> {
        let qmp = machine.qmp.as_mut().ok_or("a vCPU's thread is known by QMP")?;
        let cpus = qmp.execute("query-cpus-fast", json!({}))?;
        let [cpu] = checks::list(&cpus) else { return Err(format!("not one vCPU: {cpus}")) };
        let thread = cpu["thread-id"].as_u64().ok_or_else(|| format!("no thread: {cpu}"))?;
        Ok(Self { shell: Shell::connect(place.folder)?, thread })
    }

    pub(super) fn execute(&mut self, line: &str) -> Result<String> {
        self.shell.execute(line, REPLY)
    }

    /// The vCPU on the first CPU, all else of QEMU, and the shell, on the second one.
    pub(super) fn keep_apart(&mut self) -> Result {
        self.execute("taskset -p 2 $$")?;
        self.pin("1", "2")
    }

    /// By masks: that of the vCPU's thread, and of its process's others.
    pub(super) fn pin(&mut self, vcpu: &str, others: &str) -> Result {
        let thread = self.thread;
        let line = format!(
            "for task in /proc/[0-9]*/task/{thread}; do \
             for one in $(ls ${{task%/*}}); do taskset -p {others} $one; done; done; \
             taskset -p {vcpu} {thread}"
        );
        self.execute(&line).map(drop)
    }

    /// What the vCPU's thread has waited for a CPU, s, at which time since the host's boot, s.
    fn waited_s(&mut self) -> Result<(f64, f64)> {
        let thread = self.thread;
        let text =
            self.execute(&format!("cat /proc/[0-9]*/task/{thread}/schedstat /proc/uptime"))?;
        waited_s(&text).ok_or_else(|| format!("schedstat and uptime: {text:?}"))
    }
}

/// `12345 2500000000 17` of the schedstat, in ns, then `120.25 200.10` of the uptime, in s.
fn waited_s(text: &str) -> Option<(f64, f64)> {
    let (schedstat, uptime) = text.split_once('\n')?;
    let waited_ns: f64 = schedstat.split(' ').nth(1)?.parse().ok()?;
    Some((waited_ns / 1e9, uptime.split(' ').next()?.parse().ok()?))
}

/// A program takes the CPU at once, and for long: `watch` names that, with what the vCPU
/// waited.
fn taken(host: &mut Host, machine: &mut Machine, checks: &mut Checks) -> Result {
    host.execute(UNLIMITED)?;
    let (waited_s, seen) = watching::during(machine, |machine| {
        machine.execute(LEARNING)?;
        let (from_s, _) = host.waited_s()?;
        host.execute(&format!(
            "/machine/lib/ld-linux-x86-64.so.2 {CHRT} -f 1 taskset 1 {LOOP} >/dev/null & \
             usleep {TAKEN_MS}000; kill -9 $!; usleep 100000"
        ))?;
        Ok(host.waited_s()?.0 - from_s)
    })?;
    let caused = Caused {
        what: "a vCPU's CPU taken for 2.5 s",
        // On one CPU nothing runs then: it may have been stopped as well.
        kinds: &["pause|long-steal", "long-steal"],
        besides: &[],
        size_s: Some((waited_s, KNOWN_S)),
    };
    checks.push(watching::judge(&caused, &seen));
    Ok(())
}

/// Another program and the vCPU, which is never idle, take turns: `doctor` finds that share.
fn shared(host: &mut Host, machine: &mut Machine, checks: &mut Checks) -> Result {
    machine.execute(&format!("{LOOP} >/dev/null 2>&1 & renice -n 19 -p $!; echo $! >/tmp/busy"))?;
    host.execute(&format!("taskset 1 {LOOP} >/dev/null 2>&1 & echo $! >/tmp/busy"))?;
    let from = host.waited_s()?;
    let line = format!("parachron doctor --only {RULE} --format json");
    let report = machine.line.run("doctor", 120, &line)?.stdout;
    let to = host.waited_s()?;
    host.execute("kill -9 $(cat /tmp/busy)")?;
    machine.execute("kill -9 $(cat /tmp/busy)")?;
    checks.push(found(&report, (to.0 - from.0) / (to.1 - from.1)));
    Ok(())
}

/// A warning that states the share, which is one: a vCPU that nobody disturbed proves nothing.
fn found(report: &str, share: f64) -> Check {
    let what = format!("doctor: {RULE}: of a CPU that another takes turns at");
    let finding = checks::findings(report).map(|findings| {
        findings.into_iter().find(|finding| finding["rule"] == RULE).unwrap_or_default()
    });
    Check::of(&what, finding, |finding| {
        let said = finding["what"].as_str().unwrap_or("nothing");
        let told = percent(said).map(|percent| percent / 100.0);
        let right = told.is_some_and(|told| (told - share).abs() <= SHARE);
        let text = format!("{said}; its thread waited {:.1} % of the time", share * 100.0);
        (text, right && share > 2.0 * SHARE && finding["severity"] == "warning")
    })
}

/// The figure before the first sign of percent.
fn percent(text: &str) -> Option<f64> {
    text.split_once(" %")?.0.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_found_as_it_was() {
        let report = |severity: &str, what: &str| {
            json!({ "diagnosis": { "findings": [
                { "rule": "steal-time", "severity": severity, "what": what }] } })
            .to_string()
        };
        let said = "The host steals 48.3 % of this machine's CPU time";
        assert!(found(&report("warning", said), 0.5).passed);
        assert!(!found(&report("warning", said), 0.35).passed, "it waited less");
        assert!(!found(&report("note", said), 0.5).passed, "it disturbs");
        assert!(!found(&report("warning", "The host steals CPU time"), 0.5).passed);
        let none = json!({ "diagnosis": { "findings": [] } }).to_string();
        assert!(!found(&none, 0.5).passed && !found("", 0.5).passed);
        let little = "The host steals 6.0 % of this machine's CPU time";
        assert!(!found(&report("warning", little), 0.06).passed, "nothing was caused");
    }

    #[test]
    fn the_hosts_figures_are_read() {
        assert_eq!(waited_s("12345 2500000000 17\n120.25 200.10"), Some((2.5, 120.25)));
        assert_eq!(waited_s("cat: no such file\n120.25 200.10"), None);
        assert_eq!(waited_s("12345 2500000000 17"), None);
    }
}
