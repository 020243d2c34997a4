//! What chronyd was asked, and when it is asked again.
//!
//! It is asked in rounds. The first request of a round has it drop what it
//! measured, measure anew and step by that; the others have it step by what it
//! measured meanwhile, which takes it some seconds. While it is at it, it may
//! move the clock by a tenth of a second each second, so that every source
//! seems to move: no reason to begin anew, and throw its measurements away. A
//! round that did not put the clock right is followed by another: its server
//! may not have answered.

use super::asked::SECOND_NS;

/// Its requests to a server in a burst are two seconds apart
/// (chrony.conf(5), `iburst`), and it takes three answers to go by them.
const ASK_AGAIN_NS: u64 = 2 * SECOND_NS;

/// How often it is asked in a round: two answers may be lost.
const ROUND: u32 = 5;

/// What is told so soon after a round began is what it began for.
const SAME_NS: u64 = 3 * SECOND_NS;

/// Nothing, until it is asked.
#[derive(Debug, Default)]
pub(super) struct ChronydAsked {
    /// How often since the clock was last right, or was disturbed.
    times: u32,
    /// The last time.
    last_ns: u64,
    /// The last time that it was to measure anew.
    anew_ns: u64,
}

impl ChronydAsked {
    /// Whether the clock is not right yet, and it was asked to put it right.
    pub(super) fn is_at_it(&self) -> bool {
        self.times > 0
    }

    /// Whether it is to measure anew with the next request.
    pub(super) fn begins_a_round(&self) -> bool {
        self.times.is_multiple_of(ROUND)
    }

    /// When it has had its time: one round waits for longer than the one
    /// before.
    pub(super) fn again_ns(&self) -> u64 {
        let wait_ns = match self.times {
            0 => return 0,
            _ if self.begins_a_round() => ASK_AGAIN_NS << (self.times / ROUND).min(8),
            _ => ASK_AGAIN_NS,
        };
        self.last_ns.saturating_add(wait_ns)
    }

    /// It was asked, whatever came of it.
    pub(super) fn asked(&mut self, now_ns: u64) {
        if self.begins_a_round() {
            self.anew_ns = now_ns;
        }
        self.last_ns = now_ns;
        self.times = self.times.saturating_add(1);
    }

    /// Time was disturbed at `at_ns`, as is seen only now: news, unless it
    /// measured since.
    pub(super) fn disturbed(&mut self, at_ns: u64) {
        if at_ns > self.anew_ns {
            self.times = 0;
        }
    }

    /// Somebody says that time was disturbed, but not when: most likely what
    /// it was just asked for.
    pub(super) fn told(&mut self, now_ns: u64) {
        self.disturbed(now_ns.saturating_sub(SAME_NS));
    }

    /// The clock is right, or as right as it has to be.
    pub(super) fn done(&mut self) {
        self.times = 0;
    }
}
