//! Looks at this machine, for whoever follows what happens to its time: cheap,
//! and on one CPU.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disruptions::Sample;
use facts::running::Activity;
use facts::{Fact, Unknown};
use linux::vmclock::VmClockDevice;
use platform::clock::Clock;
use platform::counter::{self, Counter, Tsc};
use platform::cpus::{self, Pinned};
use platform::vmclock_device;
use platform::watching::{
    self, ClockSet, CurrentClocksource, Generations, GrowingLog, KERNEL_LOG, LivePage, Scheduling,
};
use signal_hook::consts::SIGCONT;
use sources::Rtc;
use units::Bracket;

use crate::commands::clocks::knowledge;

/// Brackets to choose the tightest from.
const TRIES: u32 = 4;

/// The RTC shows whole seconds, and reading it costs exits to the host: no
/// more often than this, ns, but still within a second of what happened.
const RTC_EACH_NS: u64 = 700_000_000;

/// What all CPUs did is asked this often, ns.
const ACTIVITY_EACH_NS: u64 = 900_000_000;

/// Where to look: options of each command that does.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Where to look")]
pub(crate) struct Places {
    /// The VMClock page
    #[arg(long, value_name = "FILE", default_value = VmClockDevice::PATH)]
    pub(crate) vmclock: PathBuf,

    /// The kernel's log as it grows
    #[arg(long, value_name = "FILE", default_value = KERNEL_LOG)]
    pub(crate) kernel_log: PathBuf,
}

/// Takes looks.
pub(crate) struct Sampler {
    page: Fact<LivePage>,
    source: Fact<CurrentClocksource>,
    vmclock: Fact<VmClockDevice>,
    rtc: Fact<Rtc>,
    log: Fact<GrowingLog>,
    clock_set: Fact<ClockSet>,
    generations: Fact<Generations>,
    scheduling: Scheduling,
    continued: Arc<AtomicBool>,
    /// CLOCK_MONOTONIC when they were asked last, ns.
    rtc_at_ns: Option<u64>,
    activity_at_ns: Option<u64>,
    /// The narrowest bracket of each pair so far.
    narrowest: [Option<u64>; 4],
    tsc_is_readable: bool,
    pinned: Option<(u32, Pinned)>,
}

impl Sampler {
    /// Stays on the CPU it is on: where the TSCs of two CPUs differ, moving
    /// between them would look like steps. Looks must be taken by the thread
    /// that made this.
    pub(crate) fn new(places: &Places) -> Self {
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
        let continued = Arc::new(AtomicBool::new(false));
        // Where it cannot be caught, a stop is told as not run.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        Self {
            page: LivePage::find(),
            source: CurrentClocksource::open(),
            vmclock: vmclock_device::open(&places.vmclock),
            rtc: Rtc::find(),
            log: GrowingLog::open(&places.kernel_log),
            clock_set: ClockSet::new(),
            generations: Generations::new(),
            scheduling: Scheduling::of_this_thread(),
            continued,
            rtc_at_ns: None,
            activity_at_ns: None,
            narrowest: [None; 4],
            tsc_is_readable: counter::is_readable(),
            pinned: cpus::pin(cpu).ok().map(|pinned| (cpu, pinned)),
        }
    }

    /// The CPU it stays on, unless that was refused.
    pub(crate) fn cpu(&self) -> Option<u32> {
        self.pinned.as_ref().map(|(cpu, _)| *cpu)
    }

    /// Readable as soon as somebody set the time of day: a look is due.
    pub(crate) fn alarm(&self) -> Option<BorrowedFd<'_>> {
        self.clock_set.known().map(AsFd::as_fd)
    }

    /// Looks at everything; in a `hurry`, at what is asked less often too.
    pub(crate) fn look(&mut self, hurry: bool) -> Sample {
        let tsc = self.tsc_is_readable.then_some(|| Some(Tsc.read_ordered()));
        let [realtime, boottime, monotonic, raw] = &mut self.narrowest;
        let raw = tsc.and_then(|tsc| bracket(raw, || Clock::MonotonicRaw.read_ns(), tsc));
        let monotonic =
            bracket(monotonic, || Clock::Monotonic.read_ns(), || Clock::MonotonicRaw.read_ns());
        let boottime =
            bracket(boottime, || Clock::Boottime.read_ns(), || Clock::Monotonic.read_ns());
        let realtime =
            bracket(realtime, || Clock::Realtime.read_ns(), || Clock::Monotonic.read_ns());
        let monotonic_ns = Clock::Monotonic.read_ns().unwrap_or_default();
        let source = ask(&self.source, CurrentClocksource::name);
        let known = source.known().and_then(|name| knowledge::known(name));
        Sample {
            monotonic_ns,
            unix_ns: Clock::Realtime.read_ns(),
            tsc: tsc.and_then(|tsc| tsc()),
            realtime,
            boottime,
            monotonic,
            raw,
            source_step_ns: known.map(knowledge::Known::coarsest_ns),
            source,
            adjtimex: watching::adjtimex(),
            page: ask(&self.page, |page| page.read()),
            vmclock: ask(&self.vmclock, vmclock_device::fact),
            rtc: self.rtc(monotonic_ns, hurry),
            activity: self.activity(monotonic_ns, hurry),
            thread: self.scheduling.thread(),
            log: match &mut self.log {
                Fact::Known(log) => log.new_lines(),
                Fact::Unknown(why) => Fact::Unknown(why.clone()),
            },
            was_set: ask(&self.clock_set, |timer| Fact::Known(timer.was_set())),
            new_generation: ask(&self.generations, |socket| Fact::Known(socket.is_new())),
            was_stopped: self.continued.swap(false, Ordering::Relaxed),
        }
    }

    fn rtc(&mut self, now_ns: u64, hurry: bool) -> Fact<Option<Bracket>> {
        let rtc = match &self.rtc {
            Fact::Known(rtc) => rtc,
            Fact::Unknown(why) => return Fact::Unknown(why.clone()),
        };
        if !is_due(&mut self.rtc_at_ns, now_ns, RTC_EACH_NS, hurry) {
            return Fact::Known(None);
        }
        let boottime = || {
            let why = || Unknown::not_there("CLOCK_BOOTTIME");
            Clock::Boottime.read_ns().map_or_else(|| Fact::Unknown(why()), Fact::Known)
        };
        boottime().and_then(|before| {
            rtc.read_s()
                .and_then(|inner| boottime().map(|after| Some(Bracket { before, inner, after })))
        })
    }

    fn activity(&mut self, now_ns: u64, hurry: bool) -> Fact<Option<Activity>> {
        match is_due(&mut self.activity_at_ns, now_ns, ACTIVITY_EACH_NS, hurry) {
            true => self.scheduling.activity().map(Some),
            false => Fact::Known(None),
        }
    }
}

/// Whether something that is asked each so often is to be asked now.
fn is_due(last_ns: &mut Option<u64>, now_ns: u64, each_ns: u64, hurry: bool) -> bool {
    let is_due = hurry || last_ns.is_none_or(|last| now_ns.saturating_sub(last) >= each_ns);
    if is_due {
        *last_ns = Some(now_ns);
    }
    is_due
}

/// What a thing says, or why there is none.
fn ask<T, U>(thing: &Fact<T>, asked: impl FnOnce(&T) -> Fact<U>) -> Fact<U> {
    match thing {
        Fact::Known(thing) => asked(thing),
        Fact::Unknown(why) => Fact::Unknown(why.clone()),
    }
}

/// The inner clock within the outer one; a bracket twice as wide as the
/// narrowest so far will do.
fn bracket(
    narrowest: &mut Option<u64>,
    inner: impl Fn() -> Option<u64>,
    outer: impl Fn() -> Option<u64>,
) -> Option<Bracket> {
    let enough = narrowest.map_or(0, |width| width.saturating_mul(2));
    let found = Bracket::tightest(TRIES, enough, || {
        let before = outer()?;
        let inner = inner()?;
        Some(Bracket { before, inner, after: outer()? })
    });
    if let Some(width) = found.and_then(|bracket| bracket.width()) {
        *narrowest = Some(narrowest.map_or(width, |least| least.min(width)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler() -> Sampler {
        Sampler::new(&Places { vmclock: VmClockDevice::PATH.into(), kernel_log: KERNEL_LOG.into() })
    }

    #[test]
    fn a_look_sees_the_clocks_of_this_machine() {
        let mut sampler = sampler();
        let (first, second) = (sampler.look(false), sampler.look(false));
        assert!(second.monotonic_ns > first.monotonic_ns);
        for bracket in [second.realtime, second.boottime, second.monotonic] {
            assert!(bracket.is_some_and(|bracket| bracket.before <= bracket.after));
        }
        assert_eq!(second.tsc.is_some(), second.raw.is_some());
        assert!(second.adjtimex.known().is_some());
    }

    #[test]
    fn what_costs_more_is_asked_less_often_but_for_a_hurry() {
        let mut sampler = sampler();
        let asked = |look: &Sample| look.activity.is_known_and(Option::is_some);
        assert!(asked(&sampler.look(false)));
        assert!(!asked(&sampler.look(false)));
        assert!(asked(&sampler.look(true)));
    }
}
