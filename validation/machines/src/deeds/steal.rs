//! The emulated host runs others on the CPU of the machine's vCPU. What its scheduler says
//! that the vCPU's thread waited for is the truth: the second figure of the thread's schedstat
//! (Linux: Documentation/scheduler/sched-stats.rst), which KVM passes on as steal time
//! (record_steal_time, arch/x86/kvm/x86.c).

use std::time::Duration;

use serde_json::json;

use crate::checks::{self, Check, Checks};
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};
use crate::shell::Shell;

use super::watching::{self, Caused};
use super::{Done, Place};

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

/// The machine's kernel counts ticks, of 4 ms, and tells hundredths of a second.
const TICKS_S: f64 = 0.02;

/// What else the CPU did before and after, in the time that `watch` counts, s.
const KNOWN_S: f64 = 0.05;

/// By how much a share may be off that was measured in a part of the time: of one CPU
/// that two programs take turns at.
const SHARE: f64 = 0.1;

/// The rule of `doctor`.
const RULE: &str = "steal-time";

/// A program that takes a CPU.
pub(super) const LOOP: &str = "sh -c 'while :; do :; done'";

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let mut host = Host::connect(place, machine)?;
    if host.execute(&format!("[ -e {CHRT} ] && echo there || echo none"))? != "there" {
        let why = "a vCPU cannot be starved without util-linux's chrt";
        done.skipped.push(Unavailable::new(why, "install it: apt-get install util-linux"));
        return Ok(());
    }
    host.keep_apart()?;
    let all = taken(&mut host, machine, &mut done.checks)
        .and_then(|()| shared(&mut host, machine, &mut done.checks));
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

/// What the machine's kernel counts as stolen from its CPU, s.
fn stolen_s(machine: &mut Machine) -> Result<f64> {
    let line = machine.execute("grep '^cpu0 ' /proc/stat")?;
    // proc_stat(5): user nice system idle iowait irq softirq steal, in hundredths.
    let ticks = line.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<f64>().ok());
    ticks.map(|ticks| ticks / 100.0).ok_or_else(|| format!("/proc/stat: {line:?}"))
}

/// A program takes the CPU at once, and for long: `watch` names that, with what the vCPU
/// waited. The kernel's own count is held between two readings of the host's, from within
/// and from without.
fn taken(host: &mut Host, machine: &mut Machine, checks: &mut Checks) -> Result {
    host.execute(UNLIMITED)?;
    watching::start(machine)?;
    machine.execute(LEARNING)?;
    let (from_least_s, _) = host.waited_s()?;
    let stolen_before_s = stolen_s(machine)?;
    let (from_most_s, _) = host.waited_s()?;
    host.execute(&format!(
        "/machine/lib/ld-linux-x86-64.so.2 {CHRT} -f 1 taskset 1 {LOOP} >/dev/null & \
         usleep {TAKEN_MS}000; kill -9 $!; usleep 100000"
    ))?;
    let (to_least_s, _) = host.waited_s()?;
    let (soon, late) = watching::told(machine)?;
    let stolen_after_s = stolen_s(machine)?;
    let (to_most_s, _) = host.waited_s()?;
    watching::end(machine)?;
    let caused = Caused {
        what: "a vCPU's CPU taken for 2.5 s",
        // On one CPU nothing runs then: it may have been stopped as well.
        kinds: &["pause|long-steal", "long-steal"],
        besides: &[],
        size_s: Some((to_least_s - from_most_s, KNOWN_S)),
    };
    checks.push(watching::judge(&caused, &soon, &late));
    let waited_s = (to_least_s - from_most_s, to_most_s - from_least_s);
    checks.push(counted(stolen_after_s - stolen_before_s, waited_s));
    Ok(())
}

/// The kernel counts what the vCPU waited, and that was for most of the time.
fn counted(stolen_s: f64, (least_s, most_s): (f64, f64)) -> Check {
    let meant_s = f64::from(TAKEN_MS) / 1e3;
    let is_meant = least_s > meant_s / 2.0 && most_s < 2.0 * meant_s;
    let holds = least_s - TICKS_S <= stolen_s && stolen_s <= most_s + TICKS_S;
    Check::new(
        "watch: /proc/stat has stolen what the vCPU's thread waited for its CPU",
        format!("{stolen_s:.2} s; it waited {least_s:.3} to {most_s:.3} s"),
        is_meant && holds,
    )
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
    fn what_the_kernel_counts_is_what_the_thread_waited() {
        let passed = |stolen_s, waited_s| counted(stolen_s, waited_s).passed;
        assert!(passed(2.45, (2.44, 2.51)) && passed(2.43, (2.44, 2.51)));
        assert!(!passed(2.40, (2.44, 2.51)) && !passed(2.56, (2.44, 2.51)));
        assert!(!passed(0.1, (0.1, 0.12)), "nobody took the CPU");
    }

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
