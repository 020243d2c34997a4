//! Causes of lateness that only a machine of its own can force: how often `latency` names each
//! where it is forced, and where it is not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::checks::Check;
use crate::machine::{Machine, TIMED_OUT};
use crate::outcome::Result;
use crate::table::Base;

use super::steal::{Host, LOOP};
use super::{Done, Place};

/// Runs of each, where `TIME` allows.
const TRIES: u32 = 200;

/// Fewer runs show nothing: where none of 20 is wrong, at most 14 % of all runs are, with 95 %
/// confidence (1 − 0.05^(1/20) = 0.139); of 65 it is 4.5 %, of 200 it is 1.5 %.
const LEAST: u32 = 20;

/// For each check. Beside a load of 10 to 30, emulated machines made 10 to 95 runs of 1 s in this
/// time (2026-11-24 and 2026-11-28, docs/guide/latency.md), so 200 runs would take 505 to 4,800 s.
/// For the eight checks of row `latency-7.2` that is 67 min at least; now they take 32 min, and
/// the row's `limit_s` is 40 min.
const TIME: Duration = Duration::from_secs(240);

/// Runs of one command in the machine, and its limit there, s.
const BATCH: u32 = 5;
const BATCH_S: u32 = 120;

/// The least share of forced runs that name the cause, and the greatest of others.
const RIGHT: f64 = 0.95;
const CONTROL: f64 = 0.02;

/// Causes that a machine has from its boot on, and the figure by which each is seen.
const BOOTED: [(&str, &str); 2] = [("coarse-timers", "timer-wake-up"), ("dear-exits", "exit")];

/// Limits of the host's halt polling, µs, and how well each is to be found. The last one is longer
/// than what an emulated host takes to halt and to wake up.
const LIMITS_US: [u32; 4] = [50, 200, 400, 1000];
const WITHIN: f64 = 0.25;

/// Whether a run has its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Forced,
    Control,
}

pub(super) fn run(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    for (cause, figure) in BOOTED {
        let is_forced = place.row.late_by.iter().any(|other| other == cause);
        let kind = if is_forced { Kind::Forced } else { Kind::Control };
        done.checks.push(tried(machine, cause, kind, &latency(figure))?);
    }
    if place.row.base == Base::Kvm {
        stolen(place, machine, done)?;
        return polled(place, machine, done);
    }
    if place.row.late_by.is_empty() {
        tick(machine, done)?;
        slow_clock(machine, done)?;
        quota(machine, done)?;
    }
    Ok(())
}

/// A run of one figure, as short as it may be.
fn latency(figure: &str) -> String {
    format!("parachron latency --only {figure} --duration 1s --format json")
}

/// A loop on the first CPU, which has a periodic tick, and on the second one, which is in
/// `nohz_full` (row.append) and has none while one thread runs there.
fn tick(machine: &mut Machine, done: &mut Done) -> Result {
    for (mask, kind) in [(1, Kind::Forced), (2, Kind::Control)] {
        let line = format!("taskset {mask} {}", latency("gap"));
        done.checks.push(tried(machine, "tick", kind, &line)?);
    }
    Ok(())
}

/// The kernel's clock read over an emulated bus, and the CPU's own counter again.
fn slow_clock(machine: &mut Machine, done: &mut Done) -> Result {
    for (source, kind) in [("acpi_pm", Kind::Forced), ("tsc", Kind::Control)] {
        machine.execute(&format!("echo {source} >$CLOCKSOURCE"))?;
        let now = machine.execute("cat $CLOCKSOURCE")?;
        if now != source {
            return Err(format!("the clock source is {now}, not {source}"));
        }
        done.checks.push(tried(machine, "slow-clock", kind, &latency("exit"))?);
    }
    Ok(())
}

/// A control group of version 2.
fn quota(machine: &mut Machine, done: &mut Done) -> Result {
    machine.execute(
        "mount -t cgroup2 none /sys/fs/cgroup && echo +cpu >/sys/fs/cgroup/cgroup.subtree_control \
         && mkdir /sys/fs/cgroup/late",
    )?;
    for (limit, kind) in [("2000 20000", Kind::Forced), ("max 20000", Kind::Control)] {
        machine.execute(&format!("echo {limit} >/sys/fs/cgroup/late/cpu.max"))?;
        let inside = format!("echo 0 >/sys/fs/cgroup/late/cgroup.procs; {}", latency("gap"));
        done.checks.push(tried(machine, "quota", kind, &format!("sh -c '{inside}'"))?);
    }
    Ok(())
}

/// Another program of the host takes turns at the vCPU's CPU.
fn stolen(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let mut host = Host::connect(place, machine)?;
    host.keep_apart()?;
    done.checks.push(tried(machine, "stolen", Kind::Control, &latency("gap"))?);
    host.execute(&format!("taskset 1 {LOOP} >/dev/null 2>&1 & echo $! >/tmp/busy"))?;
    let forced = tried(machine, "stolen", Kind::Forced, &latency("gap"));
    host.execute("kill -9 $(cat /tmp/busy)")?;
    done.checks.push(forced?);
    host.pin("3", "3")
}

/// The host's limit of halt polling, as the sweep of idle gaps shows it.
fn polled(place: &Place<'_>, machine: &mut Machine, done: &mut Done) -> Result {
    let mut host = Host::connect(place, machine)?;
    const LIMIT: &str = "/sys/module/kvm/parameters/halt_poll_ns";
    let before = host.execute(&format!("cat {LIMIT}"))?;
    let mut finds = false;
    // 0 is the control, and comes last: a sweep that never finds a limit proves nothing by it.
    for limit_us in LIMITS_US.into_iter().chain([0]) {
        host.execute(&format!("echo {limit_us}000 >{LIMIT}"))?;
        let line = "parachron latency --duration 5s --format json";
        let report = machine.line.run("latency", 240, line)?.stdout;
        let report = serde_json::from_str::<Value>(&report).unwrap_or_default();
        let check =
            if limit_us == 0 { not_found(&report, finds) } else { found(limit_us, &report) };
        finds |= report["latency"]["sweep"]["limit"].is_object();
        done.checks.push(check);
    }
    host.execute(&format!("echo {before} >{LIMIT}")).map(drop)
}

/// A host that does not poll has no limit. `finds`: the sweep found one at another setting.
fn not_found(report: &Value, finds: bool) -> Check {
    let what = "latency: halt polling is not found where the host does not poll".to_owned();
    let sweep = &report["latency"]["sweep"];
    let limit = &sweep["limit"];
    let found = limit["ns"]
        .as_f64()
        .map_or("no step".to_owned(), |ns| format!("a step after {:.0} µs", ns / 1e3));
    let check = Check::new(what, found, limit.is_null());
    match (sweep.is_object(), limit.is_null() && !finds) {
        (false, _) => check.not_measured("the sweep was not measured"),
        (true, true) => check.not_measured("no limit was found at any other setting either"),
        (true, false) => check,
    }
}

/// A limit that is found is right; none is no answer.
fn found(limit_us: u32, report: &Value) -> Check {
    let what = format!("latency: halt polling for up to {limit_us} µs is found within 25 %");
    let sweep = &report["latency"]["sweep"];
    let us = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e3;
    let limit = &sweep["limit"];
    if limit.is_object() {
        let [found_us, quick_us, slow_us] =
            ["ns", "quick_ns", "slow_ns"].map(|name| us(&limit[name]));
        let right = (found_us / f64::from(limit_us) - 1.0).abs() <= WITHIN;
        let levels = format!("{quick_us:.0} µs late up to it, {slow_us:.0} beyond");
        return Check::new(what, format!("{found_us:.0} µs: {levels}"), right);
    }
    let late = sweep["late_ns"].as_array().into_iter().flatten();
    let late =
        late.step_by(6).map(|point| format!("{:.0} after {:.0}", us(&point[1]), us(&point[0])));
    let seen = format!("no step: µs late after µs idle: {}", late.collect::<Vec<_>>().join(", "));
    Check::new(what, seen.clone(), false).not_measured(&seen)
}

/// How often a cause is named.
fn tried(machine: &mut Machine, cause: &str, kind: Kind, line: &str) -> Result<Check> {
    let (start, mut runs, mut named) = (Instant::now(), 0, 0);
    while runs < TRIES && (runs == 0 || start.elapsed() < TIME) {
        let record = machine.line.run("latency", BATCH_S, &batch(cause, line))?;
        // On a busy system even a few runs may take longer than that.
        if record.status == TIMED_OUT {
            break;
        }
        let text = record.stdout;
        let (done, right) = counts(&text).ok_or_else(|| format!("latency: {text:?}"))?;
        runs += done;
        named += right;
    }
    Ok(judge(cause, kind, named, runs))
}

/// Some runs, of which it prints how many ended well, and how many of them named the cause.
fn batch(cause: &str, line: &str) -> String {
    let rule = json!(format!("late-{cause}"));
    format!(
        "n=0 r=0; for i in $(seq {BATCH}); do {line} >/tmp/latency && n=$((n+1)) && \
         grep -q '\"rule\": {rule}' /tmp/latency && r=$((r+1)); done; echo $n $r"
    )
}

fn counts(text: &str) -> Option<(u32, u32)> {
    let (runs, named) = text.trim().split_once(' ')?;
    Some((runs.parse().ok().filter(|runs| *runs > 0)?, named.parse().ok()?))
}

fn judge(cause: &str, kind: Kind, named: u32, runs: u32) -> Check {
    let share = f64::from(named) / f64::from(runs.max(1));
    let (what, right) = match kind {
        Kind::Forced => ("is named where it is forced", share >= RIGHT),
        Kind::Control => ("is not named where it is not forced", share <= CONTROL),
    };
    let what = format!("latency: {cause} {what}");
    let found = format!("{named} of {runs} runs");
    let check = Check::new(what, found, right);
    if (right || runs == 0) && runs < LEAST {
        return check.not_measured(&format!("{runs} runs in {} s", TIME.as_secs()));
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Verdict;

    #[test]
    fn a_cause_is_named_where_it_is_forced_and_nowhere_else() {
        let verdict = |kind, named, runs| judge("quota", kind, named, runs).verdict();
        assert_eq!(verdict(Kind::Forced, 190, 200), Verdict::Passed);
        assert_eq!(verdict(Kind::Forced, 189, 200), Verdict::Failed);
        assert_eq!(verdict(Kind::Control, 4, 200), Verdict::Passed);
        assert_eq!(verdict(Kind::Control, 5, 200), Verdict::Failed);
        assert_eq!(verdict(Kind::Forced, 5, 5), Verdict::NotMeasured, "too few");
        assert_eq!(verdict(Kind::Forced, 0, 5), Verdict::Failed, "few, and wrong");
        assert_eq!(verdict(Kind::Forced, 0, 0), Verdict::NotMeasured, "none in time");
    }

    #[test]
    fn runs_are_counted_as_the_machine_prints_them() {
        assert_eq!(counts("5 3\n"), Some((5, 3)));
        assert_eq!(counts("0 0\n"), None, "no run ended well");
        assert_eq!(counts("sh: parachron: not found\n"), None);
        assert!(batch("quota", "true").contains("grep -q '\"rule\": \"late-quota\"' /tmp"));
    }

    /// As `parachron latency --format json` prints it.
    fn report(sweep: &str) -> Value {
        format!("{{\"latency\":{{\"sweep\":{sweep}}}}}").parse().unwrap()
    }

    #[test]
    fn a_host_that_does_not_poll_has_no_limit() {
        let verdict = |sweep: &str, finds: bool| not_found(&report(sweep), finds).verdict();
        let none = r#"{"limit":null,"late_ns":[]}"#;
        assert_eq!(verdict(none, true), Verdict::Passed);
        assert_eq!(verdict(none, false), Verdict::NotMeasured, "it finds nothing anywhere");
        assert_eq!(verdict(r#"{"limit":{"ns":76000.0}}"#, false), Verdict::Failed);
        assert_eq!(verdict("null", true), Verdict::NotMeasured, "no sweep is no result");
    }

    #[test]
    fn a_limit_that_is_found_is_right_and_none_is_no_answer() {
        let verdict = |sweep: &str| found(200, &report(sweep)).verdict();
        assert_eq!(verdict(r#"{"limit":{"ns":240000.0}}"#), Verdict::Passed);
        assert_eq!(verdict(r#"{"limit":{"ns":260000.0}}"#), Verdict::Failed);
        assert_eq!(verdict(r#"{"limit":null,"late_ns":[[10000.0,9e5]]}"#), Verdict::NotMeasured);
    }
}
