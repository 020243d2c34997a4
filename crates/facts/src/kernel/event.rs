//! The event that a line of the kernel's log reports about clocks.
//!
//! The forms are those of kernel/time/clocksource.c from 2.6 to 7.2 (its
//! watchdog was rewritten for 7.1, commit 763aacf86f1b), arch/x86/kernel/{tsc,tsc_sync}.c,
//! kernel/time/{hrtimer,ntp}.c, drivers/char/random.c and kernel/power.

use super::{Direction, LogEvent};

/// Starts of lines that are about clocks.
const ABOUT_CLOCKS: &[&str] = &[
    "clocksource:",
    "clockevents:",
    "tsc:",
    "TSC",
    "kvm-clock:",
    "hpet",
    "ACPI: PM-Timer",
    "acpi_pm:",
    "pmtmr",
    "rtc",
    "sched_clock:",
    "Hypervisor detected:",
    "Booting paravirtualized",
    "PTP clock support",
    "ptp_",
    "vmclock",
    "vmgenid",
    "hv_utils: ",
    "Hyper-V: ",
    "Hyper-V TSC",
    "hyperv: ",
    "xen: using vcpuop",
    "installing Xen timer",
    "Xen: using vcpu",
    "vmware: TSC freq",
    "vmware: using clock",
    "vmware: vmware-stealtime: ",
    "vmware: Host bus clock",
    "x86/hpet:",
    "PM-Timer",
    "timekeeping",
    "Timekeeping suspended",
    "NOHZ",
    "Switched to high resolution mode",
    "Fast TSC calibration",
    "Override clocksource ",
    "arch_timer: ",
    "smccc: KVM: ",
    "arm-pv: ",
];

/// Starts of time daemons' messages: chronyd's (reference.c, main.c), ntpd's (ntp_loopfilter.c)
/// and VirtualBox's guest tools' (VBoxServiceTimeSync.cpp), ntpdate's and journald's.
pub(super) const OF_DAEMONS: &[&str] = &[
    "System clock was stepped by ",
    "System clock wrong by ",
    "System clock interference detected",
    "Initial frequency ",
    "Radical host time change: ",
    "time reset ",
    "time stepped by ",
    "time set ",
    "step time server ",
    "Forward time jump detected",
    "Backward time jump detected",
    "Time jumped backwards, rotating",
    "Can't synchronise: no majority",
    "Can't synchronize: no majority",
    "frequency error ",
    "Could not step system clock",
    "kernel reports TIME_ERROR: ",
];

/// A line's event (without its stamp); `None` when not about clocks.
pub fn parse(text: &str) -> Option<LogEvent> {
    if is_of_program(text) {
        return None;
    }
    let text = text.strip_prefix("[Firmware Bug]: ").unwrap_or(text);
    let body = text.strip_prefix("clocksource:").unwrap_or(text).trim();
    parse_marked(text, body)
        .or_else(|| watchdog(body))
        .or_else(|| frequency(text))
        .or_else(|| counter(text))
        .or_else(|| fault(text, body))
        .or_else(|| parse_outside_event(text))
        .or_else(|| rate_of_cpu(text))
        .or_else(|| daemon(text))
        .or_else(|| about_clocks(text).then_some(LogEvent::Other))
}

/// Programs write to the kernel's log too: `systemd[1]: …`.
fn is_of_program(text: &str) -> bool {
    let number = || text.split_once("]:")?.0.split_once('[');
    number().is_some_and(|(_, pid)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

fn about_clocks(text: &str) -> bool {
    ABOUT_CLOCKS.iter().any(|start| text.starts_with(start))
}

/// `Marking clocksource 'tsc' as unstable because the skew is too large:`,
/// `Marking clocksource tsc unstable due to frequency skew` (7.1),
/// `tsc: Marking TSC unstable due to clocksource watchdog` and
/// `Clocksource tsc unstable (delta = -250013288 ns)` (before 4.0).
fn parse_marked(text: &str, body: &str) -> Option<LogEvent> {
    if let Some((_, rest)) = text.split_once("Marking TSC unstable due to") {
        return Some(marked_as("tsc", rest));
    }
    if let Some((_, rest)) = body.split_once("Marking clocksource ") {
        let (name, rest) = rest.split_once(' ')?;
        let because = rest.split_once("because ").or_else(|| rest.split_once("due to "));
        // A pager cuts the end.
        let is_cut = || rest.contains("unstable") && rest.ends_with('>');
        let because = because.map(|(_, because)| because).or_else(|| is_cut().then_some(""))?;
        return Some(marked_as(name, because));
    }
    // Another message may stand before it in the same line.
    let (_, rest) = body.split_once("Clocksource ").or_else(|| body.split_once("ClockSource "))?;
    let (name, rest) = rest.split_once(" unstable (delta")?;
    Some(marked_as(name, &format!("delta{}", rest.trim_end_matches(')'))))
}

fn marked_as(name: &str, because: &str) -> LogEvent {
    LogEvent::MarkedUnstable {
        clocksource: unquoted(name).to_owned(),
        because: because.trim_matches([' ', ':', '.']).to_owned(),
    }
}

fn unquoted(name: &str) -> &str {
    name.trim().trim_matches('\'')
}

/// The watchdog's figures, and its messages of late reads.
fn watchdog(body: &str) -> Option<LogEvent> {
    if body.contains("read-back delay") {
        return Some(LogEvent::WatchdogDelayed { delay_ns: number_after(body, "delay of ") });
    }
    if let Some((head, _)) = body.split_once(" callbacks suppressed") {
        let (function, messages) = head.split_once(": ")?;
        return function.contains("watchdog").then(|| {
            messages.parse().ok().map(|messages| LogEvent::WatchdogSuppressed { messages })
        })?;
    }
    if body.contains("times before success") || body.contains("read timed out") {
        return Some(LogEvent::WatchdogDelayed { delay_ns: number_after(body, "sequence took: ") });
    }
    if body.contains("kipping watchdog check:") {
        let (clock, watchdog) = (number_after(body, "cs_nsec: "), number_after(body, "wd_nsec: "));
        return Some(LogEvent::WatchdogDelayed { delay_ns: clock.max(watchdog) });
    }
    skew(body).or_else(|| interval(body)).or_else(|| interval_since_7_1(body))
}

/// `Clocksource 'tsc' skewed 1723424 ns (1 ms) over watchdog 'hpet' interval
/// of 495997815 ns (495 ms)`
fn skew(body: &str) -> Option<LogEvent> {
    // A copy may lack the first word, as it is the line's prefix twice.
    let body = body.strip_prefix("Clocksource ").unwrap_or(body);
    let (name, rest) = body.split_once("' skewed ")?;
    Some(LogEvent::Skew {
        clocksource: unquoted(name).to_owned(),
        skew_ns: rest.split_once(" ns")?.0.parse().ok()?,
        interval_ns: number_after(rest, "interval of ")?,
    })
}

/// `'hpet' wd_nsec: 495997815 wd_now: 36f24f3 wd_last: 302c799 mask: ffffffff`
/// and the same with `cs_` for the source it checks; before 5.13 without
/// nanoseconds.
fn interval(body: &str) -> Option<LogEvent> {
    let (name, rest) = body.strip_prefix('\'')?.split_once("' ")?;
    if rest.starts_with("wd2_") {
        return Some(LogEvent::SecondReference {
            clocksource: name.to_owned(),
            interval_ns: number_after(rest, "_nsec: "),
        });
    }
    let watchdog = rest.starts_with("wd_");
    (watchdog || rest.starts_with("cs_")).then(|| LogEvent::WatchdogInterval {
        watchdog,
        clocksource: name.to_owned(),
        // Some kernels spell it so.
        interval_ns: number_after(rest, "_nsec: ").or_else(|| number_after(rest, "_nesc: ")),
    })
}

/// `Watchdog               kvm-clock interval:        503995129ns`
fn interval_since_7_1(body: &str) -> Option<LogEvent> {
    let (head, rest) = body.split_once(" interval:")?;
    let (kind, name) = head.split_once(' ')?;
    let watchdog = kind == "Watchdog";
    (watchdog || kind == "Clocksource").then(|| LogEvent::WatchdogInterval {
        watchdog,
        clocksource: name.trim().to_owned(),
        interval_ns: digits(rest.trim()),
    })
}

/// `tsc: Detected 2445.428 MHz processor`,
/// `tsc: Refined TSC clocksource calibration: 2659.981 MHz`
fn frequency(text: &str) -> Option<LogEvent> {
    if let Some((_, rest)) = text.split_once("Refined TSC clocksource calibration: ") {
        return Some(LogEvent::TscFrequency { hz: mhz(rest)?, refined: true });
    }
    let rest = text.strip_prefix("tsc: ").unwrap_or(text).strip_prefix("Detected ")?;
    let hz = mhz(rest)?;
    // Where the two differ, a line `Detected 1496.210 MHz TSC` follows.
    (rest.contains("processor") || rest.contains("TSC"))
        .then_some(LogEvent::TscFrequency { hz, refined: false })
}

/// `arch_timer: cp15 and mmio timer(s) running at 62.50MHz (virt/phys).`
/// (drivers/clocksource/arm_arch_timer.c)
fn counter(text: &str) -> Option<LogEvent> {
    let rest = text.strip_prefix("arch_timer: ")?;
    if rest.contains("Trapping CNTVCT access") {
        return Some(LogEvent::CounterTrapped);
    }
    let (number, _) = rest.split_once(" running at ")?.1.split_once("MHz")?;
    let mhz: f64 = number.parse().ok()?;
    let hz = (mhz * 1e6).round();
    // CNTFRQ_EL0 has 32 bits.
    (1.0..=f64::from(u32::MAX))
        .contains(&hz)
        .then_some(LogEvent::CounterFrequency { hz: hz as u64 })
}

fn mhz(rest: &str) -> Option<u64> {
    let (number, _) = rest.split_once(" MHz")?;
    let mhz: f64 = number.trim().parse().ok()?;
    // No TSC runs outside 1 MHz to 1 THz.
    (1.0..1e6).contains(&mhz).then(|| (mhz * 1e6).round() as u64)
}

fn fault(text: &str, body: &str) -> Option<LogEvent> {
    let failed_sync = text.contains("TSC synchronization [CPU") && !text.contains("passed");
    (failed_sync
        || text.contains("TSC warp between CPUs")
        || text.contains("TSC doesn't count with P0 frequency")
        || text.contains("TSC calibration failed")
        || text.contains("TSC found unstable after boot")
        || text.contains("TSC ADJUST")
        || text.contains("TSC_ADJUST")
        || (body.starts_with("CPU") && body.ends_with("(cycles)")))
    .then_some(LogEvent::TscFault)
}

/// Events that the machine, a CPU or the clock suffered from outside.
fn parse_outside_event(text: &str) -> Option<LogEvent> {
    let body = text.strip_prefix("clocksource: ").unwrap_or(text);
    if let Some(to) = ["Switched to clocksource ", "Switching to clocksource "]
        .iter()
        .find_map(|start| body.strip_prefix(start))
        // Up to 2.6.27.
        .or_else(|| body.strip_prefix("Time: ")?.strip_suffix(" clocksource has been installed."))
    {
        return Some(LogEvent::Switched { to: to.trim().to_owned() });
    }
    if let Some((_, rest)) = text.split_once("hrtimer: interrupt took ") {
        return Some(LogEvent::HrtimerLate { took_ns: digits(rest)? });
    }
    if let Some(event) = time_lost(text) {
        return Some(event);
    }
    let starts = |start: &str| text.starts_with(start);
    if starts("kvm-clock: Using msrs") {
        Some(LogEvent::KvmClock)
    } else if starts("random: crng reseeded due to virtual machine fork") {
        Some(LogEvent::Restored)
    } else if (starts("CPU") && text.ends_with(" has been hot-added"))
        || starts("Will online and init hotplugged CPU")
    {
        Some(LogEvent::CpuAdded)
    } else if text.contains("SMP vm created on host with unstable TSC") {
        Some(LogEvent::GuestTscUnreliable)
    } else if let Some(age_ns) = number_after(text, "TimeSync: stale time stamp, ") {
        Some(LogEvent::HostTimeStale { age_ns })
    } else if starts("PM: suspend exit") || starts("PM: hibernation: hibernation exit") {
        Some(LogEvent::Resumed)
    } else if starts("Clock: inserting leap second") || starts("Clock: deleting leap second") {
        Some(LogEvent::LeapSecond)
    } else if starts("rtc_cmos") || starts("rtc-") || text.contains("setting system clock to ") {
        Some(LogEvent::Rtc)
    } else if text.contains("BUG: soft lockup - CPU#")
        || (text.contains("INFO: rcu") && text.contains("detected"))
        || (starts("rcu: ") && text.contains("timer wakeup didn't happen"))
    {
        Some(LogEvent::Stall)
    } else {
        None
    }
}

/// Time that was lost or set: by old kernels (arch/x86_64/kernel/time.c), Xen
/// (arch/x86/kernel/time-xen.c), Hyper-V (drivers/hv/hv_util.c) or a test of the watchdog
/// (kernel/time/clocksource-wdtest.c).
fn time_lost(text: &str) -> Option<LogEvent> {
    let forms = ["timer tick(s)!", "lost ticks", "Lost ticks", "osing some ticks"];
    if forms.iter().any(|form| text.contains(form)) {
        return Some(LogEvent::TicksLost { ticks: number_after(text, "Lost ") });
    }
    if let Some((_, rest)) = text.split_once("Time went backwards: delta=") {
        let by_ns = rest.split_whitespace().next()?.parse().ok()?;
        return Some(LogEvent::XenBackward { by_ns });
    }
    if let Some((_, rest)) = text.split_once("TimeSync - Current {") {
        let (current, rest) = rest.split_once("}; New {")?;
        let ns = |pair: &str| {
            let (s, ns) = pair.split_once(", ")?;
            s.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns.parse().ok()?)
        };
        let by_ns = ns(rest.split_once('}')?.0)?.checked_sub(ns(current)?)?;
        return Some(LogEvent::HypervisorStepped { by_ns });
    }
    let planted = text.contains("probe at read_hpet") || text.contains("probe at acpi_pm_read");
    let is_test = text.contains("clocksource_wdtest:")
        || text.contains("clocksource_watchdog_inject_delay")
        || planted;
    is_test.then_some(LogEvent::WatchdogTest)
}

/// `CPU1: Intel(R) Core(TM)2 Duo CPU     E8400  @ 3.00GHz stepping 06` (cpu/common.c) and
/// `Total of 2 processors activated (8645.17 BogoMIPS).` (smpboot.c), two per cycle where
/// the delay loop counts the TSC.
fn rate_of_cpu(text: &str) -> Option<LogEvent> {
    let hz = if let Some((_, rest)) = text.split_once("Total of ") {
        let (cpus, rest) = rest.split_once(" processors activated (")?;
        let bogomips: f64 = rest.split_once(" BogoMIPS")?.0.parse().ok()?;
        bogomips * 1e6 / 2.0 / cpus.parse::<f64>().ok().filter(|cpus| *cpus >= 1.0)?
    } else {
        let (head, _) = text.strip_prefix("CPU").and(text.split_once("GHz stepping "))?;
        head.rsplit([' ', '@']).next()?.parse::<f64>().ok()? * 1e9
    };
    (1e8..1e10).contains(&hz).then(|| LogEvent::CpuRate { hz: hz.round() as u64 })
}

/// A time daemon's message, without its program's name.
fn daemon(text: &str) -> Option<LogEvent> {
    let start = OF_DAEMONS.iter().find(|start| text.starts_with(**start))?;
    let rest = &text[start.len()..];
    let number = || {
        let figure = rest.split([' ', ',', 's']).next()?;
        figure.parse().ok().filter(|n: &f64| n.is_finite())
    };
    match *start {
        "System clock was stepped by "
        | "System clock wrong by "
        | "time reset "
        | "time stepped by "
        | "time set " => Some(LogEvent::DaemonStepped { by_s: number()? }),
        "step time server " => {
            let figure = rest.split_once(" offset ")?.1.split(' ').next()?;
            let by_s = figure.parse().ok().filter(|n: &f64| n.is_finite())?;
            Some(LogEvent::DaemonStepped { by_s })
        }
        "Forward time jump detected" => Some(LogEvent::TimeLeapt { direction: Direction::Forward }),
        "Backward time jump detected" | "Time jumped backwards, rotating" => {
            Some(LogEvent::TimeLeapt { direction: Direction::Backward })
        }
        "Can't synchronise: no majority" | "Can't synchronize: no majority" => {
            Some(LogEvent::NoMajority)
        }
        "frequency error " => {
            rest.contains("PPM exceeds").then_some(())?;
            Some(LogEvent::FrequencyBeyondLimit { ppm: number()? })
        }
        "kernel reports TIME_ERROR: " => Some(LogEvent::Unsynchronised),
        "Could not step system clock" => Some(LogEvent::StepRefused),
        "System clock interference detected" => Some(LogEvent::ClockInterference),
        "Initial frequency " => Some(LogEvent::DaemonFrequency { ppm: number()? }),
        _ => {
            // Its digits are grouped: `-123 456 789ns (HostNow=…`.
            let digits: String = rest
                .split("ns")
                .next()?
                .chars()
                .filter(|c| !" ,\u{a0}\u{202f}".contains(*c))
                .collect();
            Some(LogEvent::HostTimeJumped { by_ns: digits.parse().ok()? })
        }
    }
}

/// The whole number after `label`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    digits(text.split_once(label)?.1)
}

/// The whole number at the start.
fn digits(text: &str) -> Option<u64> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests;
