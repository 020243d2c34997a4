//! Missed ticks: what a host owes a guest that counts a periodic timer's interrupts.
//!
//! A vCPU that was not run gets none of its timer's interrupts. A guest that counts them,
//! as old kernels keep time, is then late forever; one that reads a counter gains nothing
//! from late ones but work. So each periodic timer has a policy (the names are libvirt's
//! `tickpolicy`):
//!
//! | policy | missed ticks | a guest that counts |
//! | --- | --- | --- |
//! | delay | none is dropped, none comes sooner: all later ticks are late | is late by the pause, forever |
//! | catch up | are given as well, at most by a multiple of the rate | is late until it has caught up |
//! | merge | become one, at once | is late by all but one |
//! | discard | are dropped; the next comes when it is due | is late by all |
//!
//! # A worked example
//!
//! A timer of 100 Hz, held for 1 s: 100 ticks are missed. By catching up at twice the rate
//! each due tick brings one of those: all are given after another 1 s, 200 in those 2 s.

use pvclock::Nanos;

/// What becomes of missed ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TickPolicy {
    /// The timer continues from where it was held.
    Delay,
    /// Missed ticks are given at a higher rate.
    CatchUp {
        /// How many times the rate at most; at least 2.
        rate: u32,
        /// Ticks owed beyond this are dropped: a guest that was away for days is not to
        /// count for hours.
        most: u64,
    },
    /// They become one.
    Merge,
    /// They are dropped.
    Discard,
}

/// Ticks of one timer that are owed and given. Times are of the machine's own clock.
///
/// ```
/// use pvclock_host::ticks::{Backlog, TickPolicy};
/// use pvclock::Nanos;
///
/// let period = Nanos(10_000_000);
/// let mut ticks = Backlog::new(period, TickPolicy::Merge, Nanos(0)).ok_or("a period of 0")?;
/// // A second late: one tick, and the next in step again.
/// assert_eq!(ticks.next_at(), Nanos(10_000_000));
/// assert!(ticks.take(Nanos(1_000_000_000)));
/// assert_eq!(ticks.next_at(), Nanos(1_010_000_000));
/// assert_eq!((ticks.delivered(), ticks.dropped()), (1, 99));
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    period: Nanos,
    policy: TickPolicy,
    /// When the next tick is due by the timer itself.
    due_at: Nanos,
    /// When the last one was given.
    last_at: Nanos,
    owed: u64,
    given: u64,
    dropped: u64,
}

impl Backlog {
    /// A timer that started at `start`; `None` for a period of 0.
    pub const fn new(period: Nanos, policy: TickPolicy, start: Nanos) -> Option<Self> {
        if period.0 == 0 {
            return None;
        }
        let due_at = Nanos(start.0.saturating_add(period.0));
        Some(Self { period, policy, due_at, last_at: start, owed: 0, given: 0, dropped: 0 })
    }

    /// When to call [`take`](Self::take) next.
    pub fn next_at(&self) -> Nanos {
        match self.policy {
            TickPolicy::CatchUp { rate, .. } if self.owed > 0 => {
                let sooner = self.last_at.0.saturating_add(self.period.0 / u64::from(rate.max(2)));
                Nanos(sooner.min(self.due_at.0))
            }
            _ => self.due_at,
        }
    }

    /// Whether a tick is to be given now: raise the interrupt, once.
    pub fn take(&mut self, now: Nanos) -> bool {
        let next_at = self.next_at();
        if now < next_at {
            return false;
        }
        let passed = match now.0.checked_sub(self.due_at.0) {
            Some(late) => late / self.period.0 + 1,
            None => 0,
        };
        let step = self.period.0.saturating_mul(passed);
        match self.policy {
            // A tick that is a whole period late is missed.
            TickPolicy::Delay if passed > 1 => {
                self.due_at = Nanos(now.0.saturating_add(self.period.0));
            }
            _ => self.due_at = Nanos(self.due_at.0.saturating_add(step)),
        }
        let gives = match self.policy {
            TickPolicy::Delay => true,
            TickPolicy::Merge => {
                self.dropped += passed - 1;
                true
            }
            TickPolicy::Discard => {
                let is_late = passed > 1;
                self.dropped += if is_late { passed } else { 0 };
                !is_late
            }
            TickPolicy::CatchUp { most, .. } => {
                let owed = self.owed.saturating_add(passed);
                self.owed = owed.min(most.saturating_add(1)) - 1;
                self.dropped += owed - 1 - self.owed;
                true
            }
        };
        self.last_at = now;
        self.given += u64::from(gives);
        gives
    }

    /// Ticks that are still to be given beside those that become due.
    pub const fn owed(&self) -> u64 {
        self.owed
    }

    /// Ticks given so far.
    pub const fn delivered(&self) -> u64 {
        self.given
    }

    /// Ticks that never will be.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}
