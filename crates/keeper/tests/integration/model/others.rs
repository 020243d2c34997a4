//! Others who move the clock: a process that sets it between any two of the keeper's
//! actions, and a daemon beside it that disciplines it.

use disruptions::{Disruption, Kind, Size};

use super::{INTERVAL_NS, ModelClock, S};

/// A smaller set is not noticed (`NOTICED_NS`,
/// crates/daemon/src/realtime_offset.rs).
const NOTICED_NS: u64 = 1_000;

/// A daemon steps what is more, now and then (chrony.conf(5), `makestep`).
const STEPPED_NS: u64 = 128_000_000;

/// What they do, and what of it is noticed.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// A process sets the clock before one of so many actions; 0: none does.
    pub(crate) set_one_in: u64,
    /// An honest daemon disciplines the clock.
    pub(crate) is_beside: bool,
    /// What sets the clock, the keeper's steps too, is a disruption in a later sample.
    pub(crate) is_reported: bool,
    /// By how much they have set it, all together, and how often.
    pub(crate) set_ns: i64,
    pub(crate) sets: u64,
    /// By how much it was set since the last sample, by anyone, and how often.
    jumped_ns: i64,
    jumps: u64,
    /// What is classified some samples later, and when.
    pub(crate) gathered: Vec<(u64, Disruption)>,
    /// What they had set it by when that was noticed last.
    noticed_ns: i64,
    random: u64,
}

impl Others {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: seed | 1, ..Self::default() }
    }

    /// xorshift64 (Marsaglia, 2003).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % limit
    }

    /// Sets the clock, which ends a slew, and resets what the kernel was told (TK_CLEAR_NTP).
    pub(crate) fn set(&mut self, clock: &mut ModelClock, by_ns: i64) {
        if by_ns.unsigned_abs() > NOTICED_NS && clock.set_by_another(by_ns) {
            (self.set_ns, self.sets) = (self.set_ns + by_ns, self.sets + 1);
            self.jumped(by_ns);
        }
    }

    /// Anyone set it.
    pub(crate) fn jumped(&mut self, by_ns: i64) {
        (self.jumped_ns, self.jumps) = (self.jumped_ns + by_ns, self.jumps + 1);
    }

    /// Perhaps a process sets it now: anywhere, right, or back.
    pub(crate) fn may_set(&mut self, clock: &mut ModelClock) {
        if self.set_one_in == 0 || self.below(self.set_one_in) != 0 {
            return;
        }
        let size = 1000_i64 << self.below(37);
        let by_ns = match self.below(4) {
            0 => -clock.error_ns(),
            1 => -self.jumped_ns,
            2 => size + self.below(size.unsigned_abs()) as i64,
            _ => -size - self.below(size.unsigned_abs()) as i64,
        };
        self.set(clock, by_ns);
    }

    /// What an honest daemon does in one interval: it knows the truth and the rate, and
    /// slews, or steps.
    pub(crate) fn discipline(&mut self, clock: &mut ModelClock) {
        if !self.is_beside {
            return;
        }
        clock.frequency_ppb = (-clock.drift_ppb).clamp(-500_000.0, 500_000.0);
        let off_ns = -clock.error_ns();
        if off_ns.unsigned_abs() > STEPPED_NS && self.below(64) == 0 {
            self.set(clock, off_ns);
        }
        let most_ns = (INTERVAL_NS / 2000) as i64;
        clock.slewed_by_another(off_ns.clamp(-most_ns, most_ns));
    }

    /// What happened before this sample, or set the clock, where that is known by now.
    pub(crate) fn reported(&mut self, now_ns: u64) -> Vec<Disruption> {
        let (jumped_ns, jumps) = (self.jumped_ns, self.jumps);
        (self.jumped_ns, self.jumps) = (0, 0);
        if jumps > 0 && self.is_reported {
            let size = (jumped_ns != 0).then_some(Size { ns: jumped_ns as f64, bound_ns: 1000.0 });
            let set = Disruption {
                kinds: Kind::ClockSet.into(),
                // What the keeper does in this sample comes after it.
                at_monotonic_ns: now_ns - 1,
                size,
                behind: None,
                evidence: Vec::new(),
            };
            let later_ns = self.below(3) * INTERVAL_NS;
            self.gathered.push((now_ns + later_ns, set));
        }
        let is_due = |(at_ns, _): &(u64, Disruption)| *at_ns <= now_ns + S / 1000;
        let (due, later) = std::mem::take(&mut self.gathered).into_iter().partition(is_due);
        self.gathered = later;
        let due: Vec<_> = due;
        due.into_iter().map(|(_, set)| set).collect()
    }

    /// Whether something is known that is not classified yet.
    pub(crate) fn is_gathering(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Whether they are noticed to have set it since that was noticed last.
    pub(crate) fn have_set(&mut self) -> bool {
        let before_ns = std::mem::replace(&mut self.noticed_ns, self.set_ns);
        let is_noticed = self.set_ns.abs_diff(before_ns) > NOTICED_NS;
        if !is_noticed {
            self.noticed_ns = before_ns;
        }
        is_noticed
    }
}
