//! The timekeeper: a clock source, what was counted of it, the discipline, and
//! the offsets between the clocks.

use crate::kernel_clock::KernelClocks;
use crate::kernel_clock::accumulator::Accumulator;
use crate::kernel_clock::kernel::{LATEST_S, LinuxKernel};
use crate::kernel_clock::ntp::Ntp;
use crate::kernel_clock::source::KernelClockSource;
use crate::kernel_clock::timex::{Timex, mode};

const NS_PER_S: i128 = 1_000_000_000;

/// A tick may be set to this many µs, 10 % about 10 ms.
const TICK_US: core::ops::RangeInclusive<i64> = 9_000..=11_000;

/// A call that the kernel refuses with `EINVAL`; see
/// [`LinuxKernel::clears_when_refused`] for what may still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// `ADJ_ADJTIME` without `ADJ_OFFSET_SINGLESHOT`.
    Modes(u32),
    /// A tick outside 9000 to 11 000 µs.
    Tick(i64),
    /// A fraction of a step that is negative or a whole second.
    Fraction(i64),
    /// A frequency whose scaling overflows.
    Frequency(i64),
    /// A time of day before 1970, before the machine's uptime, or later than what
    /// 64 bits of ns hold less 30 years; ns.
    OutOfRange(i128),
}

/// A kernel's clocks, driven by readings of its counter.
///
/// A reading never goes back; it is the true count, of which a source shows the
/// bits of its mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timekeeper {
    kernel: LinuxKernel,
    source: KernelClockSource,
    time: Accumulator,
    ntp: Ntp,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, ns.
    realtime_offset: i128,
    /// `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`, ns.
    boottime_offset: i128,
    tai_s: i32,
}

impl Timekeeper {
    /// A machine that boots at this reading and this time of day, ns since 1970
    /// (which is the RTC's second), with all clocks but that one at 0.
    #[must_use]
    pub fn boot(
        kernel: LinuxKernel,
        source: KernelClockSource,
        counter: u64,
        realtime: u64,
    ) -> Self {
        let mut time = Accumulator::new(kernel, &source, counter);
        set(&mut time, realtime.into());
        let mut ntp = Ntp::new(kernel);
        ntp.clear(time.surplus);
        let realtime_offset = realtime.into();
        Self { kernel, source, time, ntp, realtime_offset, boottime_offset: 0, tai_s: 0 }
    }

    /// All clocks at a reading.
    #[must_use]
    pub fn clocks(&self, counter: u64) -> KernelClocks {
        let counts = self.elapsed(counter);
        let realtime = self.time.time_after(counts);
        let monotonic = realtime - self.realtime_offset;
        KernelClocks {
            realtime,
            monotonic,
            raw: self.time.raw_after(counts),
            boottime: monotonic + self.boottime_offset,
            tai: realtime + i128::from(self.tai_s) * NS_PER_S,
        }
    }

    /// The discipline.
    #[must_use]
    pub fn ntp(&self) -> &Ntp {
        &self.ntp
    }

    /// The clock source in use.
    #[must_use]
    pub fn source(&self) -> &KernelClockSource {
        &self.source
    }

    /// Counts in a tick of this source.
    #[must_use]
    pub fn tick_counts(&self) -> u64 {
        self.time.tick_counts
    }

    /// The counter up to which ticks have been added up.
    #[must_use]
    pub fn ticked(&self) -> u64 {
        self.time.counter
    }

    /// The time of day at [`Self::ticked`], s and ns times `2^shift`: the line by which programs
    /// compute it begins there.
    #[must_use]
    pub fn line_base(&self) -> (i64, u64) {
        (self.time.seconds, self.time.fraction)
    }

    /// The multiplier now, steered.
    #[must_use]
    pub fn mult(&self) -> u32 {
        self.time.mult
    }

    fn elapsed(&self, counter: u64) -> u64 {
        self.source.elapsed(self.kernel, self.time.counter, counter)
    }

    /// Goes on to a reading, with a tick at each time that one is due: in a number
    /// of steps that does not depend on how many there are where the rate is
    /// steady, and at most one a second while a discipline is at work.
    pub fn advance_to(&mut self, counter: u64) {
        let ticks = self.due(counter);
        let leaps = self.time.jump(ticks, &mut self.ntp);
        self.leap(leaps);
    }

    /// The same, tick by tick: slow, and plainly right.
    pub fn walk_to(&mut self, counter: u64) {
        for _ in 0..self.due(counter) {
            let leap = self.time.tick(&mut self.ntp);
            self.leap(leap);
        }
    }

    fn due(&self, counter: u64) -> u64 {
        let ahead = counter.wrapping_sub(self.time.counter);
        if ahead.cast_signed() < 0 { 0 } else { ahead / self.time.tick_counts }
    }

    /// A tick's interrupt that comes at this reading, late or after a sleep: all
    /// that passed since the last is added up at once, at the rate of then. A
    /// counter that has gone round meanwhile loses its rounds.
    pub fn interrupt(&mut self, counter: u64) {
        let counts = self.elapsed(counter);
        if counts >= self.time.tick_counts {
            self.update(counts, counter);
        }
    }

    fn update(&mut self, counts: u64, counter: u64) {
        let (ticks, rest) = (counts / self.time.tick_counts, counts % self.time.tick_counts);
        let mut leaps = self.time.add_ticks(ticks, &mut self.ntp);
        self.time.counter = counter.wrapping_sub(rest);
        leaps += self.time.steer(rest, self.kernel.owes_change(), &mut self.ntp);
        self.leap(leaps);
    }

    fn leap(&mut self, leaps_s: i64) {
        self.realtime_offset += i128::from(leaps_s) * NS_PER_S;
        self.tai_s -= leaps_s as i32;
    }

    fn forward(&mut self, counter: u64) {
        let counts = self.elapsed(counter);
        self.time.forward(counts);
        self.time.counter = counter;
    }

    /// `clock_settime` at this reading: the discipline starts afresh but for its
    /// frequency, and a leap second that was armed is not inserted.
    ///
    /// # Errors
    ///
    /// [`Refused::OutOfRange`].
    pub fn set_realtime(&mut self, counter: u64, realtime: i128) -> Result<(), Refused> {
        if !is_date(realtime) {
            return Err(Refused::OutOfRange(realtime));
        }
        self.check(counter, realtime)?;
        self.step(counter, realtime);
        Ok(())
    }

    /// `CLOCK_REALTIME` may not be below `CLOCK_MONOTONIC`.
    fn check(&mut self, counter: u64, realtime: i128) -> Result<(), Refused> {
        if is_date(realtime) && realtime >= self.clocks(counter).monotonic {
            return Ok(());
        }
        if self.kernel.clears_when_refused() {
            self.forward(counter);
            self.settle();
        }
        Err(Refused::OutOfRange(realtime))
    }

    fn step(&mut self, counter: u64, realtime: i128) {
        self.forward(counter);
        // The kernel's offset is of whole ns: what the clock had beyond them is
        // dropped with the step.
        self.realtime_offset += realtime - self.time.time_after(0);
        set(&mut self.time, realtime);
        self.settle();
    }

    fn settle(&mut self) {
        self.time.error = 0;
        self.ntp.clear(self.time.surplus);
    }

    /// `adjtimex(2)` by the superuser at this reading. Fills what it reports, and
    /// returns the state, of [`crate::kernel_clock::timex::state`].
    ///
    /// # Errors
    ///
    /// [`Refused`], as the kernel's `EINVAL`.
    pub fn adjtimex(&mut self, counter: u64, timex: &mut Timex) -> Result<i32, Refused> {
        check_call(timex)?;
        let mut read = self.clocks(counter).realtime;
        if timex.modes & mode::SETOFFSET != 0 {
            self.add_offset(counter, timex)?;
            if !self.kernel.reports_time_before_offset() {
                read = self.clocks(counter).realtime;
            }
        }
        let read = seconds_and_ns(read);
        let now_s = self.time.seconds;
        let result = self.ntp.adjust(self.kernel, timex, read, now_s, &mut self.tai_s);
        if timex.modes & (mode::FREQUENCY | mode::TICK) != 0 {
            self.update(self.elapsed(counter), counter);
        }
        Ok(result)
    }

    fn add_offset(&mut self, counter: u64, timex: &Timex) -> Result<(), Refused> {
        let unit = if timex.modes & mode::NANO == 0 { 1000 } else { 1 };
        let step = i128::from(timex.seconds) * NS_PER_S + i128::from(timex.fraction * unit);
        self.check(counter, self.clocks(counter).realtime + step)?;
        self.forward(counter);
        self.realtime_offset += step;
        // Unlike a time that is set, it keeps the clock's fraction of a ns.
        let below = self.time.fraction & ((1 << self.time.shift) - 1);
        let to = self.time.time_after(0) + step;
        set(&mut self.time, to);
        self.time.fraction += below;
        self.settle();
        Ok(())
    }

    /// Another clock source, at a reading of each.
    pub fn change_source(&mut self, counter: u64, source: KernelClockSource, its_counter: u64) {
        self.forward(counter);
        self.time.install(self.kernel, &source, its_counter);
        self.source = source;
        self.settle();
    }

    /// The machine was suspended from one reading of the counter to another, and
    /// slept for so long, ns: CLOCK_MONOTONIC and RAW stand.
    pub fn suspend(&mut self, at: u64, resumed: u64, slept: u64) {
        self.forward(at);
        let below = self.time.fraction & ((1 << self.time.shift) - 1);
        let realtime = self.time.time_after(0) + i128::from(slept);
        set(&mut self.time, realtime);
        self.time.fraction += below;
        self.realtime_offset += i128::from(slept);
        self.boottime_offset += i128::from(slept);
        self.time.counter = resumed;
        self.time.error = 0;
    }
}

/// Whole seconds, and the rest in ns.
fn seconds_and_ns(ns: i128) -> (i64, i64) {
    (ns.div_euclid(NS_PER_S) as i64, ns.rem_euclid(NS_PER_S) as i64)
}

/// Whether a time of day can be set at all.
fn is_date(realtime: i128) -> bool {
    (0..i128::from(LATEST_S) * NS_PER_S).contains(&realtime)
}

/// Sets the time of day; its second is not announced to the discipline.
fn set(time: &mut Accumulator, realtime: i128) {
    time.seconds = realtime.div_euclid(NS_PER_S) as i64;
    time.fraction = (realtime.rem_euclid(NS_PER_S) as u64) << time.shift;
}

/// What is refused before anything is done.
fn check_call(timex: &Timex) -> Result<(), Refused> {
    let has = |bit: u32| timex.modes & bit != 0;
    if has(mode::ADJTIME) {
        if !has(mode::OFFSET) {
            return Err(Refused::Modes(timex.modes));
        }
    } else if has(mode::TICK) && !TICK_US.contains(&timex.tick) {
        return Err(Refused::Tick(timex.tick));
    }
    if has(mode::SETOFFSET) {
        let second = if has(mode::NANO) { 1_000_000_000 } else { 1_000_000 };
        if !(0..second).contains(&timex.fraction) {
            return Err(Refused::Fraction(timex.fraction));
        }
    }
    if has(mode::FREQUENCY) && timex.frequency.checked_mul(1000 << 16).is_none() {
        return Err(Refused::Frequency(timex.frequency));
    }
    Ok(())
}
