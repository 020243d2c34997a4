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
//!
//! | the kernel has | a step of ours | another process sets the clock | most announce another |
//! | --- | --- | --- | --- |
//! | nothing | nothing | nothing | armed |
//! | a second armed | uncertain | nothing, once it is cleared | armed with that, or nothing |
//! | a second, uncertain | uncertain | nothing, once it is cleared | armed with that, or nothing |

use pvclock::units::{LeapSecond, calendar};

use super::polled::{DAY_NS, SECOND_NS};
use super::sources::KnownSources;
use crate::action::Action;
use crate::choice::Candidate;
use crate::policy::Policy;
use crate::source::Announced;

/// This long around it a server's clock and ours may differ by it: each carries
/// it out by its own time, and an inserted one lasts a second.
const BEFORE_NS: u64 = 2 * SECOND_NS;
const AFTER_NS: u64 = 3 * SECOND_NS;

/// What the kernel is to do at the end of the UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Armed {
    /// Nothing.
    #[default]
    Nothing,
    /// To insert or leave out a second.
    Second(LeapSecond),
    /// The same, if the clock still shows the day that it showed before a step.
    Uncertain(LeapSecond),
}

impl From<Option<LeapSecond>> for Armed {
    fn from(leap: Option<LeapSecond>) -> Self {
        leap.map_or(Self::Nothing, Self::Second)
    }
}

/// What is known of the next leap second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeapArming {
    armed: Armed,
    /// When it comes, CLOCK_MONOTONIC, ns; 0 where none was announced.
    at_ns: u64,
    /// The kernel refused it: it is armed from then on, CLOCK_MONOTONIC, ns.
    retry_ns: u64,
}

impl LeapArming {
    /// A source has announced one for the end of the day; the time of day is `unix_ns`.
    pub(super) fn announce(&mut self, now_ns: u64, unix_ns: u64) {
        self.at_ns = now_ns.saturating_add(DAY_NS - unix_ns % DAY_NS);
    }

    /// Whether it passes now.
    pub(super) fn passes(&self, now_ns: u64) -> bool {
        let from_ns = self.at_ns.saturating_sub(BEFORE_NS);
        self.at_ns != 0 && (from_ns..self.at_ns.saturating_add(AFTER_NS)).contains(&now_ns)
    }

    /// The kernel holds this from before, or it is another daemon's to set.
    pub(super) fn adopt(&mut self, leap: Option<LeapSecond>) {
        self.armed = leap.into();
    }

    /// The kernel is to carry out this one, or none.
    pub(super) fn arm(&self, leap: Option<LeapSecond>, now_ns: u64) -> Option<Action> {
        let is_new = self.armed != leap.into();
        (is_new && now_ns >= self.retry_ns).then_some(Action::SetLeap(leap))
    }

    /// What clears it, after the clock was set by another process.
    pub(super) fn disarm(&self) -> Option<Action> {
        (self.armed != Armed::Nothing).then_some(Action::SetLeap(None))
    }

    /// The clock was stepped, by which the kernel keeps what is due at the end of the same
    /// day alone.
    pub(super) fn step(&mut self) {
        if let Armed::Second(leap) = self.armed {
            self.armed = Armed::Uncertain(leap);
        }
    }

    /// The kernel has taken it, or refused: it is armed again after `wait_ns`.
    pub(super) fn note_set(
        &mut self,
        leap: Option<LeapSecond>,
        is_made: bool,
        now_ns: u64,
        wait_ns: u64,
    ) {
        if is_made {
            self.armed = leap.into();
        } else {
            self.retry_ns = now_ns.saturating_add(wait_ns);
        }
    }
}

impl KnownSources {
    /// What source `index` announced with its last offset; whether that is a leap second.
    pub(super) fn announce(
        &mut self,
        index: usize,
        announced: Announced,
        now_ns: u64,
        unix_ns: u64,
    ) -> bool {
        self.realtime_ns = i128::from(unix_ns) - i128::from(now_ns);
        let Some(source) = self.get_mut(index) else { return false };
        source.scale = announced.scale;
        let is_its_day = |_: &_| calendar::date((unix_ns / DAY_NS).into()).is_leap_day();
        source.leap = announced.leap.filter(is_its_day);
        source.has_announced |= source.leap.is_some();
        source.leap.is_some()
    }

    /// What as many voices announce as have to agree, and more than do not, if that many
    /// announced anything.
    pub(super) fn announced_by_most(
        &self,
        now_ns: u64,
        policy: &Policy,
    ) -> Option<Option<LeapSecond>> {
        let has_vote = |candidate: &Candidate| {
            candidate.kind.is_server() || self[candidate.source].has_announced
        };
        let voters = self.candidates(now_ns, policy).filter(has_vote);
        let (count, needed) = (voters.clone().count(), self.needed().0);
        let votes =
            |leap| voters.clone().filter(|voter| self[voter.source].leap == Some(leap)).count();
        let has_majority = |leap: &LeapSecond| votes(*leap) >= needed && 2 * votes(*leap) > count;
        let is_any = self.iter().any(|source| source.leap.is_some());
        let leaps = [LeapSecond::Inserted, LeapSecond::Deleted].into_iter();
        let most = leaps.filter(|_| is_any).find(has_majority);
        (count >= needed).then_some(most)
    }
}
