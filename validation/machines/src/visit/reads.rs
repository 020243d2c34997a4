//! Where a clock is read, counted from outside the program: the calls by which the program
//! enters the kernel by the tracepoint of those calls (Linux: Documentation/trace/events.rst),
//! the reads of a device by QEMU's trace event (QEMU: docs/devel/tracing.rst). The path that
//! `clocks` and `bench` report is held against these.
//!
//! The tracepoint counts the program's own processes alone. QEMU cannot know who reads a
//! device, and the kernel reads its clock source too, at ticks and for its watchdog: as often
//! as it did while the same program read no clock, just before and just after. So a device that
//! was read R + K times for R reads, of which the kernel made K, was read by the program if K is
//! below R / 2 by either estimate, and by the kernel alone if it is above by both.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::judge::{CALL, by_name, how};
use crate::checks::{Check, list};
use crate::deeds::{Done, Place};
use crate::load::Need;
use crate::machine::Machine;
use crate::outcome::{Result, Unavailable};
use crate::table::{Base, Read};

/// Of the calls of `clock_gettime` those for CLOCK_MONOTONIC, by a process whose number is
/// given later, and by the processes that it starts (`event-fork`). What the program makes
/// the kernel refuse (`inspect::kernel_entries`) is not among them: seccomp comes
/// first (syscall_trace_enter, kernel/entry/common.c).
const BEGIN: &str = "cd /sys/kernel/tracing; [ -e events ] || mount -t tracefs tracefs .; \
    cd /sys/kernel/tracing; echo 1 >options/event-fork && \
    cd events/syscalls/sys_enter_clock_gettime 2>/dev/null && \
    echo 'which_clock == 1' >filter && echo there || echo none";

/// Prints how often the tracepoint was passed, how long it took in seconds, what the clock
/// source was at the end, and the report. What no longer fitted into the kernel's buffer
/// was counted. The shell that gives its number becomes the program.
const COUNTED: &str = "cd /sys/kernel/tracing; echo {source} >$CLOCKSOURCE; echo >trace; \
    echo 1 >events/syscalls/sys_enter_clock_gettime/enable; cat /proc/uptime >/tmp/up; \
    sh -c 'echo $$ >set_event_pid && exec parachron {command} --format json' >/tmp/report || \
    exit 1; cat /proc/uptime >>/tmp/up; \
    echo 0 >events/syscalls/sys_enter_clock_gettime/enable; \
    cat per_cpu/cpu*/stats | awk '/^(entries|overrun|dropped events):/{sum += $NF} \
    END{printf \"%d \", sum}'; awk 'NR == 1{t = $1} END{printf \"%.2f \", $1 - t}' /tmp/up; \
    cat $CLOCKSOURCE; cat /tmp/report";

/// What is counted: under the row's own source, and under every one.
const CLOCKS: &str = "clocks";
const BENCH: &str = "bench --duration 100ms --only \"clock_gettime(CLOCK_MONOTONIC)\"";

/// The same program while it times an instruction: what is read meanwhile is read by the
/// kernel, at ticks and at other calls.
const CONTROL: &str = "bench --duration 100ms --only rdtsc";

/// Each read of a device's register, with the device's name.
const EVENT: &str = "memory_region_ops_read";

/// Of a clock that is read in user space at most this part of the reads is counted.
const NONE: f64 = 0.01;

/// While a clock without a device is read, the kernel's watchdog reads one: twice a second, a
/// few times each (WATCHDOG_INTERVAL, kernel/time/clocksource.c).
const WATCHDOG_PER_S: f64 = 40.0;

/// Of one read elsewhere each is counted, and beside them what the program reads in between:
/// one sample in 17 to warm the caches and one question in 16 whether time is up
/// (`instruments::cost`), 1.125 in all. A second call for each read would be 2.
const ONE: (f64, f64) = (0.99, 1.6);

/// What the program reads once: to start, and to find how many calls to time at once.
const ONCE: f64 = 100.0;

/// What was counted while a command ran.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// What the program reports that it read, at least.
    reads: u64,
    /// Calls of the program that entered the kernel.
    calls: u64,
    /// Reads of the device, where they can be counted.
    device: Option<Device>,
    took_s: f64,
}

/// Reads of a device by anyone.
#[derive(Debug, Clone, Copy)]
struct Device {
    count: u64,
    /// How many of them are about the kernel's own: the least and the most of the estimates.
    own: (f64, f64),
}

/// Who read a device.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reader {
    Program,
    /// Fewer reads than the program reports.
    Nobody,
    /// The kernel alone, by both estimates of its own reads.
    Kernel,
    /// The estimates differ too much.
    Unknown,
}

impl Device {
    fn reader(self, reads: u64) -> Reader {
        let (count, half) = (self.count as f64, reads as f64 / 2.0);
        if count < ONE.0 * reads as f64 {
            Reader::Nobody
        } else if count - self.own.0 < half {
            Reader::Kernel
        } else if count - self.own.1 < half {
            Reader::Unknown
        } else {
            Reader::Program
        }
    }
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
            "use a kernel with CONFIG_FTRACE_SYSCALLS",
        ));
        return Ok(());
    }
    let truth = place.row.truth()?;
    let sees_devices = matches!(place.row.base, Base::Emulated | Base::Debian);
    if !sees_devices && truth.available.iter().any(|source| device(source).is_some()) {
        done.skipped.push(Unavailable::new(
            "reads of hpet and acpi_pm are not counted: Xen answers them, or in an emulated host \
             the kernel's own are more",
            "run a row of base emulated: cargo xtask machines --only q35-6.1",
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
        // A machine that does not answer has ended: why is judged for the whole row.
        if let Err(why) = &found
            && why.starts_with("QMP: ")
        {
            return Err(why.clone());
        }
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

/// Runs a command under a source, and counts; between two runs that read no clock, where the
/// source has a device.
fn counted(
    machine: &mut Machine,
    command: &str,
    source: &str,
    log: Option<&Path>,
) -> Result<Counted, String> {
    let own_per_s = |machine: &mut Machine| match log.and(device(source)) {
        Some(_) => run_counted(machine, CONTROL, source, log)?.own_per_s(),
        None => Ok(0.0),
    };
    let before_per_s = own_per_s(machine)?;
    let found = run_counted(machine, command, source, log)?;
    let after_per_s = own_per_s(machine)?;
    let report = serde_json::from_str(&found.printed).map_err(|error| error.to_string())?;
    let own = (before_per_s.min(after_per_s), before_per_s.max(after_per_s));
    let own = (own.0 * found.took_s, own.1 * found.took_s);
    let device = found.device.map(|count| Device { count, own });
    let Run { calls, took_s, .. } = found;
    Ok(Counted { reads: reads_told(&report), calls, device, took_s })
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
    let found = match found {
        Ok(found) => found,
        Err(why) => return Check::new(what, why, false),
    };
    let Counted { reads, calls, took_s, .. } = found;
    let (all, least, most) = (calls as f64, ONE.0 * reads as f64, ONE.1 * reads as f64 + ONCE);
    let in_kernel = match path {
        Read::Kernel => (least..=most).contains(&all),
        Read::User => all <= NONE * reads as f64,
    };
    let reader = match (found.device, device) {
        (None, _) => Reader::Program,
        (Some(counted), Some(_)) => counted.reader(reads),
        (Some(Device { count, .. }), None) => {
            let most = NONE * reads as f64 + WATCHDOG_PER_S * took_s;
            if count as f64 <= most { Reader::Program } else { Reader::Nobody }
        }
    };
    let of_device = match (found.device, device) {
        (None, _) => "device not counted".to_owned(),
        (Some(Device { count, .. }), None) => format!("{count} reads of a device"),
        (Some(Device { count, own: (least, most) }), Some(_)) => format!(
            "{count} reads of {source}, about {least:.0} to {most:.0} of them the kernel's own"
        ),
    };
    let text = format!("of {reads} reads: {calls} system calls, {of_device}, in {took_s:.1} s");
    let is_counted = reads > 0 && in_kernel;
    let check = Check::new(what, text, is_counted && reader == Reader::Program);
    match reader {
        Reader::Unknown if is_counted => {
            check.not_measured("the kernel's own reads of the device varied too much")
        }
        // The kernel reads as often as before and after only where it runs as much.
        Reader::Kernel if is_counted => {
            check.needing(Need::Deadline(Duration::from_secs_f64(took_s)))
        }
        _ => check,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Verdict;
    use crate::load::Load;

    fn verdict(
        source: &str,
        path: Read,
        reads: u64,
        calls: u64,
        device: Option<Device>,
    ) -> Verdict {
        let counted = Counted { reads, calls, device, took_s: 1.5 };
        judge(BENCH, source, path, Ok(counted)).verdict()
    }

    const fn device(count: u64, least: f64, most: f64) -> Option<Device> {
        Some(Device { count, own: (least, most) })
    }

    #[test]
    fn a_read_is_counted_where_it_is_reported_to_be() {
        let of = |source, path, calls, device| verdict(source, path, 1000, calls, device);
        let (right, wrong) = (Verdict::Passed, Verdict::Failed);
        assert_eq!(of("tsc", Read::User, 3, device(2, 0.0, 0.0)), right);
        assert_eq!(of("tsc", Read::User, 0, None), right);
        assert_eq!(of("tsc", Read::User, 0, device(69, 0.0, 0.0)), right, "its watchdog, 1.5 s");
        assert_eq!(of("tsc", Read::User, 1000, device(0, 0.0, 0.0)), wrong, "as with vdso=0");
        assert_eq!(of("tsc", Read::User, 0, device(1000, 0.0, 0.0)), wrong, "an exit for each");
        assert_eq!(of("tsc", Read::Kernel, 1100, device(0, 0.0, 0.0)), right);
        assert_eq!(of("tsc", Read::Kernel, 0, device(0, 0.0, 0.0)), wrong, "it did not enter");
        let none = Counted { reads: 0, calls: 0, device: None, took_s: 1.0 };
        assert!(judge(CLOCKS, "tsc", Read::User, Ok(none)).is_wrong(), "nothing was read");
        assert!(judge(CLOCKS, "tsc", Read::User, Err("no record".to_owned())).is_wrong());
    }

    /// Of 3,007 reads an AMD EPYC at 1,996 MHz counted 3,344 calls and 5,293 reads of hpet, idle
    /// and busy, and of 2,463 reads 2,694 and 4,650: the kernel's own are the rest.
    #[test]
    fn what_else_ran_in_the_machine_is_no_wrong_answer() {
        let own = |count: u64, calls: u64| (count - calls) as f64;
        for source in ["hpet", "acpi_pm"] {
            for (reads, calls, count) in [(3007, 3344, 5293), (2463, 2694, 4650)] {
                let of = |calls, device| verdict(source, Read::Kernel, reads, calls, device);
                let own = own(count, calls);
                let estimated = device(count, own * 0.7, own * 1.5);
                assert_eq!(of(calls, estimated), Verdict::Passed);
                // Twice as many of its own, as where the host is busy, and seen so.
                let busy = device(count + own as u64, own, own * 2.0);
                assert_eq!(of(calls, busy), Verdict::Passed);
                let varied = device(count, 0.0, count as f64);
                assert_eq!(of(calls, varied), Verdict::NotMeasured);

                // Planted: no read entered the kernel, or just half of them; each did twice.
                assert_eq!(of(12, estimated), Verdict::Failed);
                assert_eq!(of(reads / 2, estimated), Verdict::Failed);
                assert_eq!(of(2 * reads, estimated), Verdict::Failed);
                // Another clock was read in the kernel: the device by the kernel alone, fewer
                // times than there were reads, or more often.
                assert_eq!(of(calls, device(own as u64, own, own)), Verdict::Failed);
                let alone = 2.0 * reads as f64;
                let by_kernel = device(2 * reads, alone * 0.8, alone * 1.1);
                assert_eq!(of(calls, by_kernel), Verdict::Failed);
                assert_eq!(of(12, varied), Verdict::Failed, "and its count is no excuse");
            }
        }
    }

    /// A machine of the lowest priority on a host with a load of 12: of 1,327 reads 1,499 calls and
    /// 4,036 reads of hpet, which the kernel alone read 5,028 and 8,777 times in as long.
    #[test]
    fn a_kernel_that_does_not_run_as_much_is_not_estimated() {
        let s = Duration::from_secs;
        let busy = Load::busy(s(60), s(40), s(10));
        let calm = Load::busy(s(60), s(1), Duration::from_millis(20));
        let settled = |reads, device, load: &Load| {
            let counted = Counted { reads, calls: reads * 9 / 8, device, took_s: 1.8 };
            let mut check = judge(BENCH, "hpet", Read::Kernel, Ok(counted));
            check.settle(load);
            check.verdict()
        };
        let seen = device(4036, 5028.0, 8777.0);
        assert_eq!(settled(1327, seen, &busy), Verdict::NotMeasured);
        assert_eq!(settled(1327, seen, &calm), Verdict::Failed, "by the kernel alone");
        let fewer = device(1300, 0.0, 0.0);
        assert_eq!(settled(1327, fewer, &busy), Verdict::Failed, "fewer than it reports");
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
