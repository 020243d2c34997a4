//! How Linux 7.3 slews (kernel/time/ntp.c, "timekeeping: Drive time_offset skew via per-tick
//! ntp_error transfer"): a tick's length stays, and each tick takes what it slews from what is left
//! and adds it to what the clock is behind, by which the multiplier is chosen. So a slew ends where
//! nothing is left of it, and not with a second.
//!
//! Example: of 700 µs an old `adjtime` drains 500 µs in its first second, 2 µs in a tick of 4 ms.

use super::{NS_PER_US, Ntp, SCALE, SLEW_US};

/// A µs of phase.
const US: i64 = NS_PER_US << SCALE;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Drain {
    /// What a tick slews, in the unit of the offset (`skew_delta`).
    skew: i64,
    /// What was begun of a µs of an old `adjtime` (`time_adjust_frac`).
    part: i64,
    /// By how much a second of whole counts is longer than a second (`cs_tick_adj`).
    pub(super) surplus: i64,
}

impl Drain {
    pub(super) fn new(surplus: i64) -> Self {
        Self { surplus, ..Self::default() }
    }

    pub(super) fn is_idle(self) -> bool {
        self.skew == 0 && self.part == 0
    }
}

impl Ntp {
    /// What a tick slews now, in the unit of a length.
    pub(crate) fn skew(&self) -> i64 {
        self.drain.map_or(0, |drain| drain.skew)
    }

    /// The same of its length.
    pub(crate) fn skew_length(&self) -> i64 {
        self.skew().wrapping_mul(self.tick_hz)
    }

    /// A second begins, in which the PLL would slew `chunk` (`second_overflow`).
    pub(super) fn begin_drain(&mut self, mut chunk: i64) {
        let Some(mut drain) = self.drain else { return };
        if chunk == 0 {
            chunk = self.offset;
        }
        let whole = SLEW_US * US;
        let mut singleshot = match self.singleshot_us {
            us if us.saturating_abs() >= SLEW_US => us.signum() * whole,
            us => us * US + drain.part,
        } / self.tick_hz;
        if singleshot == 0 {
            singleshot = drain.part.signum();
        }
        if chunk.signum() * singleshot.signum() < 0 {
            // Two slews against each other are settled without the clock.
            let both = chunk.abs().min(singleshot.abs()).min(self.offset.abs()) * chunk.signum();
            self.offset -= both;
            drain.part += both * self.tick_hz;
            let whole_us = drain.part / US;
            self.singleshot_us += whole_us;
            drain.part -= whole_us * US;
            if self.singleshot_us.signum() * drain.part.signum() < 0 {
                let borrowed = self.singleshot_us.signum();
                self.singleshot_us -= borrowed;
                drain.part += borrowed * US;
            }
        }
        let net = chunk + singleshot;
        let skew = net / self.tick_hz;
        drain.skew = if skew == 0 { net.signum() } else { skew };
        self.drain = Some(drain);
    }

    /// Takes what 2^`shift` ticks slew from what is left, first from an old `adjtime`
    /// (`ntp_drain_skew`); returns by how much the clock is to be ahead, in the unit of a length.
    pub(crate) fn drain_ticks(&mut self, skew: i64, shift: u32) -> i64 {
        let amount = skew << shift;
        let rest = amount - self.drain_singleshot(amount, shift);
        let from_offset = match rest.signum() * self.offset.signum() {
            1 => rest.signum() * rest.abs().min(self.offset.abs()),
            _ => 0,
        };
        self.offset -= from_offset;
        (amount - rest + from_offset) * self.tick_hz
    }

    fn drain_singleshot(&mut self, amount: i64, shift: u32) -> i64 {
        let Some(drain) = &mut self.drain else { return 0 };
        let sign = if self.singleshot_us == 0 { drain.part } else { self.singleshot_us }.signum();
        if sign * amount.signum() <= 0 {
            return 0;
        }
        let most = (SLEW_US * US / self.tick_hz) << shift;
        let wanted = (amount.abs() * self.tick_hz).min(most);
        let lacking = (wanted - drain.part.abs()).max(0);
        let borrowed = ((lacking + US - 1) / US).min(self.singleshot_us.saturating_abs());
        self.singleshot_us -= sign * borrowed;
        drain.part += sign * borrowed * US;
        let delivered = wanted.min(drain.part.abs());
        drain.part -= sign * delivered;
        sign * (delivered / self.tick_hz)
    }

    /// An old `adjtime` replaces what was begun of the last.
    pub(super) fn drop_part(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.part = 0;
        }
    }
}
