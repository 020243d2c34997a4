//! The kernel's clock, and what adjtimex does to it.

use keeper::{ClockError, SLEW_PPM};
use pvclock::units::LeapSecond;

use super::S;

/// When histories begin, and when the program was made: a month before.
const BEGUN_NS: i64 = 1_795_000_000 * S as i64;
const PROGRAM_NS: i64 = BEGUN_NS - 30 * 86_400 * S as i64;

/// The kernel's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errno {
    Eperm,
    Einval,
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC, and the truth, which they do not know.
#[derive(Debug, Clone)]
pub(crate) struct ModelClock {
    pub(crate) truth_ns: i64,
    pub(crate) realtime_ns: i64,
    pub(crate) monotonic_ns: u64,
    pub(crate) slew_left_ns: i64,
    /// It begins with the next second (`second_overflow`, kernel/time/ntp.c), when it shows this.
    slew_from_ns: i64,
    /// When something other than the keeper moved it last, by CLOCK_MONOTONIC.
    pub(crate) moved_at_ns: u64,
    /// The oscillator's error, and what of it is corrected, ppb.
    pub(crate) drift_ppb: f64,
    pub(crate) frequency_ppb: f64,
    /// Of a nanosecond: what these have moved the clock by.
    moved: f64,
    /// Of each frequency that was set: its error before and after, ppb.
    pub(crate) frequencies: Vec<(f64, f64)>,
    /// The largest error that the kernel knows of, which it adds 500 ppm to, until
    /// something happens; and of each, by how much it was too small at most.
    max_error_ns: Option<u64>,
    pub(crate) unknown_ns: Vec<u64>,
    /// Errors estimated without a source, and what they were.
    pub(crate) estimates: Vec<(u64, u64)>,
    pub(crate) may_set: bool,
    pub(crate) steps: Vec<(u64, i64)>,
    pub(crate) slews: u64,
    /// The largest error reported to the kernel, and what it was.
    pub(crate) max_errors: Vec<(u64, u64)>,
    /// The leap seconds that the kernel was told of, and the clock's error then.
    pub(crate) leaps: Vec<(Option<LeapSecond>, i64)>,
}

impl ModelClock {
    pub(crate) fn new(drift_ppm: i64) -> Self {
        Self {
            truth_ns: BEGUN_NS,
            realtime_ns: BEGUN_NS,
            monotonic_ns: 1000 * S,
            slew_left_ns: 0,
            slew_from_ns: 0,
            moved_at_ns: 0,
            drift_ppb: drift_ppm as f64 * 1e3,
            frequency_ppb: 0.0,
            moved: 0.0,
            frequencies: Vec::new(),
            max_error_ns: None,
            unknown_ns: Vec::new(),
            estimates: Vec::new(),
            may_set: true,
            steps: Vec::new(),
            slews: 0,
            max_errors: Vec::new(),
            leaps: Vec::new(),
        }
    }

    /// Time passes; `by_ns` is a multiple of a millisecond, so that parts
    /// per million of it are whole nanoseconds.
    pub(crate) fn advance(&mut self, by_ns: u64) {
        assert_eq!(by_ns % 1_000_000, 0);
        self.moved += by_ns as f64 * self.rate_error_ppb() * 1e-9;
        let drift = self.moved as i64;
        self.moved -= drift as f64;
        let begun_ns = (self.realtime_ns + by_ns as i64 - self.slew_from_ns).clamp(0, by_ns as i64);
        let most = begun_ns / 1_000_000 * SLEW_PPM as i64;
        let slewed = most.min(self.slew_left_ns.abs()) * self.slew_left_ns.signum();
        self.slew_left_ns -= slewed;
        self.truth_ns += by_ns as i64;
        self.monotonic_ns += by_ns.saturating_add_signed(drift + slewed);
        self.realtime_ns += by_ns as i64 + drift + slewed;
        if let Some(max_error_ns) = &mut self.max_error_ns {
            *max_error_ns += by_ns / 2000;
            let known_ns = *max_error_ns;
            let unknown_ns = self.error_ns().unsigned_abs().saturating_sub(known_ns);
            let most_ns = self.unknown_ns.last_mut().expect("it was told");
            *most_ns = unknown_ns.max(*most_ns);
        }
    }

    /// The host stops the machine, and every clock in it.
    pub(crate) fn pause(&mut self, for_ns: u64) {
        self.truth_ns += for_ns as i64;
        self.max_error_ns = None;
        self.moved_at_ns = self.monotonic_ns;
    }

    /// Another process sets it, if the kernel lets it; whether it did.
    pub(crate) fn set_by_another(&mut self, by_ns: i64) -> bool {
        let set_ns = self.realtime_ns.saturating_add(by_ns);
        let is_set = set_ns >= self.monotonic_ns as i64;
        if is_set {
            (self.realtime_ns, self.slew_left_ns, self.max_error_ns) = (set_ns, 0, None);
            self.moved_at_ns = self.monotonic_ns;
        }
        is_set
    }

    /// Another daemon slews it, and tells the kernel of its error itself.
    pub(crate) fn slewed_by_another(&mut self, by_ns: i64) {
        self.realtime_ns += by_ns;
        self.monotonic_ns = self.monotonic_ns.saturating_add_signed(by_ns);
        self.max_error_ns = None;
    }

    /// How much faster than the truth the clock is, ppb.
    pub(crate) fn rate_error_ppb(&self) -> f64 {
        self.drift_ppb + self.frequency_ppb + self.drift_ppb * self.frequency_ppb * 1e-9
    }

    /// By how much it shows a time before the program was made, if it does.
    pub(crate) fn behind_ns(&self) -> Option<u64> {
        let behind_ns = u64::try_from(PROGRAM_NS - self.realtime_ns).ok();
        behind_ns.filter(|behind_ns| *behind_ns > 0)
    }

    /// How far the clock is ahead of the truth.
    pub(crate) fn error_ns(&self) -> i64 {
        self.realtime_ns - self.truth_ns
    }

    /// `adjtimex` with ADJ_SETOFFSET (`timekeeping_validate_timex`
    /// and `timekeeping_inject_offset`, kernel/time/timekeeping.c).
    pub(crate) fn set_offset(&mut self, sec: i64, usec: i64) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        if !(0..1_000_000).contains(&usec) {
            return Err(Errno::Einval);
        }
        let by_ns = sec.checked_mul(S as i64).and_then(|ns| ns.checked_add(usec * 1000));
        let set = by_ns.and_then(|by_ns| self.realtime_ns.checked_add(by_ns));
        // No time before boot, as it would be without CLOCK_MONOTONIC.
        let set = set.filter(|set| *set >= self.monotonic_ns as i64).ok_or(Errno::Einval)?;
        // TK_CLEAR_NTP: what the kernel was told ends too.
        (self.realtime_ns, self.slew_left_ns, self.max_error_ns) = (set, 0, None);
        Ok(())
    }

    /// `adjtimex` with ADJ_OFFSET_SINGLESHOT.
    pub(crate) fn single_shot(&mut self, usec: i64) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        self.slew_left_ns = usec.checked_mul(1000).ok_or(Errno::Einval)?;
        self.slew_from_ns = (self.realtime_ns.div_euclid(S as i64) + 1) * S as i64;
        Ok(())
    }
}

impl ModelClock {
    pub(crate) fn step(&mut self, by_ns: i64) -> Result<(), Errno> {
        let by_us = by_ns.div_euclid(1000);
        self.set_offset(by_us.div_euclid(1_000_000), by_us.rem_euclid(1_000_000))?;
        self.steps.push((self.monotonic_ns, by_ns));
        Ok(())
    }

    pub(crate) fn slew(&mut self, by_ns: i64) -> Result<(), Errno> {
        self.single_shot(by_ns / 1000)?;
        self.slews += 1;
        Ok(())
    }

    pub(crate) fn set_error(&mut self, error: ClockError) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        self.max_error_ns = Some(error.max_ns);
        let error_ns = self.error_ns().unsigned_abs();
        self.unknown_ns.push(error_ns.saturating_sub(error.max_ns));
        self.max_errors.push((error.max_ns, error_ns));
        Ok(())
    }

    pub(crate) fn set_figures(
        &mut self,
        max_ns: Option<u64>,
        estimated_ns: u64,
    ) -> Result<(), Errno> {
        if max_ns.is_some() {
            self.max_error_ns = None;
            return Ok(());
        }
        self.estimates.push((estimated_ns, self.error_ns().unsigned_abs()));
        Ok(())
    }

    pub(crate) fn set_leap(&mut self, leap: Option<LeapSecond>) -> Result<(), Errno> {
        self.leaps.push((leap, self.error_ns()));
        Ok(())
    }

    /// `adjtimex` with ADJ_FREQUENCY, in units of 2^-16 ppm.
    pub(crate) fn set_frequency(&mut self, ppb: f64) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        let before = self.rate_error_ppb();
        assert!(ppb.abs() <= 500_000.0, "beyond MAXFREQ: {ppb}");
        let units = (ppb * 65.536).round();
        self.frequency_ppb = units / 65.536;
        self.frequencies.push((before, self.rate_error_ppb()));
        Ok(())
    }
}
