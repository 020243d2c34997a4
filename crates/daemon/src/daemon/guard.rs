//! Another process may set the clock between any two of our calls: what was measured
//! before says nothing then.
//!
//! The kernel has no call that adjusts a clock if it was not set meanwhile. So the look
//! comes right before what rests on a measurement; before each measurement, as one of a
//! clock that is set and set back would not show it; and as a sample begins, before it
//! measures: the observer classifies a set some samples later, and until then a clock of the
//! host would undo it.

use disruptions::Kind;
use keeper::{Action, Corrector};

use super::{Daemon, monotonic_ns};
use crate::realtime_offset::{Moved, RealtimeOffset};

impl Daemon {
    /// A sample begins: the clock may have been set since the last. What a suspend or a leap
    /// second left is measured in this one.
    pub(super) fn look_at_the_clock(&mut self) {
        let (then, now) = (self.realtime, RealtimeOffset::now());
        let (Some(then), Some(now)) = (then, now) else {
            // A read that failed once hides no set.
            self.realtime = then.or(now);
            return;
        };
        match then.moved_until(now) {
            Some(moved @ Moved::Set) => self.was_moved(now, moved),
            Some(Moved::LeapSecond | Moved::Suspend) => self.realtime = Some(now),
            None => self.realtime = Some(then.and(now)),
        }
    }

    /// Whether the clock was moved, by another process mostly, since that was noticed last;
    /// the keeper is told.
    pub(super) fn was_set(&mut self) -> bool {
        let moved = self.if_moved();
        moved.into_iter().for_each(|(now, moved)| self.was_moved(now, moved));
        moved.is_some()
    }

    fn was_moved(&mut self, now: RealtimeOffset, moved: Moved) {
        self.realtime = Some(now);
        let at_ns = monotonic_ns();
        match moved {
            Moved::LeapSecond => self.keeper.was_moved(at_ns, Kind::LeapSecond),
            Moved::Suspend => self.keeper.was_moved(at_ns, Kind::Suspend),
            Moved::Set if self.is_chronyds() => self.keeper.was_set_beside_chronyd(at_ns),
            Moved::Set => self.keeper.was_set(at_ns),
        }
    }

    /// By how much chronyd has just stepped what it was slewing, as it was told to, ns: what
    /// is left to correct is as much less. A host's word counts once, and would be lost by
    /// measuring anew. `None` if the machine slept, or a leap second passed.
    pub(super) fn stepped_by_chronyd_ns(&mut self) -> Option<i64> {
        match self.realtime.zip(self.if_moved()) {
            Some((then, (now, Moved::Set))) => {
                self.realtime = Some(now);
                Some(then.ns_until(now))
            }
            Some(_) => None,
            None => Some(0),
        }
    }

    /// How the clocks are now, where one was moved.
    fn if_moved(&self) -> Option<(RealtimeOffset, Moved)> {
        let (then, now) = (self.realtime?, RealtimeOffset::now()?);
        Some((now, then.moved_until(now)?))
    }

    /// chronyd corrects the clock: its own steps are no date that somebody set.
    fn is_chronyds(&self) -> bool {
        matches!(self.keeper.policy().corrector, Corrector::Chronyd { .. })
    }

    /// Whether this is not to be done any more, as it rests on what was measured before the
    /// clock was set. Steps and slews are looked after where they are made, and what
    /// chronyd is told to step by it measures itself.
    pub(super) fn is_cancelled(&mut self, action: &Action) -> bool {
        match action {
            Action::SetError(_)
            | Action::SetFigures { max_ns: None, .. }
            | Action::Discipline(_)
            | Action::SetLeap(_)
            | Action::FeedChronyd(_)
            | Action::Synchronised(_) => self.was_set(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
