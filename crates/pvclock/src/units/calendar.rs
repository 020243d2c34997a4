//! The Gregorian calendar, in both directions and for any number of days.
//!
//! Inlined, so that a caller with dates of a few thousand years divides 64
//! bits: on bare metal there is no library that divides 128.

/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH_DAYS: i128 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const CYCLE_DAYS: i128 = 146_097;

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Years, 0 and negative ones before year 1.
    pub year: i128,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl Date {
    /// Whether a leap second may come at its end: of the two days that are taken first (ITU-R
    /// TF.460-6), and no other was ever needed.
    pub const fn is_leap_day(&self) -> bool {
        matches!((self.month, self.day), (6, 30) | (12, 31))
    }
}

/// The date a number of days after 1970-01-01.
#[inline]
pub fn date(days: i128) -> Date {
    let since_march = days.saturating_add(EPOCH_DAYS);
    let (cycle, day) = (since_march.div_euclid(CYCLE_DAYS), since_march.rem_euclid(CYCLE_DAYS));
    // A year that begins in March has its leap day last: taking the leap days
    // so far out of `day` leaves whole years of 365.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // From March on months have 31, 30, 31, 30, 31 days, over and over: 153 in
    // five months.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5;
    Date {
        year: cycle * 400 + year + i128::from(month >= 10),
        month: ((month + 2) % 12 + 1) as u32,
        day: (day_of_month + 1) as u32,
    }
}

/// Days from 1970-01-01 to a date; months and days out of range carry.
#[inline]
pub fn days(year: i128, month: i128, day: i128) -> i128 {
    // Months since March of year 0.
    let months = year * 12 + month - 3;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - EPOCH_DAYS
}

/// 1 for Sunday to 7, of a number of days after 1970-01-01, a Thursday.
#[inline]
pub fn weekday(days: i128) -> u32 {
    ((days.rem_euclid(7) + 4) % 7 + 1) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_of_the_calendar_are_counted_without_a_gap() {
        let mut expected = Date { year: 1599, month: 12, day: 31 };
        for day in days(1600, 1, 1)..days(2401, 1, 1) {
            let next = date(day);
            let Date { year, month, day: of_month } = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + u32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, of_month == last) {
                (_, false) => Date { day: of_month + 1, ..expected },
                (12, true) => Date { year: year + 1, month: 1, day: 1 },
                (_, true) => Date { month: month + 1, day: 1, ..expected },
            };
            assert_eq!(next, expected, "{day} days after 1970");
            assert_eq!(days(next.year, next.month.into(), next.day.into()), day);
        }
    }

    #[test]
    fn what_is_out_of_range_carries() {
        assert_eq!(days(2023, 2, 31), days(2023, 3, 3));
        assert_eq!(days(2023, 14, 0), days(2024, 1, 31));
    }

    #[test]
    fn weeks_go_on_through_1970() {
        assert_eq!(weekday(0), 5);
        assert_eq!(weekday(days(2026, 11, 21)), 7);
        assert_eq!(weekday(-4), 1);
    }

    #[test]
    fn known_dates() {
        for (day, (year, month, of_month)) in [
            (-719_528, (0, 1, 1)),
            (-25_509, (1900, 2, 28)),
            (-25_508, (1900, 3, 1)),
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (19_782, (2024, 2, 29)),
            (24_855, (2038, 1, 19)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (2_932_896, (9999, 12, 31)),
        ] {
            assert_eq!(date(day), Date { year, month, day: of_month });
            assert_eq!(days(year, month.into(), of_month.into()), day);
        }
    }

    #[test]
    fn the_far_ends_are_dates_too() {
        for days in [i128::MIN / (1_000_000_000 * 86_400), i128::MAX / (1_000_000_000 * 86_400)] {
            let date = date(days);
            assert!((1..=12).contains(&date.month) && (1..=31).contains(&date.day), "{date:?}");
        }
    }

    proptest! {
        /// However far off.
        #[test]
        fn a_date_comes_back(day in any::<i64>().prop_map(i128::from)) {
            let Date { year, month, day: of_month } = date(day);
            prop_assert_eq!(days(year, month.into(), of_month.into()), day);
            prop_assert!((1..=12).contains(&month) && (1..=31).contains(&of_month));
            let later = Date { year: year + 400, month, day: of_month };
            prop_assert_eq!(date(day + CYCLE_DAYS), later);
            prop_assert_eq!(weekday(day + CYCLE_DAYS), weekday(day));
        }
    }
}
