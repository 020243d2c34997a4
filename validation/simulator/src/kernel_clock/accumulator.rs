//! Counts become time: whole ticks are added up, and after each update the
//! multiplier is steered towards the length that a tick should have.
//!
//! The multiplier is a whole number, so no length is met exactly. The kernel
//! takes the one below, adds up what is missing, and takes the one above for as
//! long as the clock is behind (kernel/time/timekeeping.c, `timekeeping_adjust`;
//! since Linux 4.17). Example: at 100 MHz and 100 Hz a tick has 10⁶ counts; a
//! length of 10 000 000.25 ns is met by one tick in 2^shift/4 with `mult` + 1.

use crate::kernel_clock::kernel::LinuxKernel;
use crate::kernel_clock::ntp::{Ntp, SCALE};
use crate::kernel_clock::source::KernelClockSource;

const NS_PER_S: u64 = 1_000_000_000;

/// What is counted, in the kernel's integers. A fraction is ns times `2^shift`,
/// an error ns times 2³².
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accumulator {
    /// The counter up to which time was added up.
    pub(crate) counter: u64,
    /// Counts in a tick.
    pub(crate) tick_counts: u64,
    /// The time of day, s.
    pub(crate) seconds: i64,
    /// Of the second.
    pub(crate) fraction: u64,
    pub(crate) raw_seconds: i64,
    pub(crate) raw_fraction: u64,
    /// ns per count times `2^shift`, steered.
    pub(crate) mult: u32,
    /// Not steered.
    pub(crate) raw_mult: u32,
    pub(crate) shift: u32,
    /// What a tick of whole counts lacks of a tick, ns times `2^shift`.
    pub(crate) remainder: i64,
    /// By how much the clock is behind.
    pub(crate) error: i64,
    /// The multiplier is the one above.
    pub(crate) is_catching_up: bool,
    /// The length that the multiplier was made for, and what a tick slews.
    pub(crate) tick_length: u64,
    pub(crate) skew: i64,
    /// Since 7.3 what a second of whole counts has more than a second, ns times 2³²;
    /// there is then no remainder.
    pub(crate) surplus: i64,
    /// A second began already, and the clock was then steered to before it.
    pub(crate) has_begun: bool,
}

impl Accumulator {
    /// A source taken into use at this reading.
    pub(crate) fn new(kernel: LinuxKernel, source: &KernelClockSource, counter: u64) -> Self {
        let mut new = Self {
            counter,
            tick_counts: 1,
            seconds: 0,
            fraction: 0,
            raw_seconds: 0,
            raw_fraction: 0,
            mult: source.mult,
            raw_mult: source.mult,
            shift: source.shift,
            remainder: 0,
            error: 0,
            is_catching_up: false,
            tick_length: 0,
            skew: 0,
            surplus: 0,
            has_begun: false,
        };
        new.install(kernel, source, counter);
        new
    }

    /// Goes on with another source, from this reading of it. What was learnt of
    /// the old one's rate is dropped.
    pub(crate) fn install(
        &mut self,
        kernel: LinuxKernel,
        source: &KernelClockSource,
        counter: u64,
    ) {
        let mult = u64::from(source.mult);
        let nominal = kernel.tick_ns() << source.shift;
        let rescale = |fraction: u64| match source.shift.checked_sub(self.shift) {
            Some(finer) => fraction << finer,
            None => fraction >> (self.shift - source.shift),
        };
        (self.fraction, self.raw_fraction) = (rescale(self.fraction), rescale(self.raw_fraction));
        self.counter = counter;
        self.tick_counts = ((nominal + mult / 2) / mult).max(1);
        let remainder = nominal.wrapping_sub(self.tick_counts * mult).cast_signed();
        (self.mult, self.raw_mult, self.shift) = (source.mult, source.mult, source.shift);
        let mut tick = nominal;
        (self.remainder, self.surplus, self.skew) = (remainder, 0, 0);
        if kernel.drains_slews() {
            tick = self.tick_counts * mult;
            self.surplus = -(remainder << self.error_shift()) * i64::from(kernel.tick_hz);
            self.remainder = 0;
        }
        self.error = 0;
        self.tick_length = tick << self.error_shift();
        self.is_catching_up = false;
        self.has_begun = false;
    }

    /// From a fraction to an error.
    pub(crate) fn error_shift(&self) -> u32 {
        SCALE - self.shift
    }

    /// A second in a fraction.
    pub(crate) fn second(&self) -> u64 {
        NS_PER_S << self.shift
    }

    /// What a tick adds to the fraction.
    pub(crate) fn tick_fraction(&self) -> u64 {
        self.tick_counts.wrapping_mul(self.mult.into())
    }

    /// By how much a tick at this multiplier falls short of its length.
    pub(crate) fn tick_error(&self, mult: u32) -> i128 {
        let fraction = i128::from(self.tick_counts) * i128::from(mult);
        let tick = (fraction + i128::from(self.remainder)) << self.error_shift();
        i128::from(self.tick_length) - tick
    }

    /// Adds up whole ticks, and tells the discipline of each second that began.
    /// Returns the sum of the leaps, s.
    pub(crate) fn add_ticks(&mut self, mut ticks: u64, ntp: &mut Ntp) -> i64 {
        let mut leaps = 0;
        while self.skew != 0 && ticks > 0 {
            // By twos to some power, as the kernel does it and a drain sees.
            let shift = ticks.ilog2().min(62 - ntp.tick_length().ilog2());
            leaps += self.add_alike(1 << shift, ntp);
            self.error = self.error.wrapping_add(ntp.drain_ticks(self.skew, shift));
            ticks -= 1 << shift;
        }
        leaps + self.add_alike(ticks, ntp)
    }

    fn add_alike(&mut self, ticks: u64, ntp: &mut Ntp) -> i64 {
        self.counter = self.counter.wrapping_add(ticks.wrapping_mul(self.tick_counts));
        let short = self.tick_error(self.mult) * i128::from(ticks);
        let sum =
            |fraction: u64, tick: u64| u128::from(fraction) + u128::from(tick) * u128::from(ticks);
        let raw = sum(self.raw_fraction, self.tick_counts * u64::from(self.raw_mult));
        let mut time = sum(self.fraction, self.tick_fraction());
        let second = u128::from(self.second());
        self.raw_seconds += (raw / second) as i64;
        self.raw_fraction = (raw % second) as u64;
        let mut leaps = 0;
        while time >= second {
            time -= second;
            leaps += self.begin_second(ntp);
        }
        self.fraction = time as u64;
        self.error = self.error.wrapping_add(short as i64);
        leaps
    }

    fn begin_second(&mut self, ntp: &mut Ntp) -> i64 {
        self.seconds += 1;
        if core::mem::take(&mut self.has_begun) {
            return 0;
        }
        let leap = ntp.second(self.seconds);
        self.seconds += leap;
        leap
    }

    /// Steers the multiplier, `rest` counts after the last whole tick. The time
    /// at that moment stays what it was, and is owed if `owes_change`. Returns a leap as above.
    pub(crate) fn steer(&mut self, rest: u64, owes_change: bool, ntp: &mut Ntp) -> i64 {
        let (length, skew) = (ntp.tick_length(), ntp.skew());
        let mut mult = self.mult.wrapping_sub(u32::from(self.is_catching_up));
        if (length, skew) != (self.tick_length, self.skew) {
            (self.tick_length, self.skew) = (length, skew);
            let slewed = length.wrapping_add_signed(ntp.skew_length());
            let tick = (slewed >> self.error_shift()).wrapping_add_signed(-self.remainder);
            mult = (tick / self.tick_counts) as u32;
        }
        self.is_catching_up = self.error > 0;
        mult = mult.wrapping_add(self.is_catching_up.into());
        let change = mult.wrapping_sub(self.mult).cast_signed();
        let taken = rest.cast_signed().wrapping_mul(change.into());
        self.mult = mult;
        self.fraction = self.fraction.wrapping_sub(taken.cast_unsigned());
        if owes_change {
            self.error = self.error.wrapping_add(taken << self.error_shift());
        }
        if self.fraction.cast_signed() < 0 {
            self.fraction = self.fraction.wrapping_add(self.second());
            self.seconds -= 1;
            self.has_begun = true;
        }
        let mut leaps = 0;
        while self.fraction >= self.second() {
            self.fraction -= self.second();
            leaps += self.begin_second(ntp);
        }
        leaps
    }

    /// Adds up counts that are no whole ticks, before the clock is set or the
    /// source changed. The discipline hears of no second that begins meanwhile.
    pub(crate) fn forward(&mut self, counts: u64) {
        let second = u128::from(self.second());
        let sum =
            |fraction: u64, mult: u32| u128::from(fraction) + u128::from(counts) * u128::from(mult);
        let (time, raw) = (sum(self.fraction, self.mult), sum(self.raw_fraction, self.raw_mult));
        self.seconds += (time / second) as i64;
        self.fraction = (time % second) as u64;
        self.raw_seconds += (raw / second) as i64;
        self.raw_fraction = (raw % second) as u64;
        self.counter = self.counter.wrapping_add(counts);
    }

    /// The time of day so many counts later, ns.
    pub(crate) fn time_after(&self, counts: u64) -> i128 {
        nanos(self.seconds, self.fraction, self.mult, self.shift, counts)
    }

    /// The raw time so many counts later, ns.
    pub(crate) fn raw_after(&self, counts: u64) -> i128 {
        nanos(self.raw_seconds, self.raw_fraction, self.raw_mult, self.shift, counts)
    }
}

fn nanos(seconds: i64, fraction: u64, mult: u32, shift: u32, counts: u64) -> i128 {
    let within = (u128::from(counts) * u128::from(mult) + u128::from(fraction)) >> shift;
    i128::from(seconds) * i128::from(NS_PER_S) + within.cast_signed()
}
