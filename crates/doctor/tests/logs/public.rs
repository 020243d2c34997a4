//! testdata/public-logs: what a report of each must and must not contain.

use std::path::PathBuf;

use doctor::log::examine;
use doctor::report_text::{ReportExtent, TextScreen, render};
use doctor::rule::RuleSelection;
use facts::kernel::pasted::PastedLog;

/// A log, its source, and what its report has and has not.
struct PublicLog {
    name: &'static str,
    must: &'static [&'static str],
    must_not: &'static [&'static str],
}

const fn public_log(
    name: &'static str,
    must: &'static [&'static str],
    must_not: &'static [&'static str],
) -> PublicLog {
    PublicLog { name, must, must_not }
}

#[rustfmt::skip]
const LOGS: &[PublicLog] = &[
    // linux-mips: 50 jiffies of 10 ms, and 150 501 307 ticks of 160 MHz: +440.6 ms.
    public_log("w02-mips-jiffies", &["clock source MIPS unstable", "+441 ms", "44 ticks", "MIPS is most likely not at fault", "emulator"], &["TSC", "constant_tsc"]),
    // A hypervisor of one's own: 0.504 s of ticks, 4.127 s by the TSC.
    public_log("w04-own-vmm", &["counted timer ticks", "+3.62 s", "the host"], &["the firmware"]),
    // QEMU: both counted 15.143 s; stamps of cloud-init's lines go back by buffering.
    public_log("w07-centos9-15s", &["15.1 s", "14.6 s later", "the clocks agree", "the host did not run it", "virtual machine the host"], &["another boot", "slow to read"]),
    // Linux 2.6.5, 2004: over 100 ticks lost in a row, and the RTC's minutes differ.
    public_log("w11-xseries-stopped2004", &["counted timer ticks", "lost timer ticks", "ran behind", "can't update from 52 to 0", "8254 timer not connected"], &["is in order"]),
    // hpet 2 746 698 ticks, TSC 978 840 394 of an unknown rate; an interrupt took 287.7 ms.
    public_log("w14-amdgpu-2019", &["978 840 394 ticks", "2 746 698 ticks", "interrupt took 287743313 ns", "not in the log"], &["it jumped ahead", "writes to the counter", "in a suspend"]),
    // Linux 7.0 on bare metal: 2.897 s both, 12.1 µs apart: the kernel's timers were late.
    public_log("w15-linux70-ryzen", &["-12.1 µs in 2.90 s", "2.40 s later", "this machine's kernel"], &["slow to read", "reads took too long"]),
    // Firecracker after a restore: 44 589 jiffies with one tick served: no stall.
    public_log("w19-e2b-restore-rcu", &["44 589 jiffies", "if CONFIG_HZ is 1000", "restored", "its clock leapt at a restore", "the host"], &["stalled for"]),
    // Two servers that are 3668.9 s apart, no step between.
    public_log("d01-nethserver-two-servers", &["contradict each other by 61.1 min", "At least one of them is wrong", "four independent servers"], &["is in order", "28.7 min behind", "paused"]),
    // chronyd may not call clock_gettime64: the years are no clock's.
    public_log("d05-docker-year588m", &["may not read the clock", "container runtime", "libseccomp"], &["None of", "is in order"]),
    // Both servers offline for a second: a restart of the network.
    public_log("d08-rac-network-restart", &["had no server for a while", "followed one again", "nothing is wrong with the clock"], &["None of"]),
    // 18:55:19 by its own stamp, 19:52:41 by the log's.
    public_log("d10-vmtoolsd-step", &["VMware Tools stepped the clock ahead by 57.4 min", "the host"], &["None of"]),
    // Whether the RTC's date is right is not in the lines.
    public_log("d13-aws-coreos-rtc", &["no fault, which is not to say that the clock is right"], &["in order as far", "is in order"]),
    public_log("d14-vbox-ru-guest-only", &["ahead by 16.4 h", "the host slept"], &["None of"]),
    // VBox.log on a host whose VT-x is Hyper-V's.
    public_log("h02-vbox-nem-61s", &["61.2 s", "Hyper-V", "At fault: the host"], &["None of"]),
    public_log("h03-vbox-nem-indonesia", &["279 s", "CPU#1 stuck for 53s", "At fault: the host"], &["None of"]),
    // The agent ran hwclock --hctosys: 20:14:57 became 18:14:58.
    public_log("T05-google-clock-skew", &["guest agent set the clock back by about 2.00 h", "time zones", "hwclock --hctosys"], &["None of"]),
    // 424.6 s at 0.5 ms a second.
    public_log("T08-vboxservice", &["slew a clock that is 425 s behind its host's: that takes 9.8 days", "20 min", "--timesync-set-threshold"], &["None of"]),
    public_log("T08b-vboxservice-growing", &["428 s behind", "grew by 3.36 s in 10.1 s"], &["None of"]),
    public_log("T09-ntpd-panic", &["ended: the clock is 61.9 min behind", "limit of 1000 s", "-g", "tinker panic 0", "Restart="], &["None of"]),
    public_log("T09b-ntpd-panic-old", &["ended: the clock is 61.9 min behind", "limit of 1000 s"], &["None of"]),
];

/// The report in one line, as a person reads it.
fn report(text: &[u8]) -> String {
    let mut log = PastedLog::default();
    log.push(text);
    let report = examine(log.finish(), &RuleSelection::default());
    let text = render(&report, ReportExtent::Page, TextScreen::PLAIN).replace('│', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_public_log_gets_the_right_answer() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/public-logs"));
    let mut wrong = String::new();
    for PublicLog { name, must, must_not } in LOGS {
        let text = std::fs::read(root.join(format!("{name}.log"))).expect("a log");
        let report = report(&text);
        let missing = must.iter().filter(|part| !report.contains(**part));
        let present = must_not.iter().filter(|part| report.contains(**part));
        let faults: Vec<_> = missing
            .map(|part| format!("no {part:?}"))
            .chain(present.map(|part| format!("has {part:?}")))
            .collect();
        if !faults.is_empty() {
            wrong += &format!("{name}: {}\n{report}\n\n", faults.join(", "));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Lines, and what a report on them must not conclude; what it must, after that.
#[rustfmt::skip]
const LINES: &[(&str, &str, &str)] = &[
    // Before systemd 250 the unit's description stands alone.
    ("systemd[1]: Failed to start Network Time Synchronization.\nsystemd-timesyncd[9]: Initial clock synchronization to Mon 2026-03-02 08:00:00 UTC.\n", "keeps no clock", ""),
    // A table of servers before a boot's log is of no boot.
    ("*a 1.2.3.4 2 u 1 64 377 1.0 +900 4.0\n[    0.000000] Linux version 6.1.0\n[    0.100000] tsc: Detected 3000.000 MHz processor\n", "earlier boot", "900 ms behind"),
    ("Mon Jun 17 10:00:00 UTC 2019\na\n2019-06-17 12:00:00\n", "none contradicts another", ""),
    // Each boot has the pair.
    ("[0.5] ACPI: EC: interrupt blocked\n[0.6] ACPI: EC: interrupt unblocked\n", "suspend", ""),
    // A stamp at 10:00 of UTC+2 is 08:00 UTC.
    ("2026-03-01T10:00:00+02:00 a kernel: x\nSun Mar  1 08:05:00 UTC 2026\n", "printed after", ""),
    ("2026-03-01T10:00:00+02:00 a kernel: x\nSun Mar  1 07:05:00 UTC 2026\n", "ahead", "printed after the lines is 55.0 min behind"),
    ("Mar  1 10:00:00 a kernel: x\nSun Mar  1 08:01:00 UTC 2026\n", "printed after", ""),
    ("Mar  1 10:00:00 a kernel: x\nRTC time: Sun 2026-03-01 09:37:00\n", "printed after", ""),
    ("Created: 2026-03-01 10:00:00\nExpires: 2026-03-01 09:00:00\n", "apart", "knows none"),
    ("finishedAt: 0001-01-01T00:00:00Z\n0001-01-01T00:00:00Z\n9999-12-31T23:59:59Z\n", "year", ""),
    ("Access: 2026-03-01 10:00:00 +0000\nModify: 2026-03-01 09:00:00 +0000\n", "behind", ""),
    ("[Sun Mar  1 12:00:10 2026] audit: x\nSun Mar  1 10:00:20 UTC 2026\n", "not to be relied on", ""),
    // The daemon follows its own clock, or none.
    ("ntpd[1]: no servers reachable\nntpd[1]: synchronized to LOCAL(0), stratum 10\n", "followed a server later", ""),
    ("ntpd[1]: no servers reachable\nntpd[1]: not synchronized to anything\n", "followed a server later", ""),
    ("ntpd[1]: no servers reachable\nntpd[1]: synchronized to 192.0.2.1, stratum 2\n", "Warning ", "followed a server later"),
    ("chronyd.service: Failed with result 'exit-code'.\nntpd[1]: synchronized to 192.0.2.1, stratum 2\n", "followed a server later", "unit failed"),
    ("chronyd.service: Failed with result 'exit-code'.\nchronyd[1]: Selected source 192.0.2.1\n", "unit failed", "followed a server later"),
    ("ntpd[1]: no servers reachable\nntpd[1]: synchronized to 192.0.2.1, stratum 2\nntpd[1]: kernel reports TIME_ERROR: 0x41\n", "followed a server later", ""),
    // 900 ppm remove 0.9 ms a second.
    ("[1.0] ptp4l[1.0]: master offset 5000000000 s2 freq +900000 path delay 9\n[2.0] ptp4l[2.0]: master offset 4999100000 s2 freq +900000 path delay 9\n[3.0] ptp4l[3.0]: master offset 4998200000 s2 freq +900000 path delay 9\n[4.0] ptp4l[4.0]: master offset 4997300000 s2 freq +900000 path delay 9\n", "does not shrink", ""),
    // Local time, set twice.
    ("Mar  1 10:00:00 a ntpd[1]: time reset +7200.0 s\nMar  1 11:00:00 a ntpd[1]: time reset -7200.0 s\n", "wrong answer", "time zone"),
    ("Mar  1 10:00:00 a ntpd[1]: time reset +2.52 s\nMar  1 11:00:00 a ntpd[1]: time reset -2.48 s\n", "time zone", "another program moved the clock between them"),
    ("Mar  1 10:00:00 a ntpd[1]: time reset +2.52 s\nMar  1 11:00:00 a chronyd[1]: System clock was stepped by -2.48 seconds\n", "wrong answer", ""),
    ("Mar  1 10:00:00 a systemd-timesyncd[1]: Initial clock synchronization to Sun 2026-03-01 10:00:00 UTC.\nMar  1 15:00:00 a systemd[1]: Time has been changed\n", "at its first", "Something set the clock"),
    ("Frequency : 600.250 ppm slow\n", "+600", "-600"),
    ("HEALTH_OK no clock skew detected\n", "Warning", ""),
    ("Health check cleared: MON_CLOCK_SKEW (was: clock skew detected on mon.b)\n", "Warning", ""),
    ("alert NodeClockSkewDetected resolved\n", "Warning", ""),
    ("[0.0] Kernel command line: ro -- acpi=off\n[0.0] Kernel command line: ro acpi=offx\n", "acpi=off, so", ""),
    ("[0.0] Command line: acpi=off ro\n[0.0] Kernel command line: acpi=off ro\n", "times", "acpi=off, so"),
    ("jwt: Token used before issued\n", "this machine's clock is behind", "two clocks that differ"),
    ("systemd[1]: ntpd.service: Main process exited, code=exited, status=0/SUCCESS\n", "Warning", ""),
    ("ntpd[1]: leapsecond file ('/x'): stat failed: No such file or directory\n", "no fault", "cannot judge"),
    ("systemd[1]: RTC configured in localtime, applying delta of 0 minutes to system time.\n", "0.00 ns", ""),
];

#[test]
fn no_report_concludes_more_than_its_lines() {
    let mut wrong = String::new();
    for (lines, must_not, must) in LINES {
        let report = report(lines.as_bytes());
        if !report.contains(must) || report.contains(must_not) {
            wrong += &format!("{lines} {must_not:?} {must:?}\n{report}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
