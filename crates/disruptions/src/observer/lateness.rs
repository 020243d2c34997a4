//! Late samples, why they are late, and time stolen from the CPUs.
//!
//! A sample is late when the whole machine was stopped, when the host ran
//! others on the CPU, when other threads ran on it, or when this process was
//! stopped. The first row that explains half of the lateness is the cause:
//!
//! | question | read from | cause |
//! | --- | --- | --- |
//! | was time stolen from a CPU, and nothing ran? | `/proc/stat` | stolen or stopped |
//! | was it stolen from all CPUs, and too little ran to tell? | `/proc/stat` | stolen or stopped |
//! | was it stolen? | `/proc/stat` | stolen |
//! | was this process continued? | SIGCONT | process stopped |
//! | was this thread runnable and not run? | `schedstat` | run delay |
//! | did the machine switch threads and serve interrupts at its usual rate? | `/proc/stat` | process not run |
//! | did it hardly do so, or was this thread woken just once? | both | machine stopped |
//!
//! Xen counts as stolen what a domain was paused for (xen_steal_clock,
//! drivers/xen/time.c: RUNSTATE_offline); others do not, and a machine that just
//! has to share its CPUs is run for some ms now and then.
//!
//! A thread that sleeps through a pause is woken once, by its own timer. One
//! that is frozen or waits for the disk is woken more often than that.

use facts::Sample;
use facts::running::{Activity, Stolen, ThreadTimes};

use crate::event::seconds;
use crate::observer::{Elapsed, Noticed};
use crate::{Event, Evidence, LateCause};

/// A sample that is later than planned by more than this is reported, ns.
const LATE_NS: u64 = 1_000_000_000;

/// The same where the host reports that it had paused the guest, ns.
const LATE_WHEN_STOPPED_NS: u64 = 50_000_000;

/// Time stolen from one CPU between two readings that is reported, ns: half
/// of the second at which they are read.
const STOLEN_NS: u64 = 500_000_000;

/// As a part of the time in which it was stolen.
const STOLEN_PART: f64 = 0.4;

/// Fewer switches and interrupts than this show nothing.
const FEW: f64 = 40.0;

/// A machine that is resumed makes up for this many at once: overdue timers,
/// and all that they wake.
const CAUGHT_UP: f64 = 400.0;

/// The slowest rate is raised by this part at each reading.
const FORGETTING: f64 = 0.02;

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    thread: Option<ThreadTimes>,
    activity: Option<(u64, Activity)>,
    /// Switches and interrupts per second, at the slowest of recent times.
    slowest_per_s: Option<f64>,
    is_being_stolen: bool,
}

/// What the CPUs did since they were last read.
#[derive(Debug, Clone, Copy)]
struct ObservedProgress {
    over_ns: u64,
    most_stolen: Stolen,
    least_stolen_ns: u64,
    switches_and_interrupts: u64,
}

impl Lateness {
    pub(super) fn begin(&mut self, sample: &Sample) {
        self.thread = sample.thread.value().copied();
        self.activity = activity(sample).map(|activity| (sample.monotonic_ns, activity.clone()));
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        elapsed: Elapsed,
        stopped_by_host: bool,
        noticed: &mut Noticed,
    ) {
        let progress = self.progress(sample);
        let thread = self.thread_since(sample);
        let late_ns = elapsed.ns.saturating_sub(elapsed.planned_ns);
        let is_late = late_ns > LATE_NS;
        if is_late || (stopped_by_host && late_ns > LATE_WHEN_STOPPED_NS) {
            let cause = self.cause(sample, late_ns, progress, thread);
            let gap_s = seconds(elapsed.ns);
            let planned_s = seconds(elapsed.planned_ns);
            let evidence = Evidence::Late { gap_s, planned_s, cause };
            if is_late {
                noticed.event(sample.monotonic_ns, Event::Change(evidence.clone()));
            }
            noticed.evidence(sample.monotonic_ns, evidence);
        }
        let Some(progress) = progress else { return };
        self.observe_steal(sample, progress, noticed);
        if !is_late {
            self.learn_rate(progress);
        }
    }

    /// A long steal is reported once, until it ends.
    fn observe_steal(
        &mut self,
        sample: &Sample,
        progress: ObservedProgress,
        noticed: &mut Noticed,
    ) {
        let Stolen { cpu, stolen_ns } = progress.most_stolen;
        let is_long =
            stolen_ns >= STOLEN_NS && stolen_ns as f64 >= progress.over_ns as f64 * STOLEN_PART;
        if is_long && !std::mem::replace(&mut self.is_being_stolen, true) {
            noticed.evidence(sample.monotonic_ns, Evidence::Stolen { cpu, stolen_ns });
        }
        self.is_being_stolen &= is_long;
    }

    fn progress(&mut self, sample: &Sample) -> Option<ObservedProgress> {
        let now = activity(sample)?;
        let (at_ns, before) = self.activity.replace((sample.monotonic_ns, now.clone()))?;
        let stolen = |now: &Stolen| {
            let before = before.stolen.iter().find(|before| before.cpu == now.cpu)?;
            let stolen_ns = now.stolen_ns.saturating_sub(before.stolen_ns);
            Some(Stolen { cpu: now.cpu, stolen_ns })
        };
        let done =
            |activity: &Activity| activity.context_switches.saturating_add(activity.interrupts);
        let stolen: Vec<_> = now.stolen.iter().filter_map(stolen).collect();
        Some(ObservedProgress {
            over_ns: sample.monotonic_ns.saturating_sub(at_ns),
            most_stolen: *stolen.iter().max_by_key(|stolen| stolen.stolen_ns)?,
            least_stolen_ns: stolen.iter().map(|stolen| stolen.stolen_ns).min()?,
            switches_and_interrupts: done(now).saturating_sub(done(&before)),
        })
    }

    fn thread_since(&mut self, sample: &Sample) -> Option<ThreadTimes> {
        let now = *sample.thread.value()?;
        let before = self.thread.replace(now)?;
        Some(ThreadTimes {
            ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: now.waited_ns.saturating_sub(before.waited_ns),
            turns: now.turns.saturating_sub(before.turns),
        })
    }

    fn learn_rate(&mut self, progress: ObservedProgress) {
        if progress.over_ns == 0 {
            return;
        }
        let now = progress.switches_and_interrupts as f64 / seconds(progress.over_ns);
        let slowest = self.slowest_per_s.map_or(now, |slowest| slowest * (1.0 + FORGETTING));
        self.slowest_per_s = Some(now.min(slowest));
    }

    fn cause(
        &self,
        sample: &Sample,
        late_ns: u64,
        progress: Option<ObservedProgress>,
        thread: Option<ThreadTimes>,
    ) -> LateCause {
        let half_ns = late_ns / 2;
        let machine_ran = self.machine_ran(late_ns, progress);
        if progress.is_some_and(|progress| progress.most_stolen.stolen_ns >= half_ns) {
            let of_all = progress.is_some_and(|progress| progress.least_stolen_ns >= half_ns);
            let may_be_stopped = !machine_ran.unwrap_or(!of_all);
            return if may_be_stopped { LateCause::StolenOrStopped } else { LateCause::Stolen };
        }
        if sample.was_stopped {
            return LateCause::ProcessStopped;
        }
        if thread.is_some_and(|thread| thread.waited_ns >= half_ns) {
            return LateCause::RunDelay;
        }
        let woken_once = thread.map(|thread| thread.turns <= 1);
        match (machine_ran, woken_once) {
            (Some(false), _) | (None, Some(true)) => LateCause::MachineStopped,
            (Some(true), Some(false) | None) => LateCause::ProcessNotRun,
            (Some(true), Some(true)) | (None, _) => LateCause::Unknown,
        }
    }

    /// Whether the machine did, while the sample was late, at least half of what
    /// it does at its slowest, and more than it makes up for; `None` where that is
    /// too little to decide.
    fn machine_ran(&self, late_ns: u64, progress: Option<ObservedProgress>) -> Option<bool> {
        let (slowest_per_s, progress) = (self.slowest_per_s?, progress?);
        let expected = slowest_per_s * seconds(late_ns);
        // The counts were last read some time before the sample was due.
        let in_time = slowest_per_s * seconds(progress.over_ns.saturating_sub(late_ns));
        let did = progress.switches_and_interrupts as f64 - in_time;
        if did < expected / 2.0 {
            return (expected >= FEW).then_some(false);
        }
        (expected / 2.0 >= CAUGHT_UP).then_some(true)
    }
}

fn activity(sample: &Sample) -> Option<&Activity> {
    sample.activity.value()?.as_ref()
}
