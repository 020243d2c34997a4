//! The gate of `parachrond` (docs/guide/restores.md) in a machine that is saved with its gate closed
//! and put back seconds later, many times.
//!
//! Two writers print the time of day to the host: one in a control group of the gate, and one
//! outside of it, which runs into each restore as programs do without a gate. The second is the
//! control: where it shows no wrong stamp, the first has shown nothing.
//!
//! Each stamp carries the error bound that was published when it was read. Outside the gate,
//! too, no clock is further off than a bound that a client takes: a client compares the marker of
//! the bound with the VMClock page's, and so the first read after a restore finds none.
//!
//! The ports are virtio-serial. Each byte of a 16550 is an exit, and under emulation that passes
//! some 30 kB a second: 700 stamps. A file in the machine would be put back with it.

mod stamps;

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::checks::{Check, Checks};
use crate::machine::{Machine, Start};
use crate::outcome::{Failure, Result};

use super::service::host::{Host, Reason};
use super::snapshot::{self, DISK};
use super::{Done, Place};
use stamps::{Shown, Stamp, Writer, restored};

/// The default of `gate-bound`, ns.
const BOUND_NS: i64 = 10_000_000;

/// How long the machine is away, beside the time that loading takes.
const AWAY: Duration = Duration::from_secs(3);

/// How long it runs on before it is saved again.
const RUNS: Duration = Duration::from_millis(1500);

/// What was written before the writer froze has arrived once nothing came for so long.
const DRAINED: Duration = Duration::from_millis(200);

/// How long saving or loading all of its memory may take.
const MEMORY: Duration = Duration::from_secs(90);

/// Twice the default of `gate-limit`: then it has opened at any rate.
const OPENS: Duration = Duration::from_secs(20);

/// What a restore takes at most, beside the machine's boot, s.
const EACH_S: u32 = 30;

/// How often the daemon is killed, and how soon the writer writes again, by this system's clock.
const KILLS: usize = 5;
const THAWED: Duration = Duration::from_secs(2);

/// What frozen processes there are, and what is listed as frozen.
const LEFT: &str = "grep -h frozen /sys/fs/cgroup/gated/cgroup.events; \
    ls /run/parachron/gate.frozen 2>/dev/null; true";

/// The service of a virtio-serial port, whose names udev would show.
const PORTS: &str = "mkdir -p /dev/virtio-ports; for port in /sys/class/virtio-ports/*; do \
    [ ! -s $port/name ] || ln -sf ../${port##*/} /dev/virtio-ports/$(cat $port/name); done";

/// The host's clock by its port. A machine that is put back every few seconds steps its clock as
/// often, which `burst` and `min-interval` would slow down after some.
const CONFIGURATION: &str = "host-port = \\\"/dev/virtio-ports/org.parachron.time\\\"\\n\
    gate = [\\\"/gated\\\"]\\nmin-interval = \\\"1s\\\"\\nburst = 100\\n";

/// The groups of the two writers: `gate` lists the first.
const GROUPS: &str = "mount -t cgroup2 cgroup2 /sys/fs/cgroup && \
    mkdir /sys/fs/cgroup/gated /sys/fs/cgroup/free";

const FOLDERS: &str =
    "mkdir -p /etc/parachron /run/parachron /var/lib/parachron /var/run/clockbound";

/// As packaging/90-parachron.rules has it, so that the daemon publishes the marker.
const READABLE: &str = "chmod 444 /dev/vmclock0";

/// Until it replies, or has ended.
const START: &str = "parachrond >>/tmp/log 2>&1 & echo $! >/tmp/daemon; \
    until parachron status >/dev/null 2>&1 || ! kill -0 $!; do usleep 20000; done; \
    kill -0 $! || { cat /tmp/log; exit 1; }";

pub(super) fn run(place: &Place<'_>, done: &mut Done) -> Result<(), Failure> {
    let restores = place.workshop.restores;
    let limit_s = place.start.limit_s + restores * EACH_S;
    let start = Start { limit_s, ..place.start.clone() };
    let mut machine = Machine::start(&start, place.folder)?;
    let mut all = || -> Result {
        machine.line.ready(place.workshop.boot)?;
        let mut gated = Gated::start(place, &mut machine)?;
        let taken = gated.restore_often(&mut machine, restores);
        // What was measured until something failed stays.
        judge(&gated.restores, &mut done.checks);
        taken?;
        done.checks.push(killed(&mut gated, &mut machine)?);
        Ok(())
    };
    let worked = all();
    Ok(worked.map_err(|why| machine.failure(&why))?)
}

/// The daemon, its host, and the writers.
struct Gated {
    host: Host,
    gated: Writer,
    free: Writer,
    restores: Vec<Restore>,
}

/// What one restore showed.
#[derive(Debug)]
struct Restore {
    /// Of the writer in the gate, and of the one outside.
    gated: Shown,
    free: Shown,
    /// From the resume to the first stamp of the gated writer, here; none where none came.
    held: Option<Duration>,
    /// How the daemon logged the opening.
    opened: String,
    /// How long the machine had been away.
    lost: Duration,
}

impl Gated {
    fn start(place: &Place<'_>, machine: &mut Machine) -> Result<Self, String> {
        let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
        snapshot::create_disk(qmp, &place.folder.join("snapshots.qcow2").display().to_string())?;
        let mut host = Host::connect(&place.folder.join("host"))?;
        let [gated, free] = ["gated", "free"].map(|name| Writer::connect(&place.folder.join(name)));
        for line in [
            PORTS,
            GROUPS,
            FOLDERS,
            READABLE,
            &format!("printf '%b' \"{CONFIGURATION}\" >/etc/parachron/parachrond.toml"),
            START,
            &write_in("gated", 50),
            &write_in("free", 1000),
        ] {
            machine.execute(line)?;
        }
        // A host speaks first, as `parachron tell` does at its start and after each restore.
        host.notice(Reason::Periodic)?;
        let gated = Self { host, gated: gated?, free: free?, restores: Vec::new() };
        gated.await_right(machine)?;
        Ok(gated)
    }

    /// At the start the clock is right by the RTC, to a second.
    fn await_right(&self, machine: &mut Machine) -> Result {
        let mut shown = Shown::default();
        for _ in 0..20 {
            sleep(RUNS);
            shown = Shown::by(&self.gated.take(), BOUND_NS, None);
            if shown.right > 0 && shown.wrong == 0 {
                return Ok(());
            }
        }
        let state = machine.execute("cat /tmp/log; parachron status")?;
        Err(format!("the clock is not right 30 s after parachrond started: {shown:?}\n{state}"))
    }

    fn restore_often(&mut self, machine: &mut Machine, times: u32) -> Result {
        for time in 0..times {
            let restore = self.restore(machine);
            self.restores
                .push(restore.map_err(|why| format!("restore {} of {times}: {why}", time + 1))?);
        }
        Ok(())
    }

    /// Closes the gate, saves the machine, and puts it back after a while.
    fn restore(&mut self, machine: &mut Machine) -> Result<Restore, String> {
        machine.execute("parachron gate freeze")?;
        // To a frozen writer it would pile up.
        self.gated.send(false);
        let last = self.gated.drain(DRAINED)?.number;
        let (saved_s, resumed_s) = save_and_load(machine, || drop(self.free.take()))?;
        self.host.notice(Reason::Resumed)?;
        self.gated.send(true);
        let first = self.first(last);
        sleep(RUNS);
        let (rest, free) = (self.gated.take(), restored(self.free.take()));
        let stamps: Vec<Stamp> = first.into_iter().chain(rest).collect();
        let resumed_ns = (resumed_s * 1e9) as i64;
        let held_ns = first.map(|stamp| stamp.at_ns - resumed_ns);
        Ok(Restore {
            gated: Shown::by(&stamps, BOUND_NS, Some(resumed_ns)),
            free: Shown::by(&free, BOUND_NS, None),
            held: held_ns.map(|ns| Duration::from_nanos(ns.max(0) as u64)),
            opened: opened(machine)?,
            lost: Duration::from_secs_f64(resumed_s - saved_s),
        })
    }

    /// The first stamp after one of a number.
    fn first(&self, last: u64) -> Option<Stamp> {
        loop {
            let stamp = self.gated.next(OPENS)?;
            if stamp.number > last {
                return Some(stamp);
            }
        }
    }
}

/// The daemon is killed after a restore, before it has the time, as its host does not answer: its
/// watcher thaws, by the stamps of the gated writer. `crates/daemon/tests/program/gate.rs` has the other
/// kills.
fn killed(gated: &mut Gated, machine: &mut Machine) -> Result<Check> {
    let mut found = Vec::new();
    for _ in 0..KILLS {
        machine.execute("parachron gate freeze")?;
        sleep(DRAINED);
        gated.host.keep_silent(true);
        save_and_load(machine, || ())?;
        gated.gated.take();
        sleep(DRAINED);
        let still = gated.gated.take().len();
        let begun = Instant::now();
        machine.execute("kill -9 $(cat /tmp/daemon)")?;
        let thawed = gated.gated.next(THAWED).map(|_| begun.elapsed());
        let left = machine.execute(LEFT)?;
        machine.execute(START)?;
        gated.host.keep_silent(false);
        found.push((still, thawed, left));
    }
    let is_right = found
        .iter()
        .all(|(still, thawed, left)| *still == 0 && thawed.is_some() && left == "frozen 0");
    let what = "gate: the daemon is killed after loadvm, before it has the time, and its watcher \
                thaws: nothing stays frozen";
    Ok(Check::new(what, format!("stamps before, thawed after, left: {found:?}"), is_right))
}

/// Saves the machine and puts it back after a while; when QEMU stopped it to save it, and when it
/// resumed it, s.
fn save_and_load(
    machine: &mut Machine,
    before_loading: impl FnOnce(),
) -> Result<(f64, f64), String> {
    let qmp = machine.qmp.as_mut().ok_or("a snapshot needs QMP")?;
    qmp.stops();
    let arguments = json!({ "tag": "gated", "vmstate": DISK, "devices": [DISK] });
    qmp.job("snapshot-save", arguments.clone(), MEMORY)?;
    sleep(AWAY);
    before_loading();
    qmp.job("snapshot-load", arguments, MEMORY)?;
    let stops = qmp.stops();
    let (Some((saved_s, _)), Some((_, resumed_s))) = (stops.first(), stops.last()) else {
        return Err("QEMU did not stop it to save and to load it".to_owned());
    };
    // Its room on the disk is the next one's.
    let arguments = json!({ "tag": "gated", "devices": [DISK] });
    qmp.job("snapshot-delete", arguments, MEMORY)?;
    Ok((*saved_s, *resumed_s))
}

/// A writer in a control group, at its port.
fn write_in(group: &str, interval_us: u32) -> String {
    format!(
        "sh -c 'echo 0 >/sys/fs/cgroup/{group}/cgroup.procs; \
         exec guest-clock stamps {interval_us} 0<>/dev/virtio-ports/{group}' 2>>/tmp/log &"
    )
}

/// How the daemon logged the last opening of the gate.
fn opened(machine: &mut Machine) -> Result<String, String> {
    let status = machine.execute("parachron status --format json")?;
    let status: Value = serde_json::from_str(&status).map_err(|why| format!("status: {why}"))?;
    let recent = crate::checks::list(&status["recent"]);
    let opened = recent.iter().rfind(|line| line["event"] == "gate opened");
    let message = opened.and_then(|line| line["message"].as_str());
    Ok(message.unwrap_or("no opening is logged").to_owned())
}

fn judge(restores: &[Restore], checks: &mut Checks) {
    let all: Vec<&Restore> = restores.iter().collect();
    checks.extend([gated(&all), control(restores), held(&all), bounds(restores)]);
}

impl Restore {
    fn opened_right(&self) -> bool {
        self.opened.contains("the clock is off by")
    }
}

fn sum(shown: impl Iterator<Item = Shown>) -> Shown {
    shown.fold(Shown::default(), Shown::and)
}

/// No stamp of the gated writer is wrong, and one that the restore left behind would be seen.
fn gated(restores: &[&Restore]) -> Check {
    let what = format!(
        "gate: savevm with a closed gate, loadvm {} s later: no stamp of a gated program is off \
         by more than {} ms",
        AWAY.as_secs(),
        BOUND_NS / 1_000_000
    );
    let all = sum(restores.iter().map(|restore| restore.gated));
    let wrote = restores.iter().all(|restore| restore.gated.count() > 1);
    // What a restore leaves behind would be seen.
    let would_show = restores
        .iter()
        .all(|restore| (restore.gated.roughly_ns + BOUND_NS) as u128 <= restore.lost.as_nanos());
    let found = format!(
        "{} restores, {} stamps: {} off by more, {} by less, {} known too roughly for the bound, \
         {} not received; \
         the worst is off by at least {:.3} ms; each but the first of a restore is known to \
         {:.1} ms or better",
        restores.len(),
        all.count(),
        all.wrong,
        all.right,
        all.open,
        all.missing,
        all.worst_ns as f64 / 1e6,
        all.roughly_ns as f64 / 1e6,
    );
    Check::new(
        what,
        found,
        all.wrong == 0 && all.missing == 0 && !restores.is_empty() && wrote && would_show,
    )
}

/// Without the gate each restore gives wrong stamps, and the check above sees such.
fn control(restores: &[Restore]) -> Check {
    let all = sum(restores.iter().map(|restore| restore.free));
    let wrong = restores.iter().filter(|restore| restore.free.wrong > 0).count();
    let found = format!(
        "in {wrong} of {} restores, {} of {} stamps; the worst is off by at least {:.3} s",
        restores.len(),
        all.wrong,
        all.count(),
        all.worst_ns as f64 / 1e9,
    );
    let what = "gate: the same machine: a program outside the gate writes wrong stamps after \
                every restore";
    Check::new(what, found, wrong == restores.len() && wrong > 0)
}

/// What is published holds from the first stamp after the resume on. That the same bound would not
/// hold for a client that does not look at the marker shows that a violated one is seen.
fn bounds(restores: &[Restore]) -> Check {
    let all = sum(restores.iter().flat_map(|restore| [restore.gated, restore.free]));
    let stale = restores.iter().filter(|restore| restore.free.stale > 0).count();
    let of_gated: usize = restores.iter().map(|restore| restore.gated.bounded).sum();
    let found = format!(
        "{} restores, {} stamps known better than their bound: {} beyond it; without the marker {} stamps would be, \
         after {stale} restores",
        restores.len(),
        all.bounded,
        all.violated,
        all.stale,
    );
    let what = "gate: no clock is further off than the bound that a client of ClockBound takes, \
                from the first stamp after the restore on, in the gate and outside";
    Check::new(
        what,
        found,
        all.violated == 0 && of_gated > 0 && stale == restores.len() && stale > 0,
    )
}

/// The clock is measured as right each time, and the limit opens the gate at no time.
fn held(restores: &[&Restore]) -> Check {
    let others = restores.iter().filter(|restore| !restore.opened_right());
    let others: Vec<&str> = others.map(|restore| restore.opened.as_str()).collect();
    let mut ms: Vec<f64> = restores
        .iter()
        .filter_map(|restore| restore.held.map(|held| held.as_secs_f64() * 1e3))
        .collect();
    ms.sort_by(f64::total_cmp);
    let found = format!(
        "from the resume to the first stamp: median {:.0} ms, 99.9 % within {:.0} ms, worst {:.0} \
         ms, {} restores{}",
        quantile(&ms, 0.5),
        quantile(&ms, 0.999),
        ms.last().copied().unwrap_or(f64::NAN),
        ms.len(),
        if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) },
    );
    let what = "gate: it opens by a measurement after every restore, and not by its limit";
    let passed = ms.len() == restores.len() && !ms.is_empty() && others.is_empty();
    Check::new(what, found, passed)
}

/// What this share of sorted values is at most; of none no number.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    rank.checked_sub(1).and_then(|index| sorted.get(index)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restore() -> Restore {
        let shown = Shown { right: 900, open: 1, roughly_ns: 40, bounded: 80, ..Shown::default() };
        Restore {
            gated: shown,
            free: Shown { wrong: 300, worst_ns: -3_000_000_000, stale: 20, ..shown },
            held: Some(Duration::from_millis(40)),
            opened: "after 3.2 s: the clock is off by 1.0 ms at most".to_owned(),
            lost: AWAY,
        }
    }

    #[test]
    fn one_wrong_stamp_or_none_at_all_fails_the_gate() {
        assert!(gated(&[&restore(), &restore()]).passed);
        let mut wrong = restore();
        wrong.gated.wrong = 1;
        assert!(!gated(&[&restore(), &wrong]).passed);
        let mut missing = restore();
        missing.gated.missing = 1;
        assert!(!gated(&[&restore(), &missing]).passed);
        let mut silent = restore();
        silent.gated = Shown::default();
        assert!(!gated(&[&restore(), &silent]).passed && !gated(&[]).passed);
        let mut rough = restore();
        rough.gated.roughly_ns = 3_000_000_000;
        assert!(!gated(&[&rough]).passed, "a clock that is 3 s off would not be seen");
    }

    #[test]
    fn a_control_without_a_wrong_stamp_fails() {
        assert!(control(&[restore(), restore()]).passed);
        let mut right = restore();
        right.free.wrong = 0;
        assert!(!control(&[restore(), right]).passed && !control(&[]).passed);
    }

    #[test]
    fn a_bound_that_a_clock_is_beyond_fails_in_the_gate_and_outside() {
        assert!(bounds(&[restore()]).passed);
        for change in [
            |restore: &mut Restore| restore.gated.violated = 1,
            |restore: &mut Restore| restore.free.violated = 1,
            |restore: &mut Restore| restore.free.stale = 0,
            |restore: &mut Restore| restore.gated.bounded = 0,
        ] {
            let mut wrong = restore();
            change(&mut wrong);
            assert!(!bounds(&[wrong]).passed);
        }
        assert!(!bounds(&[]).passed);
    }

    #[test]
    fn a_gate_that_its_limit_opened_fails() {
        let mut late = restore();
        late.held = Some(Duration::from_millis(90));
        let check = held(&[&restore(), &late, &restore()]);
        let found = "median 40 ms, 99.9 % within 90 ms, worst 90 ms, 3 restores";
        assert!(check.passed && check.found.contains(found), "{}", check.found);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!((quantile(&thousand, 0.999), quantile(&[7.0], 0.999)), (999.0, 7.0));
        assert!(quantile(&[], 0.999).is_nan());
        let mut limit = restore();
        limit.opened = "after 10 s: the limit has passed".to_owned();
        let mut never = restore();
        never.held = None;
        assert!(!held(&[&restore(), &limit]).passed && !held(&[&never]).passed);
    }
}
