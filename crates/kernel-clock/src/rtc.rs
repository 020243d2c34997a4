//! The RTC: where the time of day comes from at boot, and how long a suspend was.
//! It counts whole seconds, in UTC or in local time.

const NS_PER_S: i128 = 1_000_000_000;

/// Who reads the RTC at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtBoot {
    /// The kernel's first lines (`read_persistent_clock64`): the second as read,
    /// so the clock is behind by its fraction.
    Early,
    /// Its driver later (drivers/rtc/class.c, `rtc_hctosys`): half a second more,
    /// so it is off by half a second at most.
    Driver,
}

/// The time of day that a boot starts with, ns: the RTC's second, taken as UTC.
///
/// ```
/// use kernel_clock::rtc::{self, AtBoot};
///
/// assert_eq!(rtc::at_boot(1_700_000_000, AtBoot::Driver), 1_700_000_000_500_000_000);
/// ```
#[must_use]
pub fn at_boot(rtc_s: u32, how: AtBoot) -> u64 {
    let fraction_ns = match how {
        AtBoot::Early => 0,
        AtBoot::Driver => 500_000_000,
    };
    u64::from(rtc_s) * 1_000_000_000 + fraction_ns
}

/// What a program adds to the time of day of an RTC in local time, s: the first
/// `settimeofday` with a zone and no time does that, once in a boot
/// (`timekeeping_warp_clock`). New York in winter is 300 minutes west.
///
/// ```
/// assert_eq!(kernel_clock::rtc::warp_s(300), 18_000);
/// ```
#[must_use]
pub fn warp_s(minutes_west: i32) -> i64 {
    i64::from(minutes_west) * 60
}

/// What `hwclock` knows of the RTC's drift (hwclock(8), `/etc/adjtime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drift {
    /// What it loses a day, ns.
    pub ns_per_day: i64,
    /// When it was last right, s since 1970.
    pub right_at_s: i64,
}

impl Drift {
    /// What to add to a reading, ns.
    ///
    /// ```
    /// use kernel_clock::rtc::Drift;
    ///
    /// let drift = Drift { ns_per_day: 2_000_000_000, right_at_s: 1_000_000 };
    /// assert_eq!(drift.correction(1_000_000 + 43_200), 1_000_000_000);
    /// ```
    #[must_use]
    pub fn correction(&self, rtc_s: i64) -> i64 {
        let elapsed_s = i128::from(rtc_s) - i128::from(self.right_at_s);
        (i128::from(self.ns_per_day) * elapsed_s / 86_400) as i64
    }
}

/// Measures suspends by the RTC, where no counter goes on meanwhile
/// (kernel/time/timekeeping.c, `timekeeping_suspend`, `timekeeping_resume`).
///
/// Each reading is off by up to a second, and many suspends would add that up: so
/// the difference between the clock and the RTC is kept (at first 0), and a
/// suspend is measured from where that puts its start, unless the difference has
/// moved by two seconds, as after a step.
///
/// ```
/// use kernel_clock::rtc::SleepMeter;
///
/// let mut meter = SleepMeter::default();
/// // At 100.9 s by the clock the RTC shows 100: it is suspended at 100.9 s.
/// meter.suspend(100_900_000_000, 100);
/// assert_eq!(meter.resume(160), Some(59_100_000_000));
/// // A clock that is 300 s ahead keeps that: the RTC's own seconds count.
/// meter.suspend(461_200_000_000, 161);
/// assert_eq!(meter.resume(170), Some(9_000_000_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SleepMeter {
    /// The clock less the RTC, ns, as first seen.
    difference: i128,
    /// When the suspend began, by the RTC, ns.
    began: i128,
}

impl SleepMeter {
    /// A suspend begins at this time of day, ns, and this second of the RTC.
    pub fn suspend(&mut self, realtime: i128, rtc_s: u32) {
        let rtc = i128::from(rtc_s) * NS_PER_S;
        self.began = rtc;
        let moved = realtime - rtc - self.difference;
        // The kernel looks at the seconds of a difference with a positive
        // fraction: −1.5 s are −2.
        if moved.div_euclid(NS_PER_S).abs() >= 2 {
            self.difference = realtime - rtc;
        } else {
            self.began += moved;
        }
    }

    /// It ends at this second of the RTC. Returns how long it was, ns; nothing if
    /// the RTC has not moved on.
    pub fn resume(&mut self, rtc_s: u32) -> Option<u64> {
        let slept = i128::from(rtc_s) * NS_PER_S - self.began;
        u64::try_from(slept).ok().filter(|&slept| slept > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_suspends_do_not_add_up_their_errors() {
        // An RTC that is exact, read to its second; 5.7 s awake, 10.3 s asleep.
        let mut meter = SleepMeter::default();
        let (mut truth, mut clock) = (1_000_000_300_000_000_i128, 1_000_000_900_000_000_i128);
        let rtc = |truth: i128| u32::try_from(truth / NS_PER_S).unwrap();
        for _ in 0..1000 {
            meter.suspend(clock, rtc(truth));
            truth += 10_300_000_000;
            clock += i128::from(meter.resume(rtc(truth)).unwrap());
            (truth, clock) = (truth + 5_700_000_000, clock + 5_700_000_000);
        }
        assert!((truth - clock).abs() < 2 * NS_PER_S, "{}", truth - clock);
    }

    #[test]
    fn an_rtc_that_went_back_shows_no_suspend() {
        let mut meter = SleepMeter::default();
        meter.suspend(5_000 * NS_PER_S, 5_000);
        assert_eq!(meter.resume(4_000), None);
    }
}
