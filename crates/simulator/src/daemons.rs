//! The PLL, to compare the keeper with: what ntpd does with the kernel's (RFC 5905,
//! appendix A.5.5.6, and ntpd's documentation of `tinker`): each poll's offset goes to
//! the kernel; one beyond 128 ms is stepped by after it has lasted for 300 s; one beyond
//! 1000 s ends the daemon. It polls each 64 s at first and after a step, and doubles that
//! after some polls, up to what is set (RFC 5905, A.5.5.6: the jiggle counter).

use kernel_clock::Timex;
use kernel_clock::timex::{mode, status};

use crate::network::SimulatedReply;
use crate::scrape::SimulatedTracking;
use crate::world::SimulatedWorld;

/// The median of what the servers show: one that lies does not move it far.
pub(crate) fn median(world: &mut SimulatedWorld) -> Option<SimulatedReply> {
    let mut replies: Vec<SimulatedReply> =
        (0..world.network.len()).filter_map(|server| world.ask(server)).collect();
    replies.sort_by_key(|reply| reply.offset_ns);
    replies.get(replies.len() / 2).copied()
}

/// Has the kernel insert the second that servers announce for today.
pub(crate) fn announce_leap(world: &SimulatedWorld, bits: i32) -> i32 {
    if world.announces_leap(0) { bits | status::INS } else { bits & !status::INS }
}

/// The bound that both tell the kernel, µs.
pub(crate) fn max_error_us(reply: SimulatedReply) -> i64 {
    let ns = reply.bound_ns.saturating_add(reply.offset_ns.unsigned_abs());
    i64::try_from(ns.div_ceil(1000)).unwrap_or(i64::MAX)
}

/// The kernel's PLL, fed.
#[derive(Debug)]
pub(crate) struct Pll {
    /// Between two polls: the loop's time constant is its log₂.
    poll_s: u64,
    /// No longer than this.
    max_poll_s: u64,
    /// Of polls since it became longer, in units of its log₂.
    jiggle: u32,
    /// Since when the offset has been beyond the step threshold, true ns.
    beyond_since_ns: Option<i64>,
    /// The last reply, and when it came by CLOCK_MONOTONIC, s.
    last: Option<(SimulatedReply, f64)>,
    has_given_up: bool,
}

const MIN_POLL_S: u64 = 64;
const JIGGLE_LIMIT: u32 = 30;
const STEP_NS: i64 = 128_000_000;
const STEP_AFTER_NS: i64 = 300_000_000_000;
const PANIC_NS: i64 = 1_000_000_000_000;

impl Pll {
    pub(crate) fn new(max_poll_s: u64) -> Self {
        let poll_s = max_poll_s.min(MIN_POLL_S);
        Self {
            poll_s,
            max_poll_s,
            jiggle: 0,
            beyond_since_ns: None,
            last: None,
            has_given_up: false,
        }
    }

    /// Until the next poll, ns.
    pub(crate) const fn waits_ns(&self) -> i64 {
        self.poll_s.cast_signed() * 1_000_000_000
    }

    /// What `ntpq` would show of its system peer's last measurement, while it runs.
    pub(crate) fn tracking(&self, world: &SimulatedWorld) -> Option<SimulatedTracking> {
        /// RFC 5905.
        const PHI: f64 = 15e-6;
        let (reply, at_s) = self.last.filter(|_| !self.has_given_up)?;
        let age_s = world.monotonic_ns() as f64 * 1e-9 - at_s;
        let last_offset_s = reply.offset_ns as f64 * 1e-9;
        let root_s = reply.bound_ns as f64 * 1e-9 + PHI * age_s;
        Some(SimulatedTracking { left_s: last_offset_s, last_offset_s, root_s, age_s })
    }

    pub(crate) fn poll(&mut self, world: &mut SimulatedWorld) {
        world.counts.polls += 1;
        if self.has_given_up {
            return;
        }
        let Some(reply) = median(world) else { return };
        self.last = Some((reply, world.monotonic_ns() as f64 * 1e-9));
        if reply.offset_ns.abs() > PANIC_NS {
            self.has_given_up = true;
            return;
        }
        if reply.offset_ns.abs() > STEP_NS {
            let since_ns = *self.beyond_since_ns.get_or_insert(world.now_ns);
            if world.now_ns - since_ns >= STEP_AFTER_NS {
                world.step(reply.offset_ns);
                *self = Self::new(self.max_poll_s);
            }
            return;
        }
        self.beyond_since_ns = None;
        let status = announce_leap(world, status::PLL);
        let modes = mode::OFFSET | mode::STATUS | mode::TIMECONST | mode::NANO | mode::MAXERROR;
        let constant = i64::from(self.poll_s.max(1).ilog2());
        let (offset, max_error) = (reply.offset_ns, max_error_us(reply));
        let timex = Timex { modes, status, constant, offset, max_error, ..Timex::default() };
        let _ = world.kernel.adjust(timex);
        self.jiggle += self.poll_s.max(1).ilog2();
        if self.jiggle > JIGGLE_LIMIT {
            (self.jiggle, self.poll_s) = (0, (self.poll_s * 2).min(self.max_poll_s));
        }
    }
}
