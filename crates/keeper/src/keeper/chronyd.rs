//! Rounds of `makestep` commands to chronyd.
//!
//! The first command of a round has chronyd drop its measurements, take new
//! ones and step by those, which takes it some seconds. The others have it step
//! by what it has measured meanwhile. During a round it moves the clock as it
//! likes, by up to a tenth of a second per second, and every source seems to
//! move: that is no disruption, and no reason to drop its measurements again.
//! If the clock is still off after a round, another follows, as one of its
//! servers may not have replied, and each waits longer than the one before.

use super::clock::OWN_STEP_SEEN_NS;
use super::polled::SECOND_NS;
use crate::action::Correction;

/// chronyd sends a request to a server every two seconds in a burst
/// (chrony.conf(5), `iburst`), and it selects a server after three replies.
const REPEAT_NS: u64 = 2 * SECOND_NS;

/// How long a round lasts: two replies may be lost.
const ROUND_NS: u64 = 10 * SECOND_NS;

/// From the last command of a round to the next round: this and
/// [`REPEAT_NS`], doubled with each.
const BETWEEN_NS: u64 = 8 * SECOND_NS;

/// What is reported this soon after a round began is what it began for.
const SAME_NS: u64 = 3 * SECOND_NS;

/// A round that begins this long after the last is unrelated to it.
const UNRELATED_NS: u64 = 1200 * SECOND_NS;

/// The rounds so far.
#[derive(Debug, Default)]
pub(super) struct ChronydState {
    /// What the round is to correct, until the clock is right.
    round: Option<Correction>,
    /// When the last round began.
    began_ns: u64,
    /// When the last command was sent.
    last_ns: u64,
    /// Rounds one after another.
    rounds: u32,
}

impl ChronydState {
    /// Whether a round is in progress.
    pub(super) fn is_stepping(&self, now_ns: u64) -> bool {
        self.round.is_some() && now_ns < self.began_ns.saturating_add(ROUND_NS)
    }

    /// When the next command may be sent: in the round in progress, or to
    /// begin another.
    pub(super) fn next_command_ns(&self, now_ns: u64) -> u64 {
        if self.is_stepping(now_ns) {
            self.last_ns.saturating_add(REPEAT_NS)
        } else {
            self.next_round_ns()
        }
    }

    /// When the next round may begin. Until then servers need not be polled,
    /// unless chronyd steps.
    pub(super) fn next_round_ns(&self) -> u64 {
        match self.rounds {
            0 => 0,
            rounds => self.began_ns + BETWEEN_NS + (REPEAT_NS << rounds.min(8)),
        }
    }

    /// A command was sent, whether it succeeded or not; with `restart` it
    /// began a round.
    pub(super) fn note_command(&mut self, now_ns: u64, by: Correction, restart: bool) {
        if restart {
            let is_unrelated = now_ns.saturating_sub(self.began_ns) > UNRELATED_NS;
            self.rounds = if is_unrelated { 1 } else { self.rounds.saturating_add(1) };
            (self.began_ns, self.round) = (now_ns, Some(by));
        }
        self.last_ns = now_ns;
    }

    /// The correction to repeat, where no source shows whether the clock is
    /// right by now.
    pub(super) fn due_command(&self, now_ns: u64) -> Option<Correction> {
        let is_due = self.is_stepping(now_ns) && now_ns >= self.next_command_ns(now_ns);
        self.round.filter(|_| is_due)
    }

    /// Time was disturbed at `at_ns`, which is detected only now: the round
    /// ends, unless it began since.
    pub(super) fn disturb(&mut self, at_ns: u64) {
        if at_ns > self.began_ns {
            (self.round, self.rounds) = (None, 0);
        }
    }

    /// Time may have been disturbed, at an unknown moment.
    pub(super) fn suspect(&mut self, now_ns: u64) {
        self.disturb(now_ns.saturating_sub(SAME_NS));
    }

    /// The clock is right, or so near that chronyd slews the rest.
    pub(super) fn end_round(&mut self) {
        self.round = None;
    }

    /// Whether a clock set detected at `at_ns` may be chronyd's. By how much
    /// it steps only it knows: by a little too, where it was slewing before it
    /// restarted its measurements.
    pub(super) fn may_have_stepped(&self, at_ns: u64) -> bool {
        let its = self.began_ns..=self.last_ns.saturating_add(OWN_STEP_SEEN_NS);
        self.last_ns > 0 && its.contains(&at_ns)
    }
}
