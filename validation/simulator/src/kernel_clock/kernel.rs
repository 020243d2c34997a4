//! Which kernel: its version and tick, and what differed between versions, as
//! data. A row that no kernel here has shown says where it was read.

/// A version of Linux, ordered as versions are.
///
/// ```
/// use simulator::kernel_clock::Version;
///
/// assert!(Version(6, 1, 176) < Version(6, 12, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16, pub u16);

/// A kernel, as far as its timekeeping depends on how it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinuxKernel {
    /// Its version.
    pub version: Version,
    /// `CONFIG_HZ`, ticks per second: 100 to 1000.
    pub(crate) tick_hz: u32,
}

/// Length of a year as the limit below has it, s.
const YEAR_S: i64 = 365 * 24 * 3600;

/// The largest time of day that can be set: what a signed 64-bit count of ns
/// holds, less 30 years of uptime (Linux: include/linux/time64.h,
/// `TIME_SETTOD_SEC_MAX`), s since 1970.
pub(crate) const LATEST_S: i64 = i64::MAX / 1_000_000_000 - 30 * YEAR_S;

impl LinuxKernel {
    /// A kernel of this version and tick; kernels tick at 100 to 1000 Hz.
    ///
    /// ```
    /// use simulator::kernel_clock::{LinuxKernel, Version};
    ///
    /// let debian_12 = LinuxKernel::new(Version(6, 1, 176), 250);
    /// assert_eq!(debian_12.tick_ns(), 4_000_000);
    /// ```
    #[must_use]
    pub const fn new(version: Version, tick_hz: u32) -> Self {
        let tick_hz = match tick_hz {
            0..100 => 100,
            1001.. => 1000,
            _ => tick_hz,
        };
        Self { version, tick_hz }
    }

    /// The tick's nominal length, ns.
    #[must_use]
    pub const fn tick_ns(self) -> u64 {
        1_000_000_000 / self.tick_hz as u64
    }

    /// Whether the offset that `adjtimex` reports in µs was cast to 32 unsigned
    /// bits on its way: a small negative one reads as 2³² ns less it, in µs, so
    /// −5 µs as 4 294 962. From 5.1 (ead25417f82e), cured in 6.13 by f5807b0606da
    /// and in the stable series after 2024-12. Debian's 6.1.176 and 6.12.101 have
    /// the cure, so no kernel here has shown it.
    #[must_use]
    pub fn casts_offset(self) -> bool {
        let Version(major, minor, patch) = self.version;
        let cured_in = match (major, minor) {
            (6, 12) => 5,
            (6, 6) => 66,
            (6, 1) => 120,
            (5, 15) => 174,
            (5, 10) => 231,
            (5, 4) => 287,
            _ => return self.version >= Version(5, 1, 0) && self.version < Version(6, 13, 0),
        };
        patch < cured_in
    }

    /// Whether `ADJ_SETOFFSET` reports the time from before its step, as 7.2 does,
    /// or from after it, as 6.12 does (kernel/time/timekeeping.c, `do_adjtimex`).
    /// The version between the two that changed it is not known here.
    #[must_use]
    pub fn reports_time_before_offset(self) -> bool {
        self.version > Version(6, 12, u16::MAX)
    }

    /// Whether a step that is refused because the time of day would precede the
    /// uptime still clears the discipline, as in 6.1 and 6.12 (the way out of
    /// `do_settimeofday64` updates with `TK_CLEAR_NTP`), or changes nothing, as in
    /// 7.2. The version between that changed it is not known here.
    #[must_use]
    pub fn clears_when_refused(self) -> bool {
        self.version <= Version(6, 12, u16::MAX)
    }

    /// Whether what a change of the multiplier in the middle of a tick takes from the clock is added to
    /// what it has to catch up with. Not so since 4.17 (c2cda2a5bda9); cured in 7.3 and in the
    /// stable series by "timekeeping: Account for monotonicity adjustment in ntp_error", which was in
    /// tip's timers/core on 2026-07-08, after 7.2's merge window. In 7.2 it is by 7.2.13, which was
    /// measured (docs/measurements/line.md). Kernels before 4.17 added another amount as well, which
    /// is not modelled.
    #[must_use]
    pub fn owes_change(self) -> bool {
        let Version(major, minor, patch) = self.version;
        match (major, minor) {
            (6, 12) => patch >= 110,
            (6, 1) => patch >= 188,
            (7, 2) => patch >= 13,
            _ => self.version >= Version(7, 3, 0) || self.version < Version(4, 17, 0),
        }
    }

    /// Whether a slew is drained tick by tick, and a tick of whole counts is the tick that the
    /// discipline lengthens: since 7.3, by its ntp.c and the code of Debian's 7.3.4, whose transcript
    /// is a test.
    #[must_use]
    pub fn drains_slews(self) -> bool {
        self.version >= Version(7, 3, 0)
    }

    /// How far a counter may seem to have gone ahead since it was last read until
    /// that is taken as a step back, which counts as nothing: half of its range, or
    /// seven eighths of it since 6.12 (kernel/time/clocksource.c, `max_raw_delta`;
    /// read in 6.12.101 and absent from 6.1.176).
    #[must_use]
    pub fn longest_delta(self, mask: u64) -> u64 {
        let eighths = if self.version < Version(6, 12, 0) { 0 } else { (mask >> 2) + (mask >> 3) };
        (mask >> 1) + eighths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_owed_before_its_line_was_dropped_and_since_it_is_back() {
        for (version, expected) in [
            (Version(4, 16, 18), true),
            (Version(4, 17, 0), false),
            (Version(6, 1, 187), false),
            (Version(6, 1, 188), true),
            (Version(6, 8, 12), false),
            (Version(6, 12, 109), false),
            (Version(6, 12, 110), true),
            (Version(7, 2, 0), false),
            (Version(7, 2, 13), true),
            (Version(7, 3, 0), true),
        ] {
            assert_eq!(LinuxKernel::new(version, 250).owes_change(), expected, "{version:?}");
        }
    }

    #[test]
    fn a_stable_series_has_the_cure_on_its_own() {
        let casts = |version| LinuxKernel::new(version, 250).casts_offset();
        for (version, expected) in [
            (Version(4, 19, 300), false),
            (Version(5, 4, 286), true),
            (Version(5, 10, 231), false),
            (Version(6, 1, 119), true),
            (Version(6, 1, 176), false),
            (Version(6, 8, 12), true),
            (Version(6, 12, 4), true),
            (Version(6, 12, 101), false),
            (Version(7, 2, 0), false),
        ] {
            assert_eq!(casts(version), expected, "{version:?}");
        }
    }
}
