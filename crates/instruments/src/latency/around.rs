//! What the kernel counted around one delay, and the cause that this proves.
//!
//! A thread's time divides into what it ran, what it waited for a CPU though it
//! could have run (`run_delay` of `schedstat`), and the rest. A loop that never
//! sleeps has no rest of its own: the host stole it (`rq_clock_task` leaves
//! stolen time out, CONFIG_PARAVIRT_TIME_ACCOUNTING, kernel/sched/core.c), a
//! quota or a signal stopped it. What it "ran" and did not loop, an interrupt
//! took, or whatever no operating system sees.

use super::cause::LatenessCause;

/// Counts of one thread and of its CPU since some moment; what could not be
/// read is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The moment, ns.
    pub at_ns: u64,
    /// CPU time of the thread, ns.
    pub ran_ns: Option<u64>,
    /// Time it waited for a CPU though it could have run, ns.
    pub waited_ns: Option<u64>,
    /// Time its control groups were throttled, ns.
    pub throttled_ns: Option<u64>,
    /// Times this process was continued after a stop.
    pub continued: u64,
    /// What the CPU served, where that was looked at.
    pub served: Option<Served>,
}

/// What a CPU served until some moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// That moment, or the time between, ns.
    pub ns: u64,
    /// Timer interrupts.
    pub ticks: u64,
    /// All others.
    pub interrupts: u64,
    /// Softirqs of network and block devices, and tasklets.
    pub softirqs: u64,
    /// System management interrupts, where they are counted.
    pub smis: u64,
}

impl Served {
    fn since(self, earlier: Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(earlier.ns),
            ticks: self.ticks.saturating_sub(earlier.ticks),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            softirqs: self.softirqs.saturating_sub(earlier.softirqs),
            smis: self.smis.saturating_sub(earlier.smis),
        }
    }
}

/// What passed between two counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassedTime {
    /// Time, ns.
    pub ns: u64,
    /// Waited for a CPU, ns.
    pub waited_ns: u64,
    /// Neither run nor waited, ns: stolen, throttled or stopped; asleep for a
    /// thread that sleeps.
    pub lost_ns: u64,
    /// Throttled, ns.
    pub throttled_ns: u64,
    /// Whether the process was continued after a stop.
    pub was_stopped: bool,
    /// What the CPU served, where that was looked at both times.
    pub served: Option<Served>,
}

impl PassedTime {
    /// From one count to a later one. Without the thread's CPU time nothing
    /// counts as lost.
    pub fn between(first: &Counts, then: &Counts) -> Self {
        let difference = |first: Option<u64>, then: Option<u64>| {
            then.zip(first).map(|(then, first)| then.saturating_sub(first))
        };
        let ns = then.at_ns.saturating_sub(first.at_ns);
        let waited_ns = difference(first.waited_ns, then.waited_ns).unwrap_or(0);
        let ran = difference(first.ran_ns, then.ran_ns);
        Self {
            ns,
            waited_ns,
            lost_ns: ran.map_or(0, |ran| ns.saturating_sub(ran).saturating_sub(waited_ns)),
            throttled_ns: difference(first.throttled_ns, then.throttled_ns).unwrap_or(0),
            was_stopped: then.continued != first.continued,
            served: then.served.zip(first.served).map(|(then, first)| then.since(first)),
        }
    }
}

/// Below this a gap is an interrupt's: served in 1 to 10 µs, with the exits
/// that a virtual machine adds.
const SHORT_NS: u64 = 50_000;

/// Why a spinning loop did not run for `gap_ns` of what passed, of which other
/// gaps took `others_ns`: what was counted may be theirs.
///
/// A gap of 4 ms in which the thread waited 3.9 ms for a CPU is the run
/// queue's; one of 4 ms with neither wait nor run is the host's.
pub fn of_gap(gap_ns: u64, others_ns: u64, passed: &PassedTime) -> LatenessCause {
    let most = |part_ns: u64| part_ns.saturating_sub(others_ns).saturating_mul(2) >= gap_ns;
    if passed.was_stopped && most(passed.lost_ns) {
        LatenessCause::Stopped
    } else if most(passed.throttled_ns) && most(passed.lost_ns.saturating_add(passed.waited_ns)) {
        LatenessCause::Quota
    } else if most(passed.waited_ns) {
        LatenessCause::RunQueue
    } else if most(passed.lost_ns) {
        LatenessCause::Stolen
    } else {
        of_interruption(gap_ns, passed.served)
    }
}

/// Why a thread that was on its CPU all the time did not run there.
fn of_interruption(gap_ns: u64, served: Option<Served>) -> LatenessCause {
    let Some(served) = served else { return LatenessCause::Unexplained };
    let long = gap_ns >= SHORT_NS;
    let some = served.interrupts > 0 || if long { served.softirqs > 0 } else { served.ticks > 0 };
    if served.smis == 0 && !some {
        LatenessCause::Hidden
    } else if served.ns > gap_ns.saturating_mul(2) {
        // What a far longer time counted need not have been in this gap.
        LatenessCause::Unexplained
    } else if served.smis > 0 {
        LatenessCause::Smi
    } else if long && served.softirqs > 0 {
        LatenessCause::Softirqs
    } else if served.interrupts > 0 {
        LatenessCause::Interrupts
    } else {
        LatenessCause::Tick
    }
}

/// Why a sleeping thread woke `late_ns` after its time; `passed` began when it
/// went to sleep. How the CPU left idle is in no count: a comparison shows it
/// ([`proven`](super::proof::proven)).
pub fn of_wake_up(late_ns: u64, passed: &PassedTime) -> LatenessCause {
    let most = |part_ns: u64| part_ns.saturating_mul(2) >= late_ns;
    // A stopped thread is not on a run queue: a wait for a CPU is not the stop's.
    if passed.was_stopped && !most(passed.waited_ns) {
        LatenessCause::Stopped
    } else if most(passed.throttled_ns) {
        LatenessCause::Quota
    } else if most(passed.waited_ns) {
        LatenessCause::RunQueue
    } else {
        LatenessCause::Unexplained
    }
}

/// So many short gaps, of which no single one was looked into, by what their
/// CPU served meanwhile: softirqs, other interrupts, ticks, and the rest, which
/// no interrupt explains.
///
/// In a loop that never sleeps a softirq runs where an interrupt ends
/// (`irq_exit`, kernel/softirq.c): the two are one gap, and the softirq is the
/// longer part of it. Of 300 gaps in which 40 interrupts and 30 softirqs were
/// counted, 30 are the softirqs' and 10 the interrupts'.
pub fn of_short_gaps(gaps: u64, served: Served) -> [(LatenessCause, u64); 4] {
    let softirqs = served.softirqs.min(gaps);
    let alone = served.interrupts.saturating_sub(served.softirqs);
    let interrupts = alone.min(gaps - softirqs);
    let ticks = served.ticks.min(gaps - softirqs - interrupts);
    [
        (LatenessCause::Softirqs, softirqs),
        (LatenessCause::Interrupts, interrupts),
        (LatenessCause::Tick, ticks),
        (LatenessCause::Hidden, gaps - softirqs - interrupts - ticks),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn counts(at_ms: u64, ran_ms: u64, waited_ms: u64) -> Counts {
        Counts {
            at_ns: at_ms * MS,
            ran_ns: Some(ran_ms * MS),
            waited_ns: Some(waited_ms * MS),
            ..Counts::default()
        }
    }

    fn cause(gap_ms: u64, first: &Counts, then: &Counts) -> LatenessCause {
        of_gap(gap_ms * MS, 0, &PassedTime::between(first, then))
    }

    #[test]
    fn waiting_is_the_run_queues_and_what_was_lost_the_hosts() {
        let start = counts(100, 50, 7);
        assert_eq!(cause(4, &start, &counts(110, 56, 11)), LatenessCause::RunQueue);
        assert_eq!(cause(4, &start, &counts(110, 56, 7)), LatenessCause::Stolen);
        // A kernel that counts stolen time as run: nothing shows it.
        let hidden = PassedTime { served: Some(Served::default()), ..PassedTime::default() };
        assert_eq!(of_gap(4 * MS, 0, &hidden), LatenessCause::Hidden);
        assert_eq!(
            cause(4, &start, &counts(110, 60, 7)),
            LatenessCause::Unexplained,
            "not looked at"
        );
    }

    #[test]
    fn what_others_may_have_taken_explains_nothing() {
        let passed = PassedTime { ns: 10 * MS, waited_ns: 4 * MS, ..PassedTime::default() };
        assert_eq!(of_gap(4 * MS, MS, &passed), LatenessCause::RunQueue);
        assert_eq!(of_gap(4 * MS, 3 * MS, &passed), LatenessCause::Unexplained);
        let served = |ns| Some(Served { ns, interrupts: 1, ..Served::default() });
        let passed = |ns| PassedTime { ns: MS, served: served(ns), ..PassedTime::default() };
        assert_eq!(of_gap(100_000, 0, &passed(200_000)), LatenessCause::Interrupts);
        // One interrupt in 100 ms is not proven to be that of these 100 us.
        assert_eq!(of_gap(100_000, 0, &passed(100 * MS)), LatenessCause::Unexplained);
    }

    #[test]
    fn a_quota_and_a_stop_come_first() {
        let start = Counts { throttled_ns: Some(0), ..counts(0, 0, 0) };
        for (lost, waited) in [(80, 0), (0, 80)] {
            let then =
                Counts { throttled_ns: Some(80 * MS), ..counts(100, 100 - lost - waited, waited) };
            assert_eq!(cause(80, &start, &then), LatenessCause::Quota);
        }
        // Throttled while another of the group ran on: not this gap's cause.
        let then = Counts { throttled_ns: Some(80 * MS), ..counts(100, 100, 0) };
        assert_eq!(cause(80, &start, &then), LatenessCause::Unexplained);
        let then = Counts { continued: 1, ..counts(100, 20, 0) };
        assert_eq!(cause(80, &start, &then), LatenessCause::Stopped);
    }

    #[test]
    fn what_ran_without_looping_was_interrupted() {
        let of = |gap_ns, served| {
            of_gap(gap_ns, 0, &PassedTime { ns: MS, served: Some(served), ..PassedTime::default() })
        };
        let none = Served::default();
        assert_eq!(of(5_000, Served { ticks: 1, ..none }), LatenessCause::Tick);
        assert_eq!(of(500_000, Served { ticks: 1, ..none }), LatenessCause::Hidden);
        assert_eq!(
            of(5_000, Served { ticks: 1, interrupts: 3, ..none }),
            LatenessCause::Interrupts
        );
        let busy = Served { ticks: 1, interrupts: 3, softirqs: 2, ..none };
        assert_eq!(of(500_000, busy), LatenessCause::Softirqs);
        assert_eq!(of(500_000, Served { smis: 1, ..busy }), LatenessCause::Smi);
        assert_eq!(of(5_000, none), LatenessCause::Hidden);
    }

    #[test]
    fn a_late_wake_up_that_did_not_wait_is_unexplained() {
        let passed = |waited_ns| PassedTime { ns: 2 * MS, waited_ns, ..PassedTime::default() };
        assert_eq!(of_wake_up(900_000, &passed(850_000)), LatenessCause::RunQueue);
        assert_eq!(of_wake_up(60_000, &passed(2_000)), LatenessCause::Unexplained);
        let throttled = PassedTime { throttled_ns: 80 * MS, ..passed(80 * MS) };
        assert_eq!(of_wake_up(80 * MS, &throttled), LatenessCause::Quota);
        let stopped = PassedTime { was_stopped: true, ..passed(0) };
        assert_eq!(of_wake_up(80 * MS, &stopped), LatenessCause::Stopped);
        // SIGCONT without a stop, as `fg` sends it: the wait for a CPU explains the delay.
        let waited = PassedTime { was_stopped: true, ..passed(850_000) };
        assert_eq!(of_wake_up(900_000, &waited), LatenessCause::RunQueue);
    }

    #[test]
    fn short_gaps_beyond_the_interrupts_are_hidden() {
        let served = Served { ticks: 250, interrupts: 30, ..Served::default() };
        let shares = of_short_gaps(300, served);
        assert_eq!(shares.map(|share| share.1), [0, 30, 250, 20]);
        assert_eq!(of_short_gaps(10, served).map(|share| share.1), [0, 10, 0, 0]);
    }

    #[test]
    fn an_interrupt_that_ends_in_a_softirq_is_one_gap() {
        let served = Served { ticks: 250, interrupts: 40, softirqs: 30, ..Served::default() };
        assert_eq!(of_short_gaps(300, served).map(|share| share.1), [30, 10, 250, 10]);
        // A softirq that another one's end ran again has no interrupt of its own.
        let more = Served { softirqs: 50, ..served };
        assert_eq!(of_short_gaps(300, more).map(|share| share.1), [50, 0, 250, 0]);
        assert_eq!(of_short_gaps(20, served).map(|share| share.1), [20, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_counts_have_a_cause(
            gap_ns: u64,
            first in prop::array::uniform5(any::<u64>()),
            then in prop::array::uniform5(any::<u64>()),
        ) {
            let of = |[at_ns, ran, waited, throttled, continued]: [u64; 5]| Counts {
                at_ns,
                ran_ns: Some(ran),
                waited_ns: Some(waited),
                throttled_ns: Some(throttled),
                continued,
                served: Some(Served { ns: at_ns, ticks: ran, interrupts: waited, softirqs: at_ns, smis: 0 }),
            };
            let passed = PassedTime::between(&of(first), &of(then));
            let _ = (of_gap(gap_ns, first[0], &passed), of_wake_up(gap_ns, &passed));
            prop_assert!(passed.lost_ns <= passed.ns);
            let shares = of_short_gaps(gap_ns, passed.served.unwrap());
            prop_assert_eq!(shares.iter().map(|share| share.1).sum::<u64>(), gap_ns);
        }
    }
}
