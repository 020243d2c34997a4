//! Samples of this machine's clocks: cheap, and taken on one CPU.
//!
//! | probe | period | cost |
//! | --- | --- | --- |
//! | four pairs of clocks, each up to four times | each sample | vDSO calls and counter reads |
//! | clock source, VMClock, adjtimex, thread, kernel log, notifications | each sample | a system call each |
//! | kvm-clock page | each sample | a copy of 32 bytes through the kernel |
//! | RTC | 0.7 s where nothing else shows a pause of all counters, else 30 s | some 20 exits to the host |
//! | activity of the CPUs | 0.9 s, and so long that it takes at most a 16,000th of a CPU | the kernel adds up each interrupt of each CPU |

mod kernel_log;
mod probe;
mod scheduling;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use facts::clocksource::{KnownSource, known_source};
use facts::{Fact, Sample, Unknown};
use linux::clock::LinuxClock;
use linux::counter::{self, Counter, CpuCounter};
use linux::cpus::{self, Pinned};
use linux::generations::Generations;
use linux::system_clock::ClockSet;
use linux::vmclock::VmClockDevice;
use pvclock::units::Bracket;
use signal_hook::consts::SIGCONT;
use sources::RtcSource;

use crate::live::{self, CurrentClocksource, LivePage};
use crate::sampler::kernel_log::GrowingLog;
use crate::sampler::probe::ProbePeriod::{self, EachSample};
use crate::sampler::probe::{SamplerProbe, probe};
use crate::sampler::scheduling::{CpuActivity, ThreadSchedule};
use crate::vmclock_device;

pub use kernel_log::parse_growing_log;
pub use probe::affordable_period;

/// Brackets to choose the tightest from.
const TRIES: u32 = 4;

/// The RTC shows whole seconds, and reading it costs exits to the host: less
/// often than each sample, but still within a second of a disruption.
const RTC_PERIOD_NS: u64 = 700_000_000;

/// Where other clocks show a pause, the RTC is read as it happens, and before
/// that often enough to be compared.
const RTC_BASELINE_NS: u64 = 30_000_000_000;

const ACTIVITY_PERIOD: Duration = Duration::from_millis(900);

/// The files that probes read, where they can be elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbePaths {
    /// The VMClock page.
    pub vmclock: PathBuf,
    /// The kernel's log.
    pub kernel_log: PathBuf,
}

impl ProbePaths {
    /// Where Linux has the VMClock page.
    pub const VMCLOCK: &str = VmClockDevice::PATH;
    /// Where Linux has its log.
    pub const KERNEL_LOG: &str = "/dev/kmsg";
}

impl Default for ProbePaths {
    fn default() -> Self {
        Self { vmclock: Self::VMCLOCK.into(), kernel_log: Self::KERNEL_LOG.into() }
    }
}

/// Takes samples.
pub struct Sampler {
    /// The narrowest bracket of each pair so far.
    narrowest: [Option<u64>; 4],
    tsc_is_readable: bool,
    probes: Vec<Box<dyn SamplerProbe>>,
    clock_set: Fact<ClockSet>,
    continued: Arc<AtomicBool>,
    pinned: Option<(u32, Pinned)>,
    pace: SamplingPace,
}

impl Sampler {
    /// Pins this thread to the CPU it is on: where the TSCs of two CPUs
    /// differ, a move between them would look like a step. Samples must be
    /// taken by the thread that created the sampler.
    pub fn new(paths: &ProbePaths) -> Self {
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
        let continued = Arc::new(AtomicBool::new(false));
        // Where SIGCONT cannot be caught, a stop is reported as not run.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        Self {
            narrowest: [None; 4],
            tsc_is_readable: counter::is_readable(),
            probes: probes(paths),
            clock_set: crate::fact_of("timerfd", ClockSet::new()),
            continued,
            pinned: cpus::pin(cpu).ok().map(|pinned| (cpu, pinned)),
            pace: SamplingPace::default(),
        }
    }

    /// The CPU that samples are taken on, unless pinning was refused.
    pub fn cpu(&self) -> Option<u32> {
        self.pinned.as_ref().map(|(cpu, _)| *cpu)
    }

    /// Readable as soon as the time of day was set: a sample is due.
    pub fn clock_set(&self) -> Option<BorrowedFd<'_>> {
        self.clock_set.value().map(AsFd::as_fd)
    }

    /// Reads all probes that are due; with `all`, or where this sample is late,
    /// the others too: they show why.
    pub fn sample(&mut self, all: bool) -> Sample {
        self.stay_on_one_cpu();
        let mut sample = self.clocks();
        sample.cpu = self.cpu();
        let all = self.pace.is_late(sample.monotonic_ns) || all;
        for probe in &mut self.probes {
            probe.sample(all, &mut sample);
        }
        let known = sample.source.value().and_then(|name| known_source(name));
        sample.source_step_ns = known.map(KnownSource::coarsest_ns);
        sample.was_set = match &self.clock_set {
            Fact::Known(timer) => Fact::Known(timer.was_set()),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        };
        sample.was_stopped = self.continued.swap(false, Ordering::Relaxed);
        sample
    }

    /// The kernel moves a thread off a CPU that is taken offline, and lets it go
    /// anywhere from then on (select_fallback_rq, kernel/sched/core.c).
    fn stay_on_one_cpu(&mut self) {
        let Ok(here) = u32::try_from(rustix::thread::sched_getcpu()) else { return };
        if self.cpu().is_some_and(|cpu| cpu != here) {
            // The old one lets the thread go anywhere as it is dropped: before the new one.
            self.pinned = None;
            self.pinned = cpus::pin(here).ok().map(|pinned| (here, pinned));
        }
    }

    /// The clocks, and nothing else read yet.
    fn clocks(&mut self) -> Sample {
        let tsc = self.tsc_is_readable.then_some(|| Some(CpuCounter.read_ordered()));
        let [realtime, boottime, monotonic, raw] = &mut self.narrowest;
        let raw = tsc.and_then(|tsc| bracket(raw, || LinuxClock::MonotonicRaw.read_ns(), tsc));
        let monotonic = bracket(
            monotonic,
            || LinuxClock::Monotonic.read_ns(),
            || LinuxClock::MonotonicRaw.read_ns(),
        );
        let boottime = bracket(
            boottime,
            || LinuxClock::Boottime.read_ns(),
            || LinuxClock::Monotonic.read_ns(),
        );
        let realtime = bracket(
            realtime,
            || LinuxClock::Realtime.read_ns(),
            || LinuxClock::Monotonic.read_ns(),
        );
        Sample {
            unix_ns: LinuxClock::Realtime.read_ns(),
            tsc: tsc.and_then(|tsc| tsc()),
            realtime,
            boottime,
            monotonic,
            raw,
            rtc: Fact::Known(None),
            activity: Fact::Known(None),
            ..Sample::new(LinuxClock::Monotonic.read_ns().unwrap_or_default())
        }
    }
}

fn probes(paths: &ProbePaths) -> Vec<Box<dyn SamplerProbe>> {
    let generations = crate::fact_of("the kernel's uevents", Generations::new());
    vec![
        probe(EachSample, CurrentClocksource::open(), |file| file.name(), |to| &mut to.source),
        probe(EachSample, Fact::Known(()), |()| live::adjtimex(), |to| &mut to.adjtimex),
        probe(EachSample, LivePage::find(), |page| page.read(), |to| &mut to.page),
        probe(
            EachSample,
            vmclock_device::open(&paths.vmclock),
            |it| vmclock_device::fact(it),
            |to| &mut to.vmclock,
        ),
        probe(
            rtc_period(cpus::has_hypervisor() != Some(false)),
            RtcSource::find(),
            read_rtc,
            |to| &mut to.rtc,
        ),
        probe(
            ProbePeriod::by_cost(ACTIVITY_PERIOD),
            CpuActivity::open(),
            |file| file.read().map(Some),
            |to| &mut to.activity,
        ),
        probe(EachSample, ThreadSchedule::open(), |file| file.read(), |to| &mut to.thread),
        probe(EachSample, GrowingLog::open(&paths.kernel_log), GrowingLog::new_lines, |to| {
            &mut to.log
        }),
        probe(EachSample, generations, |it| Fact::Known(it.is_new()), |to| &mut to.new_generation),
    ]
}

/// Where KVM keeps a page, a pause shows in it; and what is no virtual machine
/// is not paused.
fn rtc_period(has_hypervisor: bool) -> ProbePeriod {
    let with_ns = RTC_BASELINE_NS;
    let without_ns = if has_hypervisor { RTC_PERIOD_NS } else { RTC_BASELINE_NS };
    ProbePeriod::ByPage { with_ns, without_ns }
}

fn read_rtc(rtc: &mut RtcSource) -> Fact<Option<Bracket>> {
    let boottime = || {
        Fact::from(
            LinuxClock::Boottime.read_ns().ok_or_else(|| Unknown::not_there("CLOCK_BOOTTIME")),
        )
    };
    boottime().and_then(|before| {
        rtc.read_s()
            .and_then(|inner| boottime().map(|after| Some(Bracket { before, inner, after })))
    })
}

/// The inner clock within the outer one; a bracket up to twice as wide as the
/// narrowest so far is accepted.
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

/// A sample that comes this much later than those before it is late, ns: a bit
/// less than what is reported as late (`disruptions`, a second).
const LATE_NS: u64 = 900_000_000;

/// The last two samples.
#[derive(Debug, Default)]
struct SamplingPace {
    last_ns: Option<u64>,
    gap_ns: Option<u64>,
}

impl SamplingPace {
    /// Whether a sample at `now_ns` came much later after the last one than that
    /// one after its own.
    fn is_late(&mut self, now_ns: u64) -> bool {
        let gap_ns = self.last_ns.replace(now_ns).map(|last| now_ns.saturating_sub(last));
        let before_ns = std::mem::replace(&mut self.gap_ns, gap_ns);
        gap_ns.zip(before_ns).is_some_and(|(now, before)| now > before.saturating_add(LATE_NS))
    }
}

#[cfg(test)]
mod tests {
    use pvclock::kvm_clock::TimeInfo;

    use super::*;

    #[test]
    fn a_sample_has_the_clocks_of_this_machine() {
        let mut sampler = Sampler::new(&ProbePaths::default());
        let (first, second) = (sampler.sample(false), sampler.sample(false));
        assert!(second.monotonic_ns > first.monotonic_ns);
        for bracket in [second.realtime, second.boottime, second.monotonic] {
            assert!(bracket.is_some_and(|bracket| bracket.before <= bracket.after));
        }
        assert_eq!(second.tsc.is_some(), second.raw.is_some());
        assert!(second.adjtimex.value().is_some());
    }

    #[test]
    fn a_thread_that_was_moved_stays_where_it_is() {
        let allowed = cpus::allowed().unwrap();
        let mut sampler = Sampler::new(&ProbePaths::default());
        let first = sampler.sample(false).cpu;
        let other = allowed.into_iter().find(|cpu| Some(*cpu) != first);
        let (Some(_), Some(other)) = (first, other) else {
            return crate::skipped("needs two CPUs, and to choose among them");
        };
        // As the kernel does when it takes the first one offline.
        let moved = cpus::pin(other).unwrap();
        assert_eq!(sampler.sample(false).cpu, Some(other));
        assert_eq!(cpus::allowed().unwrap(), [other], "it is held there");
        assert_eq!(sampler.sample(false).cpu, Some(other));
        drop(sampler);
        drop(moved);
    }

    #[test]
    fn the_rtc_is_read_often_where_nothing_else_shows_a_pause() {
        let info = TimeInfo::from_bytes(&[0; 32]);
        let period = |has_page, has_hypervisor| {
            let page = if has_page { Fact::Known(info) } else { Sample::new(0).page };
            rtc_period(has_hypervisor).ns(&Sample { page, ..Sample::new(0) })
        };
        assert_eq!(period(false, true), RTC_PERIOD_NS);
        assert_eq!([period(true, true), period(false, false)], [RTC_BASELINE_NS; 2]);
    }

    #[test]
    fn expensive_probes_are_read_less_often_unless_all_are() {
        let mut sampler = Sampler::new(&ProbePaths::default());
        let was_read = |sample: &Sample| sample.activity.is_known_and(Option::is_some);
        assert!(was_read(&sampler.sample(false)));
        assert!(!was_read(&sampler.sample(false)));
        assert!(was_read(&sampler.sample(true)));
    }

    #[test]
    fn a_sample_is_late_by_the_pace_before_it() {
        let mut pace = SamplingPace::default();
        let late: Vec<bool> = [0, 250, 500, 1600, 1850, 6850, 11_850, 12_100, 13_300]
            .map(|ms| pace.is_late(ms * 1_000_000))
            .into();
        assert_eq!(late, [false, false, false, false, false, true, false, false, true]);
        let mut pace = SamplingPace::default();
        let _ = (pace.is_late(0), pace.is_late(250_000_000));
        assert!(pace.is_late(1_500_000_001), "by more than 0.9 s");
    }
}
