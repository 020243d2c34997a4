//! Many ticks in a few steps, with the result of each of them taken alone.
//!
//! Between two changes of a tick's length the multiplier switches between two
//! neighbours. With `a` the error that a tick leaves at the lower one, `P` what
//! the upper one takes back, 0 ≤ `a` < `P`, a tick makes of the error `e`
//!
//! > e + a,  or  e + a − P  if e > 0,
//!
//! a rotation: once within (a − P, a] it stays there, so of `n` ticks exactly
//! ⌈(e + (n − 1) a) / P⌉ have the upper multiplier. Outside, all ticks have the
//! same until it is reached. Example: P = 8, a = 3, e = 1: errors 1, −4, −1, 2,
//! −3; upper at 1 and 2, and ⌈(1 + 3 × 3) / 8⌉ = 2.

use crate::kernel_clock::accumulator::Accumulator;
use crate::kernel_clock::ntp::Ntp;

/// The two multipliers, and where the error stands.
struct Rotation {
    error: i128,
    /// `a`.
    left: i128,
    /// `P`.
    period: i128,
}

impl Rotation {
    /// Nothing while the multiplier has not settled, which the next tick does.
    fn new(time: &Accumulator, ntp: &Ntp) -> Option<Self> {
        let lower = time.mult.wrapping_sub(time.is_catching_up.into());
        let left = time.tick_error(lower);
        let period = i128::from(time.tick_counts) << time.error_shift();
        let is_settled = time.tick_length == ntp.tick_length()
            && (time.skew, ntp.skew()) == (0, 0)
            && time.is_catching_up == (time.error > 0)
            && !time.has_begun
            && (0..period).contains(&left);
        is_settled.then_some(Self { error: time.error.into(), left, period })
    }

    /// How many of the next ticks have the upper multiplier.
    fn upper(&self, ticks: i128) -> i128 {
        let Self { error, left, period } = *self;
        if error > left {
            // Each of them, until the error is down at `left`.
            let all = div_ceil(error - left, period - left);
            if ticks <= all {
                return ticks;
            }
            let error = error - all * (period - left);
            return all + Self { error, ..*self }.upper(ticks - all);
        }
        if error <= left - period {
            // None of them, until it is up there.
            let none = if left == 0 { ticks } else { divided(left - period - error, left).0 + 1 };
            if ticks <= none {
                return 0;
            }
            return Self { error: error + none * left, ..*self }.upper(ticks - none);
        }
        div_ceil(error + (ticks - 1) * left, period)
    }
}

fn div_ceil(value: i128, by: i128) -> i128 {
    let (quotient, rest) = divided(-value, by);
    -(quotient - i128::from(rest < 0))
}

/// Quotient and rest, towards 0, by a positive number.
fn divided(value: i128, by: i128) -> (i128, i128) {
    (value / by, value % by)
}

impl Accumulator {
    /// A tick that comes exactly when it is due. Returns its leap, s.
    pub(crate) fn tick(&mut self, ntp: &mut Ntp) -> i64 {
        self.add_ticks(1, ntp) + self.steer(0, true, ntp)
    }

    /// So many of them, and the sum of their leaps.
    pub(crate) fn jump(&mut self, mut ticks: u64, ntp: &mut Ntp) -> i64 {
        let mut leaps = 0;
        while ticks > 0 {
            let quiet = Rotation::new(self, ntp).map_or(0, |rotation| {
                let quiet = self.quiet_ticks(&rotation, ntp, ticks);
                self.take(&rotation, quiet, ntp);
                quiet
            });
            ticks -= quiet;
            if ticks > 0 {
                leaps += self.tick(ntp);
                ticks -= 1;
            }
        }
        leaps
    }

    /// How many of the next ticks change nothing but sums: those before the next
    /// second, or, if seconds are steady, before the next one that is not.
    fn quiet_ticks(&self, rotation: &Rotation, ntp: &Ntp, ticks: u64) -> u64 {
        let seconds = match ntp.is_steady(self.seconds) {
            Some(None) => return ticks,
            Some(Some(at_s)) => at_s - self.seconds,
            None => 1,
        };
        let room = i128::from(seconds) * i128::from(self.second()) - i128::from(self.fraction);
        // The last tick before the room is full: where it lies is known to one
        // part in `mult`, and found by halving.
        let lower = self.lower_fraction(rotation);
        let upper = lower + i128::from(self.tick_counts);
        let (mut low, mut high) = (0, i128::from(ticks));
        if lower > 0 && room > 0 {
            (low, high) =
                (high.min(divided(room - 1, upper).0), high.min(divided(room - 1, lower).0));
        }
        while low < high {
            let middle = (low + high + 1) / 2;
            if self.sum(rotation, middle) < room {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low as u64
    }

    /// What a tick at the lower multiplier adds.
    fn lower_fraction(&self, rotation: &Rotation) -> i128 {
        let upper = if rotation.error > 0 { i128::from(self.tick_counts) } else { 0 };
        i128::from(self.tick_fraction()) - upper
    }

    /// What so many ticks add to the fraction.
    fn sum(&self, rotation: &Rotation, ticks: i128) -> i128 {
        self.sum_with(rotation, ticks, rotation.upper(ticks))
    }

    /// The same, of which so many have the upper multiplier.
    fn sum_with(&self, rotation: &Rotation, ticks: i128, upper: i128) -> i128 {
        ticks * self.lower_fraction(rotation) + i128::from(self.tick_counts) * upper
    }

    /// Takes ticks that are quiet.
    fn take(&mut self, rotation: &Rotation, quiet: u64, ntp: &mut Ntp) {
        if quiet == 0 {
            return;
        }
        let ticks = i128::from(quiet);
        let upper = rotation.upper(ticks);
        let second = i128::from(self.second());
        let (seconds, fraction) =
            divided(i128::from(self.fraction) + self.sum_with(rotation, ticks, upper), second);
        let raw_tick = i128::from(self.tick_counts) * i128::from(self.raw_mult);
        let (raw_seconds, raw_fraction) =
            divided(i128::from(self.raw_fraction) + ticks * raw_tick, second);
        let error = rotation.error + ticks * rotation.left - upper * rotation.period;
        self.counter = self.counter.wrapping_add(quiet.wrapping_mul(self.tick_counts));
        self.seconds += seconds as i64;
        self.fraction = fraction as u64;
        self.raw_seconds += raw_seconds as i64;
        self.raw_fraction = raw_fraction as u64;
        self.error = error as i64;
        self.mult = self.mult - u32::from(self.is_catching_up) + u32::from(error > 0);
        self.is_catching_up = error > 0;
        ntp.pass(seconds as i64);
    }
}
