//! Rounds in which chronyd is asked to put the clock right.
//!
//! The first request of a round has it drop what it measured, measure anew and
//! step by that, which takes it some seconds. The others have it step by what
//! it measured meanwhile. While it is at it, it moves the clock as it likes, by
//! up to a tenth of a second each second, and every source seems to move: no
//! news, and no reason to throw its measurements away. A round after which the
//! clock is still off is followed by another, as a server of its may not have
//! answered, and each waits for longer than the one before.

use super::OWN_STEP_SEEN_NS;
use super::asked::SECOND_NS;
use crate::action::Correction;

/// Its requests to a server in a burst are two seconds apart
/// (chrony.conf(5), `iburst`), and it takes three answers to go by them.
const ASK_AGAIN_NS: u64 = 2 * SECOND_NS;

/// How long a round lasts: two answers may be lost.
const ROUND_NS: u64 = 10 * SECOND_NS;

/// From the last request of a round to the next round: this and
/// [`ASK_AGAIN_NS`], doubled with each.
const BETWEEN_NS: u64 = 8 * SECOND_NS;

/// What is told so soon after a round began is what it began for.
const SAME_NS: u64 = 3 * SECOND_NS;

/// Rounds that are further apart have nothing to do with each other.
const APART_NS: u64 = 1200 * SECOND_NS;

/// Nothing, until it is asked.
#[derive(Debug, Default)]
pub(super) struct Chronyd {
    /// What the round is to correct, until the clock is found right.
    round: Option<Correction>,
    /// When the last round began.
    began_ns: u64,
    /// When it was asked last.
    last_ns: u64,
    /// Rounds one after another.
    rounds: u32,
}

impl Chronyd {
    /// Whether a round is under way.
    pub(super) fn is_at_it(&self, now_ns: u64) -> bool {
        self.round.is_some() && now_ns < self.began_ns.saturating_add(ROUND_NS)
    }

    /// When it may be asked again: to go on with the round that is under way,
    /// or to begin another.
    pub(super) fn again_ns(&self, now_ns: u64) -> u64 {
        match self.is_at_it(now_ns) {
            true => self.last_ns.saturating_add(ASK_AGAIN_NS),
            false => self.next_round_ns(),
        }
    }

    /// When another round may begin. Until then servers have nothing to tell,
    /// unless chronyd steps.
    pub(super) fn next_round_ns(&self) -> u64 {
        match self.rounds {
            0 => 0,
            rounds => self.began_ns + BETWEEN_NS + (ASK_AGAIN_NS << rounds.min(8)),
        }
    }

    /// It was asked, whatever came of it, `anew` to begin a round.
    pub(super) fn asked(&mut self, now_ns: u64, by: Correction, anew: bool) {
        if anew {
            let is_apart = now_ns.saturating_sub(self.began_ns) > APART_NS;
            self.rounds = if is_apart { 1 } else { self.rounds.saturating_add(1) };
            (self.began_ns, self.round) = (now_ns, Some(by));
        }
        self.last_ns = now_ns;
    }

    /// What to go on with where no source tells whether the clock is right by
    /// now.
    pub(super) fn goes_on(&self, now_ns: u64) -> Option<Correction> {
        self.round.filter(|_| self.is_at_it(now_ns) && now_ns >= self.again_ns(now_ns))
    }

    /// Time was disturbed at `at_ns`, as is seen only now: news, unless a round
    /// began since.
    pub(super) fn disturbed(&mut self, at_ns: u64) {
        if at_ns > self.began_ns {
            (self.round, self.rounds) = (None, 0);
        }
    }

    /// Somebody says that time was disturbed, but not when.
    pub(super) fn told(&mut self, now_ns: u64) {
        self.disturbed(now_ns.saturating_sub(SAME_NS));
    }

    /// The clock is right, or as right as chronyd has to make it at once.
    pub(super) fn done(&mut self) {
        self.round = None;
    }

    /// Whether a setting of the clock that was seen at `at_ns` may be its. By
    /// how much it steps only it knows: by a little too, where it was slewing
    /// before it measured anew.
    pub(super) fn may_have_stepped(&self, at_ns: u64) -> bool {
        let its = self.began_ns..=self.last_ns.saturating_add(OWN_STEP_SEEN_NS);
        self.last_ns > 0 && its.contains(&at_ns)
    }
}
