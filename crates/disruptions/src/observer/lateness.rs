//! Looks that come late, why, and time stolen from the CPUs.
//!
//! A look is late when the machine stood still, when the host gave the CPU to
//! others, when other threads had it, or when this process was stopped. Asked
//! in this order, the first that explains half of the lateness is the cause:
//!
//! | asked | of whom | says |
//! | --- | --- | --- |
//! | did time get stolen from a CPU? | `/proc/stat` | stolen |
//! | was this process continued? | SIGCONT | stopped |
//! | was this thread ready to run, and not run? | `schedstat` | waited |
//! | did the machine switch threads and serve interrupts as always? | `/proc/stat` | not run |
//! | did it hardly do so, or was this thread woken just once? | both | stood still |
//!
//! A thread that sleeps through a pause is woken once, by its own timer. One
//! that is frozen or waits for the disk is woken more often than that.

use facts::Sample;
use facts::running::{Activity, Stolen, ThreadTimes};

use super::{Noticed, Passed};
use crate::event::seconds;
use crate::{Event, Evidence, LateCause};

/// A look that comes later than planned by more than this is told, ns.
const LATE_NS: u64 = 1_000_000_000;

/// As above where the host says that it had stopped the guest, ns.
const LATE_WHEN_STOPPED_NS: u64 = 50_000_000;

/// Time stolen from one CPU from one answer to the next that is told, ns:
/// half of the second at which the CPUs are asked.
const STOLEN_NS: u64 = 500_000_000;

/// As a part of the time in which it was stolen.
const STOLEN_PART: f64 = 0.4;

/// Switches and interrupts that are too few to tell anything by.
const FEW: f64 = 40.0;

/// The slowest pace is forgotten at this part an answer.
const FORGETTING: f64 = 0.02;

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    thread: Option<ThreadTimes>,
    activity: Option<(u64, Activity)>,
    /// Switches and interrupts a second, in the slowest time of late.
    slowest_per_s: Option<f64>,
    is_being_stolen: bool,
}

/// What went on since the CPUs were asked last.
#[derive(Debug, Clone, Copy)]
struct Went {
    over_ns: u64,
    most_stolen: Stolen,
    switches_and_interrupts: u64,
}

impl Lateness {
    pub(super) fn begin(&mut self, look: &Sample) {
        self.thread = look.thread.known().copied();
        self.activity = asked(look).map(|activity| (look.monotonic_ns, activity.clone()));
    }

    pub(super) fn observe(
        &mut self,
        look: &Sample,
        passed: Passed,
        stopped_by_host: bool,
        noticed: &mut Noticed,
    ) {
        let went = self.went(look);
        let thread = self.thread_since(look);
        let late_ns = passed.ns.saturating_sub(passed.planned_ns);
        let is_late = late_ns > LATE_NS;
        if is_late || (stopped_by_host && late_ns > LATE_WHEN_STOPPED_NS) {
            let cause = self.cause(look, late_ns, went, thread);
            let unwatched_s = seconds(passed.ns);
            let planned_s = seconds(passed.planned_ns);
            let evidence = Evidence::Unwatched { unwatched_s, planned_s, cause };
            noticed.evidence(look.monotonic_ns, evidence);
            if is_late {
                noticed.event(look.monotonic_ns, Event::Late { unwatched_s, cause });
            }
        }
        let Some(went) = went else { return };
        self.observe_steal(look, went, noticed);
        if !is_late {
            self.learn_pace(went);
        }
    }

    /// A long steal is told once, until the CPUs are left alone again.
    fn observe_steal(&mut self, look: &Sample, went: Went, noticed: &mut Noticed) {
        let Stolen { cpu, stolen_ns } = went.most_stolen;
        let is_long =
            stolen_ns >= STOLEN_NS && stolen_ns as f64 >= went.over_ns as f64 * STOLEN_PART;
        if is_long && !std::mem::replace(&mut self.is_being_stolen, true) {
            noticed.evidence(look.monotonic_ns, Evidence::Stolen { cpu, stolen_ns });
        }
        self.is_being_stolen &= is_long;
    }

    fn went(&mut self, look: &Sample) -> Option<Went> {
        let now = asked(look)?;
        let (at_ns, before) = self.activity.replace((look.monotonic_ns, now.clone()))?;
        let stolen = |now: &Stolen| {
            let before = before.stolen.iter().find(|before| before.cpu == now.cpu)?;
            let stolen_ns = now.stolen_ns.saturating_sub(before.stolen_ns);
            Some(Stolen { cpu: now.cpu, stolen_ns })
        };
        let done =
            |activity: &Activity| activity.context_switches.saturating_add(activity.interrupts);
        Some(Went {
            over_ns: look.monotonic_ns.saturating_sub(at_ns),
            most_stolen: now.stolen.iter().filter_map(stolen).max_by_key(|it| it.stolen_ns)?,
            switches_and_interrupts: done(now).saturating_sub(done(&before)),
        })
    }

    fn thread_since(&mut self, look: &Sample) -> Option<ThreadTimes> {
        let now = *look.thread.known()?;
        let before = self.thread.replace(now)?;
        Some(ThreadTimes {
            ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: now.waited_ns.saturating_sub(before.waited_ns),
            turns: now.turns.saturating_sub(before.turns),
        })
    }

    fn learn_pace(&mut self, went: Went) {
        if went.over_ns == 0 {
            return;
        }
        let now = went.switches_and_interrupts as f64 / seconds(went.over_ns);
        let slowest = self.slowest_per_s.map_or(now, |slowest| slowest * (1.0 + FORGETTING));
        self.slowest_per_s = Some(now.min(slowest));
    }

    fn cause(
        &self,
        look: &Sample,
        late_ns: u64,
        went: Option<Went>,
        thread: Option<ThreadTimes>,
    ) -> LateCause {
        let half_ns = late_ns / 2;
        if went.is_some_and(|went| went.most_stolen.stolen_ns >= half_ns) {
            return LateCause::Stolen;
        }
        if look.was_stopped {
            return LateCause::Stopped;
        }
        if thread.is_some_and(|thread| thread.waited_ns >= half_ns) {
            return LateCause::Waited;
        }
        let woken_once = thread.map(|thread| thread.turns <= 1);
        match (self.went_on(late_ns, went), woken_once) {
            (Some(false), _) | (None, Some(true)) => LateCause::StoodStill,
            (Some(true), Some(false) | None) => LateCause::NotRun,
            (Some(true), Some(true)) | (None, _) => LateCause::Unknown,
        }
    }

    /// Whether the machine did at least half of what it does in its slowest
    /// time; `None` where that is too little to tell.
    fn went_on(&self, late_ns: u64, went: Option<Went>) -> Option<bool> {
        let expected = self.slowest_per_s? * seconds(late_ns);
        let did = went?.switches_and_interrupts as f64;
        (expected >= FEW).then_some(did >= expected / 2.0)
    }
}

fn asked(look: &Sample) -> Option<&Activity> {
    look.activity.known()?.as_ref()
}
