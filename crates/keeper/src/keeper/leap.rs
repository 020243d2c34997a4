//! A leap second: who announces it, whether the kernel is to carry it out, and
//! what is not measured while it passes.
//!
//! Servers announce it on its day (RFC 5905, figure 9, the leap indicator), which
//! is the last of June or December: what announces one on another day is wrong. A
//! VMClock page announces it for the whole month, and is the host's voice; one that never
//! did may not fill in that field, so that its silence is no word against it. The kernel
//! carries it out at the end of the UTC day if it was told before (STA_INS, STA_DEL). A
//! source that spreads the second over hours announces none: where most do, none is armed,
//! and the clock follows them.

use units::{LeapSecond, calendar};

use super::Keeper;
use super::polled::SECOND_NS;
use crate::action::Action;
use crate::announced::Announced;
use crate::choice::Candidate;
use crate::policy::Corrector;

pub(super) const DAY_NS: u64 = 86_400 * SECOND_NS;

impl Keeper {
    /// What source `index` announced with its last offset. The time of day is
    /// `unix_ns`. To be called before [`Keeper::measured`].
    pub fn announced(&mut self, index: usize, told: Announced, now_ns: u64, unix_ns: u64) {
        self.leap.realtime_ns = i128::from(unix_ns) - i128::from(now_ns);
        let Some(source) = self.sources.get_mut(index) else { return };
        source.scale = told.scale;
        let is_its_day = |_: &_| calendar::date((unix_ns / DAY_NS).into()).is_leap_day();
        source.leap = told.leap.filter(is_its_day);
        source.has_announced |= source.leap.is_some();
        if source.leap.is_some() {
            self.leap.at_ns = now_ns.saturating_add(DAY_NS - unix_ns % DAY_NS);
        }
    }

    /// What as many voices announce as have to agree, and more than do not, if so many
    /// said anything.
    fn most_announce(&self, now_ns: u64) -> Option<Option<LeapSecond>> {
        let says = |it: &Candidate| it.kind.is_server() || self.sources[it.source].has_announced;
        let said = self.candidates(now_ns).filter(says).map(|it| self.sources[it.source].leap);
        let by = |leap| said.clone().filter(|it| *it == Some(leap)).count();
        let (needed, count) = (self.needed().0, said.clone().count());
        let is_enough = |leap: &LeapSecond| by(*leap) >= needed && 2 * by(*leap) > count;
        let most = [LeapSecond::Inserted, LeapSecond::Deleted].into_iter().find(is_enough);
        (count >= needed).then_some(most)
    }

    /// The kernel holds this from before: by a keeper that was killed, or a daemon that
    /// has ended. It is cleared once so many do not announce it.
    pub fn found_leap(&mut self, leap: Option<LeapSecond>) {
        self.leap.armed = leap.filter(|_| self.policy.corrector == Corrector::Kernel);
        self.leap.is_uncertain = false;
    }

    /// The clock is right: what the kernel is to be told.
    pub(super) fn arm_leap(&mut self, now_ns: u64) -> Option<Action> {
        let is_ours = self.policy.corrector == Corrector::Kernel;
        let wanted = self.most_announce(now_ns).filter(|_| is_ours)?;
        let is_new = wanted != self.leap.armed || self.leap.is_uncertain;
        (is_new && now_ns >= self.leap.from_ns).then_some(Action::SetLeap(wanted))
    }

    /// By our own step, which keeps what is due at the end of the same day.
    pub(super) fn leap_stepped(&mut self) {
        self.leap.is_uncertain |= self.leap.armed.is_some();
    }

    /// The clock was set by another, and the kernel has lost what it was told.
    pub(super) fn disarm_leap(&mut self) {
        if self.leap.armed.is_some() && self.policy.corrector == Corrector::Kernel {
            self.queued.push_back(Action::SetLeap(None));
        }
    }

    /// The kernel was told, or is to be told again.
    pub(super) fn leap_told(&mut self, now_ns: u64, leap: Option<LeapSecond>, is_made: bool) {
        if is_made {
            (self.leap.armed, self.leap.is_uncertain) = (leap, false);
        } else {
            self.leap.from_ns = now_ns.saturating_add(self.policy.poll_ns);
        }
    }

    /// The kernel is another daemon's to tell.
    pub(super) fn leave_leap(&mut self) {
        (self.leap.armed, self.leap.is_uncertain) = (None, false);
        self.queued.retain(|action| !matches!(action, Action::SetLeap(_)));
    }
}
