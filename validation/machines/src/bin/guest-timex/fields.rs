//! What a random program hands to the kernel.

use units::random::SplitMix64;

pub(crate) const NS_PER_S: i64 = 1_000_000_000;

/// Bits of adjtimex(2), so that a program reads as one.
pub(crate) mod bits {
    pub(crate) const OFFSET: u32 = 0x1;
    pub(crate) const FREQUENCY: u32 = 0x2;
    pub(crate) const MAXERROR: u32 = 0x4;
    pub(crate) const ESTERROR: u32 = 0x8;
    pub(crate) const STATUS: u32 = 0x10;
    pub(crate) const TIMECONST: u32 = 0x20;
    pub(crate) const TAI: u32 = 0x80;
    pub(crate) const SETOFFSET: u32 = 0x100;
    pub(crate) const MICRO: u32 = 0x1000;
    pub(crate) const NANO: u32 = 0x2000;
    pub(crate) const TICK: u32 = 0x4000;
    pub(crate) const SINGLESHOT: u32 = 0x8001;
    pub(crate) const SS_READ: u32 = 0xa001;
    pub(crate) const PLL: i64 = 0x1;
    pub(crate) const FLL: i64 = 0x8;
    pub(crate) const INS: i64 = 0x10;
    pub(crate) const DEL: i64 = 0x20;
    pub(crate) const UNSYNC: i64 = 0x40;
    pub(crate) const FREQHOLD: i64 = 0x80;
}

/// Modes, offset, frequency, both errors, status, constant, tick, seconds and
/// fraction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fields {
    pub(crate) modes: u32,
    pub(crate) offset: i64,
    pub(crate) frequency: i64,
    pub(crate) max_error: i64,
    pub(crate) estimated_error: i64,
    pub(crate) status: i64,
    pub(crate) constant: i64,
    pub(crate) tick: i64,
    pub(crate) seconds: i64,
    pub(crate) fraction: i64,
}

/// What is drawn from a seed.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        (self.0.bits() % end.cast_unsigned()).cast_signed()
    }

    pub(crate) fn about_zero(&mut self, end: i64) -> i64 {
        self.below(2 * end + 1) - end
    }

    pub(crate) fn pick<const N: usize>(&mut self, of: [i64; N]) -> i64 {
        let index = self.below(N as i64);
        of[usize::try_from(index).unwrap_or_default()]
    }

    pub(crate) fn fields(&mut self) -> Fields {
        use bits::*;
        let modes = [
            0,
            OFFSET,
            OFFSET,
            OFFSET | STATUS,
            STATUS,
            FREQUENCY,
            FREQUENCY,
            TICK,
            TICK | FREQUENCY,
            OFFSET | FREQUENCY | STATUS,
            MAXERROR | ESTERROR,
            TIMECONST,
            TIMECONST | OFFSET,
            TAI,
            SETOFFSET,
            SETOFFSET | NANO,
            SETOFFSET | OFFSET | STATUS,
            NANO,
            MICRO,
            SINGLESHOT,
            SS_READ,
            SINGLESHOT | FREQUENCY,
            0x8000,
        ];
        let modes = self.pick(modes.map(i64::from)) as u32;
        let status = PLL | self.pick([0, 0, 0, FLL, FREQHOLD, INS, DEL, UNSYNC, -1, -PLL]);
        let offset = self.pick([1000, 600_000, 700_000_000]);
        let frequency = self.pick([1000, 6_553_600, 40_000_000, i64::MAX / 2 - 1]);
        Fields {
            modes,
            offset: self.about_zero(offset),
            frequency: self.about_zero(frequency),
            max_error: self.pick([-1, 0, 1000, 15_999_000, 20_000_000]),
            estimated_error: self.pick([-1, 0, 1000, 20_000_000]),
            status,
            constant: self.pick([-1, 0, 1, 2, 6, 10, 37, 100_000, 100_001]),
            tick: self.pick([8999, 9000, 9500, 9999, 10_000, 10_001, 11_000, 11_001]),
            seconds: self.about_zero(2),
            fraction: self.pick([-1, 0, 500_000, 999_999, 1_000_000, 999_999_999, NS_PER_S]),
        }
    }
}
