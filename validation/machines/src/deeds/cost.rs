//! What `watch` and `parachrond` cost on a machine of many CPUs, by the kernel's own
//! account of them. The emulator counts instructions (`-icount`): one takes a nanosecond,
//! however busy this system is, and idle time costs none.

use std::time::Duration;

use pvclock::vmclock::VmClockInfo;

use crate::base::PACKAGED_DAEMON;
use crate::checks::Check;
use crate::machine::Machine;
use crate::outcome::{Failure, Unavailable};

use super::{Done, Place, vmclock};

/// For how long it is counted, s: as long as it takes at the most until the daemon looks for
/// others again, which reads the name of each process.
const COUNTED_S: f64 = 300.0;
/// Two readings of /proc/uptime, which has hundredths.
const HUNDREDTHS_S: f64 = 0.02;

/// A boot of many CPUs, which come up one after another.
const BOOT: Duration = Duration::from_secs(300);

/// What a program is held to. Fewer wake-ups than the least are none of a program that
/// samples as often as it does by default.
#[derive(Debug)]
struct Bars {
    what: &'static str,
    /// Of one CPU.
    percent: f64,
    /// Wake-ups a second.
    least: f64,
    most: f64,
}

/// Four samples a second.
const WATCH: Bars = Bars {
    what: "watch: on many CPUs below 0.1 % of one, by the kernel's account",
    percent: 0.1,
    least: 3.9,
    most: f64::INFINITY,
};

/// Two samples a second, and no other wake-up: no source of this machine is looked at
/// between two samples (docs/decisions/disruption-verdicts.md). A sample at either end of the time is one
/// more.
const DAEMON: Bars = Bars {
    what: "keep: parachrond by its defaults, on many CPUs: below 0.05 % of one and 2 wake-ups a \
           second, by the kernel's account",
    percent: 0.05,
    least: 1.95,
    most: 2.05,
};

/// Four wake-ups a second are wanted, and six are known: of two samples, and of two looks at the
/// page after each (docs/decisions/disruption-verdicts.md).
const BY_PAGE: Bars = Bars {
    what: "keep: parachrond by a VMClock page in a file, on many CPUs: below 0.05 % of one and 4 \
           wake-ups a second, by the kernel's account",
    percent: 0.05,
    least: 1.95,
    most: 4.05,
};

/// Resident, kB: what an operator is promised.
const RESIDENT_KB: u64 = 4096;

/// What each program is started by; the daemon in the folders that its unit makes.
const WATCHED: &str = "parachron watch --plain >/tmp/watch 2>&1";
const FOLDERS: &str = "mkdir -p /run/parachron /var/lib/parachron /var/run/clockbound";
const DAEMON_NAME: &str = "parachrond";

/// The page in a file, as this kernel has no driver of a VMClock (drivers/ptp/ptp_vmclock.c came
/// with 6.13); the configuration that names the file; and the daemon's log.
const PAGE: &str = "/tmp/vmclock0";
const PAGE_BYTES: u32 = 4096;
const CONFIGURATION: &str = "/tmp/by-page.toml";
const LOG: &str = "/tmp/by-page";

/// The line by which the daemon logs that its clock is right by the page.
const FOLLOWED: &str = "grep 'synchronised: .*vmclock' /tmp/by-page | head -n 1";

/// A program has started by then.
const SETTLED_S: u32 = 5;

/// A line that starts a program, and accounts for it: time on a CPU, ns, and how often it
/// was put on one, of all its threads, after its start and five minutes later (Linux:
/// Documentation/scheduler/sched-stats.rst); what is resident, kB, as the kernel shows it
/// and as it counts its pages: on many CPUs the former is of counters that each CPU has a
/// part of (Linux: fs/proc/task_mmu.c). Last how many CPUs `/proc/stat` has.
fn line(program: &str) -> String {
    format!(
        "{program} & sleep {SETTLED_S}; \
         account() {{ cat /proc/$!/task/*/schedstat | \
         awk '{{ran += $1; turns += $3}} END{{printf \"%d %d \", ran, turns}}'; \
         cut -d ' ' -f 1 /proc/uptime; }}; account; sleep 300; account; \
         awk '/^VmRSS:/{{print $2}}' /proc/$!/status; awk '/^Rss:/{{print $2}}' \
         /proc/$!/smaps_rollup; kill $!; wait $!; grep -c '^cpu[0-9]' /proc/stat"
    )
}

pub(super) fn run(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    let mut machine = Machine::start(place.start, place.folder)?;
    machine.line.ready(BOOT).map_err(|why| machine.failure(&why))?;
    let programs = machine.execute("ls /bin").map_err(|why| machine.failure(&why))?;
    let is_packaged = programs.lines().any(|name| name == PACKAGED_DAEMON);
    let daemon = if is_packaged { PACKAGED_DAEMON } else { DAEMON_NAME };
    let mut account = |program: &str| {
        let record = machine.line.run("cost", 600, &line(program));
        record.map_err(|why| machine.failure(&why))
    };
    let watched = account(WATCHED)?;
    done.checks.push(judge(&WATCH, &watched.stdout));
    let kept = account(&format!("{FOLDERS}; {daemon} >/tmp/parachrond 2>&1"))?;
    done.checks.push(judge(&DAEMON, &kept.stdout));
    if is_packaged {
        done.checks.push(resident(&kept.stdout));
    } else {
        let why = "what is resident of parachrond: it is not packaged";
        done.skipped.push(Unavailable::new(why, "build it: cargo xtask release"));
    }
    let by_page = by_page(&mut machine, daemon).map_err(|why| machine.failure(&why))?;
    done.checks.push(by_page);
    Ok(())
}

/// What the daemon costs where a page shows the host's time. It reads the file as it would read
/// the driver's.
fn by_page(machine: &mut Machine, daemon: &str) -> Result<Check, String> {
    let page = page(&machine.execute("guest-clock tsc-pairs 2 1000")?)?;
    let octal: Vec<String> = page.to_bytes().iter().map(|byte| format!("\\{byte:03o}")).collect();
    let octal = octal.concat();
    machine.execute(&format!(
        "printf '{octal}' >{PAGE} && printf \"vmclock = '{PAGE}'\\n\" >{CONFIGURATION}"
    ))?;
    let program = format!("{daemon} --config {CONFIGURATION} >{LOG} 2>&1");
    let kept = machine.line.run("cost", 600, &line(&program))?;
    let followed = machine.execute(FOLLOWED)?;
    let mut check = judge(&BY_PAGE, &kept.stdout);
    check.passed &= !followed.is_empty();
    check.found += &if followed.is_empty() {
        "; the page was not followed".to_owned()
    } else {
        format!("; {followed}")
    };
    Ok(check)
}

/// A page by two lines of `guest-clock tsc-pairs`: it shows this machine's time of day, fast by
/// some ppm, by its TSC.
fn page(pairs: &str) -> Result<VmClockInfo, String> {
    let figures = |line: &str| -> Option<[u64; 6]> {
        let figures: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        figures.ok()?.try_into().ok()
    };
    let lines: Option<Vec<[u64; 6]>> = pairs.lines().map(figures).collect();
    let Some([first, last]) = lines.as_deref() else {
        return Err(format!("guest-clock printed {pairs:?}"));
    };
    let counts = last[4].wrapping_sub(first[4]) as f64;
    let hz = counts / last[3].wrapping_sub(first[3]) as f64 * 1e9;
    let empty = VmClockInfo { size: PAGE_BYTES, ..VmClockInfo::ZERO };
    Ok(vmclock::filled(empty, hz, (Duration::from_nanos(last[0]), last[1])))
}

/// What the kernel accounts for.
#[derive(Debug)]
struct Account {
    ran_ns: f64,
    turns: f64,
    over_s: f64,
    /// As shown, and as counted.
    resident_kb: [u64; 2],
    cpus: u64,
}

impl Account {
    /// As [`line()`] prints it.
    fn parse(text: &str) -> Result<Self, String> {
        let not = || format!("not counted: {text:?}");
        let lines: Vec<&str> = text.lines().collect();
        let [before, after, shown_kb, counted_kb, cpus] = lines[..] else { return Err(not()) };
        let figures = |line: &str| -> Option<[f64; 3]> {
            let figures: Result<Vec<f64>, _> = line.split(' ').map(str::parse).collect();
            figures.ok()?.try_into().ok()
        };
        let (before, after) = figures(before).zip(figures(after)).ok_or_else(not)?;
        let [ran_ns, turns, over_s] = [0, 1, 2].map(|at| after[at] - before[at]);
        let whole = |line: &str| line.parse().map_err(|_| not());
        let resident_kb = [whole(shown_kb)?, whole(counted_kb)?];
        Ok(Self { ran_ns, turns, over_s, resident_kb, cpus: whole(cpus)? })
    }
}

fn judge(bars: &Bars, text: &str) -> Check {
    Check::of(bars.what, Account::parse(text), |Account { ran_ns, turns, over_s, cpus, .. }| {
        let percent = ran_ns / 1e9 / over_s * 100.0;
        let text = format!(
            "{cpus} CPUs: {percent:.4} % over {over_s:.0} s, {:.1} wake-ups a second of {:.0} µs",
            turns / over_s,
            ran_ns / turns / 1e3
        );
        let counted = over_s >= COUNTED_S - HUNDREDTHS_S;
        let woken = (bars.least..=bars.most).contains(&(turns / over_s));
        (text, counted && woken && percent < bars.percent)
    })
}

fn resident(text: &str) -> Check {
    let what = "keep: the packaged parachrond: at most 4 MB resident";
    Check::of(what, Account::parse(text), |Account { resident_kb: [shown, counted], .. }| {
        let found = format!("VmRSS {shown} kB, pages of {counted} kB");
        (found, (1..=RESIDENT_KB).contains(&shown) && (1..=RESIDENT_KB).contains(&counted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ran_ns: u64, turns: u64) -> String {
        format!("1000 10 5.50\n{} {} 305.50\n2700\n2712\n64\n", 1000 + ran_ns, 10 + turns)
    }

    #[test]
    fn a_watch_that_ran_is_held_to_the_bar() {
        let watched = |ran_ns, turns| judge(&WATCH, &after(ran_ns, turns));
        assert!(watched(295_000_000, 1200).passed);
        assert_eq!(
            watched(295_000_000, 1200).found,
            "64 CPUs: 0.0983 % over 300 s, 4.0 wake-ups a second of 246 µs"
        );
        assert!(!watched(305_000_000, 1200).passed, "dearer");
        assert!(!watched(5_000_000, 100).passed, "it did not watch");
        assert!(!judge(&WATCH, "1000 10 5.50\n").passed, "it ended");
        let short = after(5_000_000, 1200).replace("305.50", "300.50");
        assert!(!judge(&WATCH, &short).passed, "less than that time");
    }

    #[test]
    fn the_daemon_is_held_to_its_bars() {
        let kept = |ran_ns, turns| judge(&DAEMON, &after(ran_ns, turns)).passed;
        assert!(kept(145_000_000, 600) && kept(145_000_000, 601));
        assert!(!kept(155_000_000, 600), "dearer");
        assert!(!kept(145_000_000, 1200), "woken for more than samples");
        assert!(!kept(145_000_000, 300), "it did not sample");
        assert!(!judge(&DAEMON, "").passed, "it did not start");
    }

    #[test]
    fn by_a_page_six_wake_ups_a_second_are_above_the_bar() {
        let kept = |ran_ns, turns| judge(&BY_PAGE, &after(ran_ns, turns)).passed;
        assert!(kept(145_000_000, 1200) && !kept(145_000_000, 1800));
        assert!(!kept(155_000_000, 1200), "dearer");
    }

    #[test]
    fn a_page_shows_the_machines_time_by_its_tsc() {
        // A TSC of 1 GHz, looked at 1 s apart.
        let first = "1800000000000000000 5000000000 1800000000000000100 7000000000 7000000050 \
                     7000000100";
        let last = "1800000001000000000 6000000000 1800000001000000100 8000000000 8000000050 \
                    8000000100";
        let page = page(&format!("{first}\n{last}")).unwrap();
        let utc = page.time_at(26_000_000_000).unwrap().utc().unwrap();
        // 20 s later, 50 ppm fast.
        let fast_ns = utc.since_1970_ns - 1_800_000_021_000_000_000;
        assert!((fast_ns - 1_000_000).abs() < 100, "{fast_ns}");
        assert!(super::page(first).is_err() && super::page("").is_err());
    }

    #[test]
    fn what_is_resident_is_the_greater_of_two_figures() {
        let of = |shown: &str, counted: &str| {
            resident(&after(1, 120).replace("2700", shown).replace("2712", counted)).passed
        };
        assert!(of("2700", "2712") && of("4096", "4096"));
        assert!(!of("4097", "2712") && !of("2700", "4097"));
        assert!(!of("0", "2712") && !of("2700", "") && !of("x", "2712"));
    }
}
