//! Where a clock is read, counted from outside the program: the calls that enter the
//! kernel by its tracepoint (Linux: Documentation/trace/events.rst), the reads of a
//! device by QEMU's trace event (QEMU: docs/devel/tracing.rst). What `clocks` and
//! `bench` say of the path is held against these.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::judge::{CALL, by_name, how};
use crate::checks::{Check, list};
use crate::deeds::{Done, Place};
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};
use crate::table::{Base, Read};

/// Of the calls of `clock_gettime` those for CLOCK_MONOTONIC. What the program makes
/// the kernel refuse (`inspect::kernel_entries`) is not among them: seccomp comes
/// first (syscall_trace_enter, kernel/entry/common.c).
const BEGIN: &str = "cd /sys/kernel/tracing; [ -e events ] || mount -t tracefs tracefs .; \
    cd /sys/kernel/tracing; cd events/syscalls/sys_enter_clock_gettime 2>/dev/null && \
    echo 'which_clock == 1' >filter && echo there || echo none";

/// Prints how often the tracepoint was passed, how long it took in seconds, what the clock
/// source was at the end, and the report. What no longer fitted into the kernel's buffer
/// was counted.
const COUNTED: &str = "cd /sys/kernel/tracing; echo {source} >$CLOCKSOURCE; echo >trace; \
    echo 1 >events/syscalls/sys_enter_clock_gettime/enable; cat /proc/uptime >/tmp/up; \
    parachron {command} --format json >/tmp/report || exit 1; cat /proc/uptime >>/tmp/up; \
    echo 0 >events/syscalls/sys_enter_clock_gettime/enable; \
    cat per_cpu/cpu*/stats | awk '/^(entries|overrun|dropped events):/{sum += $NF} \
    END{printf \"%d \", sum}'; awk 'NR == 1{t = $1} END{printf \"%.2f \", $1 - t}' /tmp/up; \
    cat $CLOCKSOURCE; cat /tmp/report";

/// What is counted: under the row's own source, and under every one.
const CLOCKS: &str = "clocks";
const BENCH: &str = "bench --duration 100ms --only 'clock_gettime(CLOCK_MONOTONIC)'";

/// The same program while it times an instruction: what is read meanwhile is read by the
/// kernel, at ticks and at other calls.
const OTHER: &str = "bench --duration 100ms --only rdtsc";

/// Each read of a device's register, with the device's name.
const EVENT: &str = "memory_region_ops_read";

/// Of a clock that is read in user space at most this part of the reads is counted.
const NONE: f64 = 0.01;

/// Of one read elsewhere each is counted, and beside them what the program reads to find
/// how many to time at once and in between (`instruments::cost`): less than a second one.
/// Seen: 1.1 to 1.2 calls.
const ONE: (f64, f64) = (0.99, 1.6);

/// Of a device the kernel's own reads are counted as well, so many a second: where the host
/// is busy and reads are slow, as many as the program's. What is left without them, as
/// they were counted in another second.
const ONE_WITHOUT_OWN: (f64, f64) = (0.3, 1.6);

/// What was counted while a command ran.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// What the program says that it read, at least.
    reads: u64,
    /// Calls that entered the kernel.
    calls: u64,
    /// Reads of the device, where they can be counted, and how many of them are about the
    /// kernel's own.
    device: Option<(u64, f64)>,
}

/// What was counted while something ran, and what that printed.
struct Run {
    calls: u64,
    took_s: f64,
    device: Option<u64>,
    printed: String,
}

/// All checks of a row.
pub(super) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    if machine.execute(BEGIN)? != "there" {
        done.skipped.push(Unavailable::new(
            "the kernel counts no calls of clock_gettime",
            "a kernel with CONFIG_FTRACE_SYSCALLS",
        ));
        return Ok(());
    }
    let truth = place.row.truth()?;
    let sees_devices = matches!(place.row.base, Base::Emulated | Base::Debian);
    if !sees_devices && truth.available.iter().any(|source| device(source).is_some()) {
        done.skipped.push(Unavailable::new(
            "reads of hpet and acpi_pm are not counted: Xen answers them, or in an emulated host \
             the kernel's own are more",
            "a row of QEMU's emulation",
        ));
    }
    let own = &truth.clocksource;
    let all = truth.available.iter().map(|source| (BENCH, source));
    for (command, source) in [(CLOCKS, own)].into_iter().chain(all) {
        let path = if source == own { truth.read } else { by_name(source) };
        // One file each: of an older QEMU it would grow, of a newer one begin anew.
        let name = format!("trace-{source}-{}", done.checks.len());
        let log = sees_devices.then(|| place.folder.join(name));
        let found = counted(machine, command, source, log.as_deref());
        done.checks.push(judge(command, source, path, found));
    }
    machine.execute(&format!("echo {own} >$CLOCKSOURCE")).map(drop)
}

/// The device that a clock source reads, as QEMU names it, with its counter's address
/// where it has other registers.
fn device(source: &str) -> Option<(&'static str, &'static str)> {
    match source {
        "hpet" => Some(("'hpet'", " addr 0xfed000f0 ")),
        "acpi_pm" => Some(("'acpi-tmr'", "")),
        _ => None,
    }
}

/// Runs a command under a source, and counts.
fn counted(
    machine: &mut Machine,
    command: &str,
    source: &str,
    log: Option<&Path>,
) -> Result<Counted, String> {
    let found = run_counted(machine, command, source, log)?;
    let has_own = found.device.is_some() && device(source).is_some();
    let own_per_s = match has_own {
        true => run_counted(machine, OTHER, source, log).and_then(|other| other.own_per_s())?,
        false => 0.0,
    };
    let report = serde_json::from_str(&found.printed).map_err(|error| error.to_string())?;
    let device = found.device.map(|count| (count, own_per_s * found.took_s));
    Ok(Counted { reads: reads_told(&report), calls: found.calls, device })
}

impl Run {
    /// How often the device was read by none of the calls that were counted.
    fn own_per_s(&self) -> Result<f64, String> {
        let own = self.device.map(|count| count.saturating_sub(self.calls));
        let own = own.filter(|_| self.took_s > 0.0);
        own.map(|own| own as f64 / self.took_s).ok_or_else(|| "no time passed".to_owned())
    }
}

/// Of a source without a device the reads of both are counted, which are none of the
/// clock's.
fn run_counted(
    machine: &mut Machine,
    command: &str,
    source: &str,
    log: Option<&Path>,
) -> Result<Run, String> {
    let trace = |machine: &mut Machine, on: bool| -> Result {
        let Some(log) = log else { return Ok(()) };
        let qmp = machine.qmp.as_mut().ok_or("reads of devices are counted by QMP")?;
        if on {
            qmp.monitor(&format!("logfile {}", log.display()))?;
        }
        qmp.execute("trace-event-set-state", json!({ "name": EVENT, "enable": on })).map(drop)
    };
    trace(machine, true)?;
    let line = COUNTED.replace("{source}", source).replace("{command}", command);
    let record = machine.line.run("reads", 60, &line);
    trace(machine, false)?;
    let record = record?;
    let device = log.map(|log| reads_of(log, source)).transpose()?;
    let (first, printed) = record.stdout.split_once('\n').unwrap_or((&record.stdout, ""));
    let mut words = first.split(' ');
    let calls = words.next().and_then(|calls| calls.parse().ok());
    let took_s = words.next().and_then(|took_s| took_s.parse().ok());
    let is_kept = words.eq([source]);
    let (calls, took_s) = calls
        .zip(took_s)
        .filter(|_| is_kept)
        .ok_or_else(|| format!("not counted: {first} {}", record.stderr.trim()))?;
    Ok(Run { calls, took_s, device, printed: printed.to_owned() })
}

/// How often QEMU saw a source's device read, or any of theirs.
fn reads_of(log: &Path, source: &str) -> Result<u64, String> {
    let read = fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    // Some megabytes each.
    let _ = fs::remove_file(log);
    Ok(seen(&String::from_utf8_lossy(&read), source))
}

fn seen(log: &str, source: &str) -> u64 {
    let devices: Vec<_> = match device(source) {
        Some(one) => vec![one],
        None => ["hpet", "acpi_pm"].iter().filter_map(|source| device(source)).collect(),
    };
    let is_read = |line: &&str| {
        let of = |(name, address): &(&str, &str)| line.contains(name) && line.contains(address);
        line.contains(EVENT) && devices.iter().any(of)
    };
    log.lines().filter(is_read).count() as u64
}

/// How often a report of `clocks` or `bench` says that the clock was read: what was
/// timed, and what was compared.
fn reads_told(report: &Value) -> u64 {
    let sources = list(&report["sources"]).iter().map(|source| &source["cost"]["measured"]);
    let run = &report["runs"][0];
    let costs = sources.chain(list(&run["costs"])).filter(|cost| cost["call"] == CALL);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let timed = costs.map(|cost| number(&cost["samples"]) * number(&cost["calls_per_sample"]));
    let compared = list(&run["order"]).iter().filter(|order| order["clock"] == "CLOCK_MONOTONIC");
    timed.chain(compared.map(|order| number(&order["readings"]))).sum()
}

/// A read in user space is counted nowhere, one in the kernel there and once, one of a
/// device there too.
fn judge(command: &str, source: &str, path: Read, found: Result<Counted, String>) -> Check {
    let name = command.split(' ').next().unwrap_or_default();
    let device = device(source).filter(|_| path == Read::Kernel);
    let is_counted = found.as_ref().is_ok_and(|found| found.device.is_some());
    let also = device.filter(|_| is_counted).map_or("", |_| ", on its device");
    let what = format!("{name}: {source} is {}{also}, as counted from outside", how(path));
    Check::of(&what, found, |found| {
        let part = |count: f64| count / found.reads.max(1) as f64;
        let is_one = |count: f64, (least, most)| (least..=most).contains(&part(count));
        let calls = found.calls as f64;
        let in_kernel = match path {
            Read::Kernel => is_one(calls, ONE),
            _ => part(calls) <= NONE,
        };
        let on_device = found.device.is_none_or(|(count, own)| match device {
            Some(_) => part(count as f64) >= ONE.0 && is_one(count as f64 - own, ONE_WITHOUT_OWN),
            None => part(count as f64) <= NONE,
        });
        let reads = match (found.device, device) {
            (None, _) => "device not counted".to_owned(),
            (Some((count, _)), None) => format!("{count} reads of a device"),
            (Some((count, own)), Some(_)) => {
                format!("{count} reads of {source}, about {own:.0} of them the kernel's own")
            }
        };
        let text = format!("of {} reads: {} system calls, {reads}", found.reads, found.calls);
        (text, found.reads > 0 && in_kernel && on_device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_counted_where_it_is_said_to_be() {
        let passed = |source, path, calls, device| {
            judge(BENCH, source, path, Ok(Counted { reads: 1000, calls, device })).passed
        };
        let none = Some((0, 0.0));
        assert!(passed("tsc", Read::User, 3, Some((2, 0.0))) && passed("tsc", Read::User, 0, None));
        assert!(!passed("tsc", Read::User, 1000, none), "by the kernel, as with vdso=0");
        assert!(!passed("tsc", Read::User, 0, Some((1000, 0.0))), "an exit for each");
        assert!(passed("tsc", Read::Kernel, 1100, none));
        assert!(passed("hpet", Read::Kernel, 1100, Some((1300, 200.0))));
        assert!(passed("hpet", Read::Kernel, 1100, Some((2100, 1000.0))), "a busy host");
        assert!(passed("hpet", Read::Kernel, 1100, Some((2100, 1700.0))), "and busier meanwhile");
        assert!(!passed("hpet", Read::Kernel, 1100, none), "another clock was read");
        assert!(!passed("hpet", Read::Kernel, 1100, Some((1000, 1000.0))), "by the kernel alone");
        assert!(!passed("hpet", Read::Kernel, 1100, Some((2200, 200.0))), "read twice");
        assert!(!passed("hpet", Read::Kernel, 900, Some((1300, 200.0))), "fewer than it says");
        let none = Counted { reads: 0, calls: 0, device: None };
        assert!(!judge(CLOCKS, "tsc", Read::User, Ok(none)).passed, "nothing was read");
        assert!(!judge(CLOCKS, "tsc", Read::User, Err("no record".to_owned())).passed);
    }

    #[test]
    fn what_was_read_is_in_the_report_and_in_the_log() {
        let cost = json!({ "call": CALL, "samples": 32, "calls_per_sample": 4 });
        let order = json!([{ "clock": "CLOCK_MONOTONIC", "readings": 50 },
            { "clock": "CLOCK_MONOTONIC across CPUs", "readings": 7 }]);
        let bench = json!({ "runs": [{ "costs": [cost], "order": order }] });
        assert_eq!(reads_told(&bench), 178);
        let clocks = json!({ "sources": [{ "cost": { "measured": cost } }, { "cost": null }] });
        assert_eq!(reads_told(&clocks), 128);
        let log = "memory_region_ops_read cpu 0 mr 0x55 addr 0xfed000f0 value 0x1 size 4 name 'hpet'\r\n\
            memory_region_ops_read cpu 0 mr 0x55 addr 0xfed00010 value 0x1 size 4 name 'hpet'\n\
            memory_region_ops_read cpu 1 mr 0x56 addr 0x608 value 0x1 size 4 name 'acpi-tmr'\n\
            memory_region_ops_write cpu 1 mr 0x56 addr 0x608 value 0x1 size 4 name 'acpi-tmr'\n";
        assert_eq!(["hpet", "acpi_pm", "tsc"].map(|source| seen(log, source)), [1, 1, 2]);
    }
}
