//! What `adjtimex` does to the discipline, and what it reports.

use super::LeapState;
use super::{
    ERROR_GROWTH_US, LARGEST_ERROR_US, LARGEST_FREQUENCY, LARGEST_PHASE_NS, NS_PER_S, NS_PER_US,
    Ntp, PLL_SHIFT, SCALE, halved,
};
use crate::kernel_clock::kernel::LinuxKernel;
use crate::kernel_clock::timex::{Timex, mode, state, status};

/// ns/s times 2³² in a unit of `timex`, ppm times 2⁻¹⁶.
const FREQUENCY_UNIT: i64 = NS_PER_US << (SCALE - 16);

/// The largest time constant.
const LARGEST_CONSTANT: i64 = 10;

/// The largest offset of TAI, s.
const LARGEST_TAI_S: i64 = 100_000;

/// Offsets at shorter intervals do not use the FLL, s.
const SHORTEST_FLL_S: i64 = 256;
/// At longer ones they always do, s.
const LONGEST_PLL_S: i64 = 2048;
/// Damping of the FLL, log₂.
const FLL_SHIFT: u32 = 2;

impl Ntp {
    /// The part of a call that is about the discipline. Fills the fields that it
    /// reports and returns the state; the time that the call reports was read
    /// before, in s and ns. `now_s` is the time of day of the last tick.
    pub(crate) fn adjust(
        &mut self,
        kernel: LinuxKernel,
        timex: &mut Timex,
        (seconds, nanos): (i64, i64),
        now_s: i64,
        tai_s: &mut i32,
    ) -> i32 {
        if timex.modes & mode::ADJTIME == 0 {
            self.set(timex, now_s, tai_s);
            timex.offset = self.offset_told(kernel);
        } else {
            let left_us = self.singleshot_us;
            if timex.modes & mode::NANO == 0 {
                self.singleshot_us = timex.offset;
                self.drop_part();
                self.apply_frequency();
            }
            timex.offset = left_us;
        }
        timex.frequency = self.frequency_told();
        timex.max_error = self.max_error_us;
        timex.estimated_error = self.estimated_error_us;
        timex.status = self.status;
        timex.constant = self.time_constant;
        timex.tick = self.tick_us;
        timex.tai = *tai_s;
        timex.seconds = seconds;
        timex.fraction = if self.counts_ns() { nanos } else { nanos / NS_PER_US };
        self.result(timex, seconds)
    }

    fn counts_ns(&self) -> bool {
        self.status & status::NANO != 0
    }

    /// In the order of the kernel, where it matters: the status first, and the
    /// unit before what is counted in it.
    fn set(&mut self, timex: &Timex, now_s: i64, tai_s: &mut i32) {
        let sets = |bit| timex.modes & bit != 0;
        if sets(mode::STATUS) {
            self.set_status(timex.status, now_s);
        }
        if sets(mode::NANO) {
            self.status |= status::NANO;
        }
        if sets(mode::MICRO) {
            self.status &= !status::NANO;
        }
        if sets(mode::FREQUENCY) {
            let frequency = timex.frequency.wrapping_mul(FREQUENCY_UNIT);
            self.frequency = frequency.clamp(-LARGEST_FREQUENCY, LARGEST_FREQUENCY);
        }
        if sets(mode::MAXERROR) {
            self.max_error_us = timex.max_error.clamp(0, LARGEST_ERROR_US);
        }
        if sets(mode::ESTERROR) {
            self.estimated_error_us = timex.estimated_error.clamp(0, LARGEST_ERROR_US);
        }
        if sets(mode::TIMECONST) {
            let coarser = if self.counts_ns() { 0 } else { 4 };
            let constant = timex.constant.clamp(0, LARGEST_CONSTANT) + coarser;
            self.time_constant = constant.min(LARGEST_CONSTANT);
        }
        if sets(mode::TAI)
            && let Ok(tai) = i32::try_from(timex.constant)
            && (0..=LARGEST_TAI_S).contains(&timex.constant)
        {
            *tai_s = tai;
        }
        if sets(mode::OFFSET) {
            self.set_offset(timex.offset, now_s);
        }
        if sets(mode::TICK) {
            self.tick_us = timex.tick;
        }
        if sets(mode::TICK | mode::FREQUENCY | mode::OFFSET) {
            self.apply_frequency();
        }
    }

    /// The PLL switched off forgets all else, the read-only bits too; switched on
    /// it starts to count its interval.
    fn set_status(&mut self, bits: i32, now_s: i64) {
        let (was, is) = (self.status & status::PLL != 0, bits & status::PLL != 0);
        if was && !is {
            self.leap = super::Leap::default();
            self.status = status::UNSYNC;
        }
        if !was && is {
            self.last_offset_s = now_s;
        }
        self.status = (self.status & status::READ_ONLY) | (bits & !status::READ_ONLY);
    }

    /// An offset, which also turns the frequency: by the PLL in proportion to the
    /// interval, by the FLL against it.
    fn set_offset(&mut self, offset: i64, now_s: i64) {
        if self.status & status::PLL == 0 {
            return;
        }
        let unit_ns = if self.counts_ns() { 1 } else { NS_PER_US };
        let limit = NS_PER_S / unit_ns;
        let offset_ns = if unit_ns == 1 { offset } else { offset.clamp(-limit, limit) * unit_ns };
        let offset_ns = offset_ns.clamp(-LARGEST_PHASE_NS, LARGEST_PHASE_NS);
        let held = self.status & status::FREQHOLD != 0;
        let interval_s = if held { 0 } else { now_s - self.last_offset_s };
        self.last_offset_s = now_s;
        let by_fll = self.by_fll(offset_ns, interval_s);
        // A long absence counts as a short one, or the PLL would overshoot.
        let longest_s = 1 << (PLL_SHIFT + 1 + self.time_constant);
        let shift = i64::from(SCALE) - 2 * (PLL_SHIFT + 2 + self.time_constant);
        let by_pll = (offset_ns.wrapping_mul(interval_s.min(longest_s))) << shift;
        let frequency = by_fll.wrapping_add(by_pll).wrapping_add(self.frequency);
        self.frequency = frequency.clamp(-LARGEST_FREQUENCY, LARGEST_FREQUENCY);
        self.offset = (offset_ns << SCALE) / self.tick_hz;
    }

    fn by_fll(&mut self, offset_ns: i64, interval_s: i64) -> i64 {
        let is_wanted = self.status & status::FLL != 0 || interval_s > LONGEST_PLL_S;
        if interval_s < SHORTEST_FLL_S || !is_wanted {
            self.status &= !status::MODE;
            return 0;
        }
        self.status |= status::MODE;
        (offset_ns << (SCALE - FLL_SHIFT)) / interval_s
    }

    /// In ns or µs; see [`LinuxKernel::casts_offset`].
    fn offset_told(&self, kernel: LinuxKernel) -> i64 {
        let ns = halved(self.offset.wrapping_mul(self.tick_hz), i64::from(SCALE));
        match (self.counts_ns(), kernel.casts_offset()) {
            (true, _) => ns,
            (false, false) => ns / NS_PER_US,
            (false, true) => i64::from(ns as u32) / NS_PER_US,
        }
    }

    /// The kernel multiplies by an inverse, which rounds up what it cut before.
    fn frequency_told(&self) -> i64 {
        const CUT: u32 = 19;
        const INVERSE: i64 = (1 << (CUT + SCALE)) / FREQUENCY_UNIT + 1;
        halved((self.frequency >> CUT) * INVERSE, i64::from(SCALE))
    }

    /// The state, at the moment that the time was read: between midnight and the
    /// tick that notices it, a leap second has begun already.
    fn result(&self, timex: &mut Timex, read_s: i64) -> i32 {
        let mut told = match self.leap.state {
            _ if self.status & (status::UNSYNC | status::CLOCKERR) != 0 => state::ERROR,
            LeapState::Ok => state::OK,
            LeapState::Inserting => state::INS,
            LeapState::Deleting => state::DEL,
            LeapState::Passing => state::OOP,
            LeapState::Passed => state::WAIT,
        };
        let Some(at_s) = self.leap.at_s.filter(|&at_s| read_s >= at_s) else { return told };
        let has = |bit| self.status & bit != 0;
        match self.leap.state {
            LeapState::Inserting if has(status::INS) => {
                told = state::OOP;
                timex.tai += 1;
                timex.seconds -= 1;
            }
            LeapState::Deleting if has(status::DEL) => {
                told = state::WAIT;
                timex.tai -= 1;
                timex.seconds += 1;
            }
            LeapState::Passing if read_s == at_s => told = state::WAIT,
            _ => {}
        }
        told
    }
}

const _: () = assert!(ERROR_GROWTH_US * NS_PER_US == LARGEST_FREQUENCY >> SCALE);
