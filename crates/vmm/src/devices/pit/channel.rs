//! One channel of the 8254: what it counts, and how it is read and written a
//! byte at a time. Its input is the number of the clock's tick; a count takes
//! effect at the tick after the one it was written in, as on the chip.
//!
//! It has the modes that PC software uses for timekeeping: 0, 2 and 3. Modes 1,
//! 4 and 5 count like mode 0, and decimal counts are binary.

/// Which bytes of the count go over the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteAccess {
    /// The low byte; the high one is 0.
    Low,
    /// The high byte; the low one is 0.
    High,
    /// Low, then high.
    Both,
}

/// The state of the counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelRun {
    /// Waits for a count.
    Idle,
    /// Counts since this tick.
    Since(u64),
    /// Has counted so many ticks, and the gate stops it.
    Held(u64),
}

/// A channel, which is its own saved state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PitChannel {
    /// 0, 2 or 3 as in the data sheet; after power on it is undefined, 0 here.
    pub mode: u8,
    /// How the port is used.
    pub access: ByteAccess,
    /// Whether it may count.
    pub gate: bool,
    /// Ticks from count to terminal count, 1 to 65536; 0 before the first.
    pub count: u32,
    /// The state of the counting.
    pub run: ChannelRun,
    /// The low byte of a count whose high byte is still to come.
    pub half_written: Option<u8>,
    /// Whether the next byte read is a high one.
    pub half_read: bool,
    /// The count as latched.
    pub latched_count: Option<u16>,
    /// The status as latched.
    pub latched_status: Option<u8>,
}

impl PitChannel {
    /// One that waits to be programmed.
    pub(super) const fn new(gate: bool) -> Self {
        Self {
            mode: 0,
            access: ByteAccess::Both,
            gate,
            count: 0,
            run: ChannelRun::Idle,
            half_written: None,
            half_read: false,
            latched_count: None,
            latched_status: None,
        }
    }

    /// One that counts from the beginning.
    pub(super) const fn counting(mode: u8, count: u16) -> Self {
        Self { mode, count: count as u32, run: ChannelRun::Since(0), ..Self::new(true) }
    }

    /// A control word for this channel.
    pub(super) fn control(&mut self, word: u8, tick: u64) {
        let access = match word >> 4 & 3 {
            0 => return self.latch_count(tick),
            1 => ByteAccess::Low,
            2 => ByteAccess::High,
            _ => ByteAccess::Both,
        };
        let mode = match word >> 1 & 7 {
            2 | 6 => 2,
            3 | 7 => 3,
            _ => 0,
        };
        *self = Self { access, mode, ..Self::new(self.gate) };
    }

    /// The read-back command, which latches count (bit 5 clear), status (bit
    /// 4 clear) or both. What is latched already stays.
    pub(super) fn read_back(&mut self, word: u8, tick: u64) {
        if word & 0x20 == 0 {
            self.latch_count(tick);
        }
        if word & 0x10 == 0 && self.latched_status.is_none() {
            self.latched_status = Some(self.status(tick));
        }
    }

    fn latch_count(&mut self, tick: u64) {
        if self.latched_count.is_none() {
            self.latched_count = Some(self.reading(tick));
        }
    }

    /// Output, no count yet, access, mode; never decimal.
    fn status(&self, tick: u64) -> u8 {
        let access = match self.access {
            ByteAccess::Low => 1,
            ByteAccess::High => 2,
            ByteAccess::Both => 3,
        };
        u8::from(self.output(tick)) << 7
            | u8::from(self.count == 0) << 6
            | access << 4
            | self.mode << 1
    }

    /// The next byte of what is latched, or else of the running count.
    pub(super) fn read(&mut self, tick: u64) -> u8 {
        if let Some(status) = self.latched_status.take() {
            return status;
        }
        let [low, high] = self.latched_count.unwrap_or_else(|| self.reading(tick)).to_le_bytes();
        let take_high = match self.access {
            ByteAccess::Low => false,
            ByteAccess::High => true,
            ByteAccess::Both => self.half_read,
        };
        let more = self.access == ByteAccess::Both && !take_high;
        self.half_read = more;
        if !more {
            self.latched_count = None;
        }
        if take_high { high } else { low }
    }

    /// A byte of a new count. In mode 0 the first of two stops the counting.
    pub(super) fn write(&mut self, value: u8, tick: u64) {
        let count = match (self.access, self.half_written.take()) {
            (ByteAccess::Low, _) => u16::from(value),
            (ByteAccess::High, _) => u16::from(value) << 8,
            (ByteAccess::Both, Some(low)) => u16::from_le_bytes([low, value]),
            (ByteAccess::Both, None) => {
                self.half_written = Some(value);
                if self.mode == 0 {
                    self.run = ChannelRun::Idle;
                }
                return;
            }
        };
        self.load(count, tick);
    }

    /// A whole new count starts at once in modes 2 and 3 too, where the chip
    /// would end its period first: as KVM does (arch/x86/kvm/i8254.c).
    fn load(&mut self, count: u16, tick: u64) {
        self.count = match u32::from(count) {
            0 => 0x1_0000,
            // Not allowed in these modes: there would be nothing between edges.
            1 if self.is_periodic() => 2,
            ticks => ticks,
        };
        self.run =
            if self.gate { ChannelRun::Since(tick.saturating_add(1)) } else { ChannelRun::Held(0) };
    }

    /// The gate: it stops the counting in mode 0, and restarts it in 2 and 3.
    pub(super) fn set_gate(&mut self, gate: bool, tick: u64) {
        let rises = gate && !self.gate;
        let falls = self.gate && !gate;
        let next = tick.saturating_add(1);
        self.run = match (self.mode, self.run) {
            _ if self.count == 0 => self.run,
            (2 | 3, _) if rises => ChannelRun::Since(next),
            (2 | 3, ChannelRun::Since(_)) if falls => ChannelRun::Held(0),
            (0, ChannelRun::Since(since)) if falls => ChannelRun::Held(tick.saturating_sub(since)),
            (0, ChannelRun::Held(ticks)) if rises => ChannelRun::Since(next.saturating_sub(ticks)),
            (_, run) => run,
        };
        self.gate = gate;
    }

    /// Whether its edges repeat.
    const fn is_periodic(&self) -> bool {
        matches!(self.mode, 2 | 3)
    }

    /// Ticks counted since the count was loaded; none while it waits.
    fn elapsed(&self, tick: u64) -> Option<u64> {
        match self.run {
            ChannelRun::Idle => None,
            _ if self.count == 0 => None,
            ChannelRun::Since(since) => Some(tick.saturating_sub(since)),
            ChannelRun::Held(ticks) => Some(ticks),
        }
    }

    /// The level of its output.
    pub(super) fn output(&self, tick: u64) -> bool {
        let count = u64::from(self.count);
        let Some(elapsed) = self.elapsed(tick) else { return self.mode != 0 };
        if self.is_periodic() && !self.gate {
            return true;
        }
        match self.mode {
            2 => elapsed % count != count - 1,
            3 => elapsed % count < count.div_ceil(2),
            _ => elapsed >= count,
        }
    }

    /// How often the output has risen since the count was loaded.
    pub(super) fn edges(&self, tick: u64) -> u64 {
        let Some(elapsed) = self.elapsed(tick) else { return 0 };
        let count = u64::from(self.count);
        match self.mode {
            2 | 3 => elapsed / count,
            _ => u64::from(elapsed >= count),
        }
    }

    /// The counting element, as the guest reads it.
    fn reading(&self, tick: u64) -> u16 {
        let count = u64::from(self.count);
        let left = match (self.elapsed(tick), self.mode) {
            (None, _) => count,
            (Some(elapsed), 2) => count - elapsed % count,
            (Some(elapsed), 3) => square_wave_count(count, elapsed % count),
            // It continues below 0 and wraps.
            (Some(elapsed), _) => count.wrapping_sub(elapsed),
        };
        left as u16
    }
}

/// Mode 3 counts down by two, twice a period; odd counts start one lower and
/// are high for one tick longer than low.
fn square_wave_count(count: u64, phase: u64) -> u64 {
    let high = count.div_ceil(2);
    let in_half = if phase < high { phase } else { phase - high };
    (count & !1) - 2 * in_half
}

#[cfg(test)]
mod tests;
