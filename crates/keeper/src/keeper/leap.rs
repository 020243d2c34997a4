//! A leap second: who announces it, whether the kernel is to carry it out, and
//! what is not measured while it passes.
//!
//! Servers announce it on its day (RFC 5905, figure 9, the leap indicator), which
//! is the last of June or December: what announces one on another day is wrong. The
//! kernel carries it out at the end of the UTC day if it was told before (STA_INS,
//! STA_DEL). A source that spreads the second over hours announces none: where most
//! do, none is armed, and the clock follows them.

use units::calendar::Date;
use units::{LeapSecond, calendar};

use super::Keeper;
use super::polled::SECOND_NS;
use crate::action::Action;
use crate::announced::Announced;
use crate::policy::Corrector;

pub(super) const DAY_NS: u64 = 86_400 * SECOND_NS;

/// A kernel whose clock was stepped lost its second, and takes another only after
/// one without the bit (`ntp_clear` and `second_overflow`, kernel/time/ntp.c).
const REARMED_AFTER_NS: u64 = 3 * SECOND_NS;

/// Whether a leap second may come at its end.
pub(super) fn is_leap_day(date: &Date) -> bool {
    matches!((date.month, date.day), (6, 30) | (12, 31))
}

impl Keeper {
    /// What source `index` announced with its last offset. The time of day is
    /// `unix_ns`. To be called before [`Keeper::measured`].
    pub fn announced(&mut self, index: usize, told: Announced, now_ns: u64, unix_ns: u64) {
        self.leap.realtime_ns = i128::from(unix_ns) - i128::from(now_ns);
        let Some(source) = self.sources.get_mut(index) else { return };
        source.scale = told.scale;
        let is_its_day = |_: &_| is_leap_day(&calendar::date((unix_ns / DAY_NS).into()));
        source.leap = told.leap.filter(is_its_day);
        if source.leap.is_some() {
            self.leap.at_ns = now_ns.saturating_add(DAY_NS - unix_ns % DAY_NS);
        }
    }

    /// What as many voices announce as have to agree, and more than do not, if so many
    /// said anything.
    fn most_announce(&self, now_ns: u64) -> Option<Option<LeapSecond>> {
        let servers = self.candidates(now_ns).filter(|it| it.kind.is_server());
        let said = servers.map(|it| self.sources[it.source].leap);
        let by = |leap| said.clone().filter(|it| *it == Some(leap)).count();
        let (needed, count) = (self.needed().0, said.clone().count());
        let is_enough = |leap: &LeapSecond| by(*leap) >= needed && 2 * by(*leap) > count;
        let most = [LeapSecond::Inserted, LeapSecond::Deleted].into_iter().find(is_enough);
        (count >= needed).then_some(most)
    }

    /// The kernel holds this from before: by a keeper that was killed, or a daemon that
    /// has ended. It is cleared once servers do not announce it.
    pub fn found_leap(&mut self, leap: Option<LeapSecond>) {
        self.leap.armed = leap.filter(|_| self.policy.corrector == Corrector::Kernel);
    }

    /// The clock is right: what the kernel is to be told.
    pub(super) fn arm_leap(&mut self, now_ns: u64) -> Option<Action> {
        let is_ours = self.policy.corrector == Corrector::Kernel;
        let wanted = self.most_announce(now_ns).filter(|_| is_ours)?;
        let is_due = wanted != self.leap.armed && now_ns >= self.leap.from_ns;
        is_due.then_some(Action::SetLeap(wanted))
    }

    /// The clock was set, and the kernel has lost what it was told.
    pub(super) fn disarm_leap(&mut self) {
        if self.leap.armed.is_some() && self.policy.corrector == Corrector::Kernel {
            self.queued.push_back(Action::SetLeap(None));
        }
    }

    /// The kernel was told, or is to be told again.
    pub(super) fn leap_told(&mut self, now_ns: u64, leap: Option<LeapSecond>, is_made: bool) {
        if is_made {
            self.leap.armed = leap;
        }
        let wait_ns = if is_made { REARMED_AFTER_NS } else { self.policy.poll_ns };
        self.leap.from_ns = now_ns.saturating_add(wait_ns);
    }

    /// The kernel is another daemon's to tell.
    pub(super) fn leave_leap(&mut self) {
        self.leap.armed = None;
        self.queued.retain(|action| !matches!(action, Action::SetLeap(_)));
    }
}
