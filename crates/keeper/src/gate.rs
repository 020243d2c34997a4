//! The gate: when the workload is frozen, and when it is thawed. It decides and freezes
//! nothing itself.
//!
//! | state | event | next state | action |
//! | --- | --- | --- | --- |
//! | open | freeze requested | snapshot | close |
//! | open | the clock is disrupted | waiting | close |
//! | snapshot | a new disruption | waiting, with a new limit | renew |
//! | snapshot | thaw requested, or the limit has passed | waiting, with a new limit | measure |
//! | waiting | the clock is right within the bound | open | open |
//! | waiting | freeze requested | snapshot, with a new limit | renew |
//! | waiting | the limit has passed | overdue | open |
//! | snapshot, waiting | opened by another | overdue | |
//! | overdue | the clock is right within the bound | open | |
//! | overdue | freeze requested | snapshot | close |
//! | overdue | a new disruption | waiting | close |
//!
//! In "snapshot" a right clock opens nothing: the snapshot may still be to come, and on a
//! machine without a host's clock nothing shows a restore before the sources are measured.
//! A clock that was disrupted when the freeze was requested shows a new disruption only after it
//! was anything else. In "waiting" the clock is right only by a measurement that is younger than the disruption.
//!
//! The limit is counted in looks at most [`LONGEST_LOOK_NS`] apart: where CLOCK_MONOTONIC
//! counts a pause of an hour, the pause is one look, and takes 0.1 s of a limit of 10 s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keeper::KeptBound;

/// What a look may take of the limit, ns: the driver looks every 10 ms while it is closed.
const LONGEST_LOOK_NS: u64 = 100_000_000;

/// What the driver is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateAction {
    /// Freeze the workload.
    Close(GateCause),
    /// The limit begins again.
    Renew,
    /// Measure all sources; the limit begins again.
    Measure,
    /// Thaw the workload.
    Open(GateOpening),
}

/// Why it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateCause {
    /// `parachron gate freeze`.
    Requested,
    /// The clock was disrupted.
    Disrupted,
}

/// Why it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateOpening {
    /// The clock is right.
    Right {
        /// It is off by this at most, ns.
        error_ns: u64,
    },
    /// The limit has passed, and the clock is not known to be right.
    Limit,
    /// Another process thawed the workload, or none could watch it.
    Forced,
    /// The daemon ends.
    Ended,
}

/// The state machine.
#[derive(Debug, Clone)]
pub struct Gate {
    bound_ns: u64,
    limit_ns: u64,
    state: State,
    /// What has passed of the limit, ns.
    passed_ns: u64,
    looked_ns: u64,
    /// The clock was disrupted at the last look: a disruption is new where it was anything else.
    was_disrupted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Snapshot,
    Waiting { since_ns: u64 },
    Overdue { since_ns: u64 },
}

impl Gate {
    /// An open gate: once closed it opens when the clock is off by `bound_ns` at most, or
    /// after `limit_ns`.
    pub fn new(bound_ns: u64, limit_ns: u64) -> Self {
        Self {
            bound_ns,
            limit_ns,
            state: State::Open,
            passed_ns: 0,
            looked_ns: 0,
            was_disrupted: false,
        }
    }

    /// Whether the workload is to be frozen.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Snapshot | State::Waiting { .. })
    }

    /// Whether it was opened because the limit had passed, and the clock was not right since.
    pub fn is_overdue(&self) -> bool {
        matches!(self.state, State::Overdue { .. })
    }

    /// A snapshot is about to be taken.
    pub fn request_freeze(&mut self, now_ns: u64) -> GateAction {
        let was_closed = self.is_closed();
        self.enter(State::Snapshot, now_ns);
        if was_closed { GateAction::Renew } else { GateAction::Close(GateCause::Requested) }
    }

    /// The snapshot was taken, or restored. `None` where nothing is closed for it.
    pub fn request_thaw(&mut self, now_ns: u64) -> Option<GateAction> {
        (self.state == State::Snapshot).then(|| self.measure(now_ns))
    }

    /// Something shows that the machine was restored, before the keeper has classified it.
    pub fn disrupt(&mut self, now_ns: u64) -> GateAction {
        let was_closed = self.is_closed();
        self.enter(State::Waiting { since_ns: now_ns }, now_ns);
        if was_closed { GateAction::Renew } else { GateAction::Close(GateCause::Disrupted) }
    }

    /// The daemon looks at the clock: at each sample, and whenever what it knows may have
    /// changed.
    pub fn follow(&mut self, now_ns: u64, known: KeptBound) -> Option<GateAction> {
        let look_ns = now_ns.saturating_sub(self.looked_ns).min(LONGEST_LOOK_NS);
        self.passed_ns = self.passed_ns.saturating_add(look_ns);
        self.looked_ns = now_ns;
        let is_past = self.passed_ns >= self.limit_ns;
        let is_disrupted = known == KeptBound::Disrupted;
        let is_new = !std::mem::replace(&mut self.was_disrupted, is_disrupted) && is_disrupted;
        match self.state {
            State::Open if is_disrupted => Some(self.disrupt(now_ns)),
            State::Snapshot if is_new => Some(self.disrupt(now_ns)),
            State::Snapshot if is_past => Some(self.measure(now_ns)),
            State::Waiting { since_ns } => {
                if let Some(error_ns) = self.right_error_ns(known, since_ns, now_ns) {
                    self.enter(State::Open, now_ns);
                    Some(GateAction::Open(GateOpening::Right { error_ns }))
                } else if is_past {
                    self.enter(State::Overdue { since_ns }, now_ns);
                    Some(GateAction::Open(GateOpening::Limit))
                } else {
                    None
                }
            }
            State::Overdue { since_ns } => {
                if self.right_error_ns(known, since_ns, now_ns).is_some() {
                    self.enter(State::Open, now_ns);
                }
                None
            }
            State::Open | State::Snapshot => None,
        }
    }

    /// Another process has thawed the workload, or nothing can be frozen.
    pub fn open_by_force(&mut self) {
        let since_ns = match self.state {
            State::Snapshot => self.looked_ns,
            State::Waiting { since_ns } => since_ns,
            State::Open | State::Overdue { .. } => return,
        };
        self.enter(State::Overdue { since_ns }, self.looked_ns);
    }

    fn measure(&mut self, now_ns: u64) -> GateAction {
        self.enter(State::Waiting { since_ns: now_ns }, now_ns);
        GateAction::Measure
    }

    fn right_error_ns(&self, known: KeptBound, since_ns: u64, now_ns: u64) -> Option<u64> {
        let KeptBound::Within { offset, .. } = known else { return None };
        let error_ns = known.error_ns(now_ns).filter(|_| offset.at_monotonic_ns >= since_ns);
        error_ns.filter(|error_ns| *error_ns <= self.bound_ns)
    }

    fn enter(&mut self, state: State, now_ns: u64) {
        (self.state, self.passed_ns, self.looked_ns) = (state, 0, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use pvclock::units::OffsetBound;

    use super::*;

    const MS: u64 = 1_000_000;
    const LIMIT_MS: u64 = 1000;

    fn gate() -> Gate {
        Gate::new(10 * MS, LIMIT_MS * MS)
    }

    fn measured(at_monotonic_ns: u64, bound_ns: u64) -> KeptBound {
        KeptBound::Within {
            offset: OffsetBound { offset_ns: 0, bound_ns, at_monotonic_ns },
            growth_ppb: 0,
            frequency_ppb: 0,
            is_free_running: false,
        }
    }

    fn right(at_ms: u64) -> KeptBound {
        measured(at_ms * MS, MS)
    }

    fn is_right(action: Option<GateAction>) -> bool {
        matches!(action, Some(GateAction::Open(GateOpening::Right { .. })))
    }

    #[test]
    fn a_snapshot_is_taken_closed_and_its_restore_opens_once_the_clock_is_measured() {
        let mut gate = gate();
        assert_eq!(gate.request_freeze(0), GateAction::Close(GateCause::Requested));
        // The clock is right all the while: nothing is known of the snapshot.
        assert_eq!(gate.follow(10 * MS, right(10)), None);
        assert_eq!(gate.follow(20 * MS, KeptBound::Disrupted), Some(GateAction::Renew));
        // What was measured before the restore.
        assert_eq!(gate.follow(21 * MS, right(19)), None);
        let wide = measured(22 * MS, 10 * MS + 1);
        assert_eq!(gate.follow(22 * MS, wide), None);
        assert!(gate.is_closed());
        assert!(is_right(gate.follow(23 * MS, right(23))));
        assert!(!gate.is_closed());
    }

    #[test]
    fn a_pause_that_the_clock_counts_takes_one_look_of_the_limit() {
        let mut gate = gate();
        gate.request_freeze(0);
        let hour_ms = 3_600_000;
        assert_eq!(gate.follow(hour_ms * MS, right(0)), None);
        assert_eq!(gate.follow((hour_ms + 1) * MS, KeptBound::Disrupted), Some(GateAction::Renew));
        // Looks of 100 ms: ten of them are the limit.
        for look in 1..10 {
            assert_eq!(gate.follow((hour_ms + 1 + look * 100) * MS, KeptBound::Disrupted), None);
        }
        let at_ns = (hour_ms + 1 + 1000) * MS;
        let opened = gate.follow(at_ns, KeptBound::Disrupted);
        assert_eq!(opened, Some(GateAction::Open(GateOpening::Limit)));
        assert!(gate.is_overdue() && !gate.is_closed());
        // The same disruption closes it no second time, and a new one does.
        assert_eq!(gate.follow(at_ns + 1, KeptBound::Disrupted), None);
        assert_eq!(gate.disrupt(at_ns + 2), GateAction::Close(GateCause::Disrupted));
    }

    #[test]
    fn a_freeze_while_the_clock_is_disrupted_waits_for_the_snapshot() {
        let mut gate = gate();
        assert!(gate.follow(0, KeptBound::Disrupted).is_some());
        assert_eq!(gate.request_freeze(MS), GateAction::Renew);
        // The old disruption, and its end: the snapshot is still to come.
        assert_eq!(gate.follow(2 * MS, KeptBound::Disrupted), None);
        assert_eq!(gate.follow(3 * MS, right(3)), None);
        assert!(gate.is_closed());
        assert_eq!(gate.follow(4 * MS, KeptBound::Disrupted), Some(GateAction::Renew));
        assert!(is_right(gate.follow(5 * MS, right(5))));
        // The same after its limit has passed.
        gate.disrupt(6 * MS);
        for look in 1..=10 {
            gate.follow((6 + look * 100) * MS, KeptBound::Disrupted);
        }
        assert!(gate.is_overdue());
        let at_ns = 2000 * MS;
        assert_eq!(gate.request_freeze(at_ns), GateAction::Close(GateCause::Requested));
        assert_eq!(gate.follow(at_ns + 1, KeptBound::Disrupted), None);
        assert_eq!(gate.request_thaw(at_ns + 2), Some(GateAction::Measure));
    }

    #[test]
    fn a_gate_that_another_opened_is_overdue_until_the_clock_is_right() {
        let mut gate = gate();
        gate.open_by_force();
        assert!(!gate.is_overdue());
        gate.disrupt(5 * MS);
        gate.open_by_force();
        assert!(gate.is_overdue() && !gate.is_closed());
        gate.follow(6 * MS, right(4));
        assert!(gate.is_overdue());
        assert_eq!(gate.follow(7 * MS, right(5)), None);
        assert!(!gate.is_overdue());
    }

    #[test]
    fn a_snapshot_that_never_comes_ends_with_a_measurement() {
        let mut gate = gate();
        gate.request_freeze(0);
        let mut actions = (1..=20).filter_map(|look| gate.follow(look * 100 * MS, right(1)));
        assert_eq!(actions.next(), Some(GateAction::Measure));
        assert_eq!(actions.next(), Some(GateAction::Open(GateOpening::Limit)));
        let mut gate = self::gate();
        assert_eq!(gate.request_thaw(0), None);
        gate.request_freeze(0);
        assert_eq!(gate.request_thaw(5 * MS), Some(GateAction::Measure));
        assert_eq!(gate.follow(6 * MS, right(4)), None);
        assert!(is_right(gate.follow(7 * MS, right(6))));
    }
}
