//! True time: what has passed since the start, and UTC.

const S: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Between the two ways in which a leap second may come, half a day each side.
const SMEAR_NS: i64 = 43_200 * S;

/// What true time and UTC are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    start_s: i64,
    /// When a second is inserted, ns since the start: the begin of 23:59:60.
    leap_ns: Option<i64>,
}

impl Truth {
    /// `leap_after_day` counts the days that end during the run, from 1.
    pub(crate) fn new(start_s: u64, leap_after_day: Option<u32>) -> Self {
        let start_s = start_s as i64;
        let to_midnight_s = DAY_S - start_s % DAY_S;
        let leap = |day: u32| (to_midnight_s + (i64::from(day) - 1) * DAY_S) * S;
        Self { start_s, leap_ns: leap_after_day.map(leap) }
    }

    /// UTC as a count of ns since 1970, which repeats a leap second.
    pub(crate) fn utc_ns(&self, at_ns: i64) -> i64 {
        self.start_s * S + at_ns - self.leaps_ns(at_ns)
    }

    /// TAI less UTC, s.
    pub(crate) fn tai_s(&self, at_ns: i64) -> i32 {
        37 + i32::from(self.leaps_ns(at_ns) != 0)
    }

    fn leaps_ns(&self, at_ns: i64) -> i64 {
        if self.leap_ns.is_some_and(|leap_ns| at_ns >= leap_ns) { S } else { 0 }
    }

    pub(crate) fn leap_ns(&self) -> Option<i64> {
        self.leap_ns
    }

    /// What a server that spreads the second is ahead of UTC: from 0 at noon down
    /// to half a second at midnight, half a second ahead then, and 0 at noon.
    pub(crate) fn smeared_ns(&self, at_ns: i64) -> i64 {
        let Some(since_ns) = self.leap_ns.map(|leap_ns| at_ns - leap_ns) else { return 0 };
        if since_ns.abs() >= SMEAR_NS {
            return 0;
        }
        let slowed =
            (i128::from(since_ns + SMEAR_NS) * i128::from(S) / i128::from(2 * SMEAR_NS)) as i64;
        if since_ns < 0 { -slowed } else { S - slowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_repeated_or_spread() {
        // Noon of 31 December 2016: a second is inserted after 43 200 s.
        let truth = Truth::new(1_483_185_600, Some(1));
        let midnight = 43_200 * S;
        assert_eq!(truth.utc_ns(midnight - 1), 1_483_228_800 * S - 1);
        assert_eq!(truth.utc_ns(midnight), 1_483_228_799 * S);
        assert_eq!((truth.tai_s(midnight - 1), truth.tai_s(midnight)), (37, 38));
        assert_eq!(truth.smeared_ns(0), 0);
        assert_eq!(truth.smeared_ns(midnight - 1), -S / 2 + 1);
        assert_eq!(truth.smeared_ns(midnight), S / 2);
        assert_eq!(truth.smeared_ns(midnight + SMEAR_NS / 2), S / 4);
        assert_eq!(truth.smeared_ns(2 * midnight), 0);
    }
}
