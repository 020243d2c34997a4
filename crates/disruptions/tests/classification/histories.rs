//! Two thousand histories, ten thousand with `PARACHRON_LONG=1`, of machines drawn at random, each from its seed: all
//! that happens is reported, as what it was, within a second, and of a size and a
//! loss of time that are within the stated bounds; and nothing else is.

use disruptions::Kind;
use pvclock::units::random::SplitMix64;
use test_size::size;

use crate::simulated::{AsleepTsc, DAY, MS, Machine, Running, S, Source, Watch};

fn count() -> u64 {
    size(2_000, 10_000)
}

/// What is drawn from a seed.
struct Draw(SplitMix64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.bits() % limit
    }

    fn part(&mut self) -> f64 {
        self.below(1000) as f64 / 1000.0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// From `least` to `most`, short ones as often as long ones.
    fn ns(&mut self, least: u64, most: u64) -> u64 {
        let doublings = (most as f64 / least as f64).log2();
        (least as f64 * (self.part() * doublings).exp2()) as u64
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// What a machine is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Host {
    Kvm,
    Emulator,
    UserMode,
    Xen,
}

/// What happens to it.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Set(i64),
    Steer(f64),
    /// The TSC runs, the page stops.
    Stop(u64),
    /// Only the CPUs stop.
    StopCpus(u64),
    /// All counters stop.
    StopAll(u64),
    Restore(u64),
    Migrate(u64),
    HostStep(i64),
    Suspend(u64, AsleepTsc),
    XenPause(u64),
    XenSave(u64),
    Steal(u64),
    /// Nothing that concerns a clock: the process was stopped, a CPU went away,
    /// the CPU's frequency changed.
    ProcessStopped(u64),
    CpuGone,
}

impl Fault {
    fn draw(host: Host, draw: &mut Draw) -> Self {
        let (short, long) = (draw.ns(300 * MS, 300 * S), draw.ns(2200 * MS, 3600 * S));
        let sign = if draw.chance() { 1 } else { -1 };
        // A smaller set is lost between two readings of a slow clock.
        let smallest_set = if host == Host::Kvm { 2000 } else { 200_000 };
        let common = [
            Self::Set(sign * draw.ns(smallest_set, 1000 * S) as i64),
            Self::Steer(draw.part() * 100.0),
            Self::ProcessStopped(draw.ns(1300 * MS, 60 * S)),
            Self::Steal(draw.ns(1300 * MS, 60 * S)),
            Self::CpuGone,
        ];
        if draw.below(3) == 0 {
            return draw.one_of(&common);
        }
        let asleep = draw.one_of(&[AsleepTsc::Ran, AsleepTsc::Stood, AsleepTsc::Restarted]);
        let (downtime, step) = (draw.ns(20 * MS, 900 * MS), draw.ns(2000, 9 * MS) as i64);
        match host {
            Host::Kvm => draw.one_of(&[
                Self::Stop(short.max(400 * MS)),
                Self::StopCpus(short.max(1300 * MS)),
                Self::Restore(long),
                Self::Migrate(downtime),
                Self::HostStep(sign * step),
            ]),
            Host::Emulator => draw.one_of(&[Self::StopAll(long), Self::Suspend(long, asleep)]),
            Host::UserMode => Self::StopCpus(short.max(1300 * MS)),
            Host::Xen => draw.one_of(&[Self::XenPause(short.max(1300 * MS)), Self::XenSave(long)]),
        }
    }

    fn happen(self, machine: &mut Machine) {
        match self {
            Self::Set(by_ns) => machine.set_clock(by_ns),
            Self::Steer(ppm) => machine.steer(ppm),
            Self::Stop(ns) => machine.pause(ns, Running::Tsc),
            Self::StopCpus(ns) => machine.pause(ns, Running::All),
            Self::StopAll(ns) => machine.pause(ns, Running::Nothing),
            Self::Restore(ns) => {
                machine.pause(ns, Running::Nothing);
                machine.new_generation();
                machine.log_of_a_fork();
            }
            Self::Migrate(ns) => {
                machine.pause(ns, Running::Nothing);
                machine.mark_disruption();
                machine.other_tsc(2_400_000_000);
            }
            Self::HostStep(by_ns) => machine.step_host(by_ns),
            Self::Suspend(ns, tsc) => {
                machine.suspend(ns, tsc);
                machine.log_of_a_suspend();
            }
            Self::XenPause(ns) => machine.pause_by_xen(ns),
            Self::XenSave(ns) => machine.suspend(ns, AsleepTsc::Stood),
            Self::Steal(ns) => machine.steal(ns, false),
            Self::ProcessStopped(ns) => machine.stop_process(ns, true),
            Self::CpuGone => machine.take_cpu_away(4400),
        }
    }

    /// What it is, and its size, ns, where one is stated; `None`: no disruption.
    fn truth(self) -> Option<(Kind, Option<f64>)> {
        let of = |kind, ns: u64| Some((kind, Some(ns as f64)));
        match self {
            Self::Set(by_ns) => Some((Kind::ClockSet, Some(by_ns as f64))),
            Self::Steer(_) => Some((Kind::Steered, None)),
            Self::Stop(ns) | Self::StopCpus(ns) | Self::StopAll(ns) | Self::XenPause(ns) => {
                of(Kind::Pause, ns)
            }
            Self::Restore(_) => Some((Kind::SnapshotRestored, None)),
            Self::XenSave(ns) => of(Kind::SnapshotRestored, ns),
            Self::Migrate(_) => Some((Kind::Migrated, None)),
            Self::HostStep(by_ns) => Some((Kind::HostStepped, Some(by_ns as f64))),
            Self::Suspend(ns, _) => of(Kind::Suspend, ns),
            Self::Steal(ns) => of(Kind::LongSteal, ns),
            Self::ProcessStopped(_) | Self::CpuGone => None,
        }
    }
}

fn machine(host: Host, draw: &mut Draw) -> Machine {
    let into_day = DAY / 4 + draw.below(DAY / 2);
    let (has_rtc, vmclock) = (draw.chance(), draw.below(3));
    match host {
        Host::Kvm => {
            let source = draw.one_of(&[Source::Tsc, Source::KvmClock, Source::KvmClock]);
            let machine = Machine::new(source, has_rtc, into_day);
            match vmclock {
                0 => machine.without_vmclock(),
                1 => machine.without_generation(),
                _ => machine,
            }
        }
        Host::Emulator => {
            let source = draw.one_of(&[Source::Tsc, Source::Hpet, Source::AcpiPm]);
            let machine = Machine::new(source, true, into_day).without_page();
            if vmclock == 0 { machine.without_vmclock() } else { machine }
        }
        Host::UserMode => {
            Machine::new(Source::Timer, false, into_day).without_page().without_vmclock()
        }
        Host::Xen => Machine::new(Source::Xen, false, into_day).without_page().without_vmclock(),
    }
}

/// One history: why it is not as it should be.
fn history(seed: u64) -> Result<(), String> {
    let draw = &mut Draw(SplitMix64::new(seed));
    let host = draw.one_of(&[Host::Kvm, Host::Kvm, Host::Emulator, Host::UserMode, Host::Xen]);
    let mut watch = Watch::begin(machine(host, draw));
    watch.watch(draw.ns(2 * S, 4 * S));
    let (fault, part) = (Fault::draw(host, draw), draw.part());
    let mut lost_ns = 0.0;
    watch.inject(part, |machine| {
        let before_ns = machine.behind_ns();
        fault.happen(machine);
        lost_ns = (machine.behind_ns() - before_ns) as f64;
    });
    let seen_ns = watch.sampled_ns();
    watch.watch(1500 * MS);
    let wrong =
        |why: &str| Err(format!("seed {seed}: {host:?} {fault:?}: {why}: {:#?}", watch.reported));
    let found = match (fault.truth(), &watch.reported[..]) {
        (None, []) => return Ok(()),
        (Some((kind, size)), [(at_ns, one)]) if one.kinds.contains(kind) => (size, at_ns, one),
        _ => return wrong("not what was caused"),
    };
    let (size_ns, at_ns, one) = found;
    let is_within = |size: disruptions::Size, ns: f64| {
        (size.ns - ns).abs() <= size.bound_ns + 1000.0 + ns.abs() * 1e-5
    };
    if at_ns - seen_ns > S {
        return wrong("late");
    }
    if let Some(size_ns) = size_ns
        && !one.size.is_some_and(|size| is_within(size, size_ns))
    {
        return wrong("not its size");
    }
    if one.behind.is_some_and(|behind| !is_within(behind, lost_ns)) {
        return wrong(&format!("not {lost_ns} ns behind"));
    }
    Ok(())
}

fn histories(part: u64) {
    let wrong: Vec<_> =
        (0..count() / 2).filter_map(|n| history(part * count() / 2 + n).err()).collect();
    let shown = wrong.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {}: {shown}", wrong.len(), count() / 2);
}

#[test]
fn half_of_the_histories() {
    histories(0);
}

#[test]
fn the_other_half() {
    histories(1);
}
