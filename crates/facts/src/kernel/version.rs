//! The kernel's version, and when it was built.

use pvclock::units::calendar;

use crate::{Fact, Unknown};

/// Path of the file.
pub const VERSION: &str = "/proc/sys/kernel/version";

const DAY_S: i64 = 86_400;

/// A kernel's version, as far as its behaviour depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The 6 of `6.1.0-18-amd64`.
    pub major: u32,
    /// The 1.
    pub minor: u32,
}

impl KernelVersion {
    /// The version in a release's name.
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(Self { major: next()?, minor: next()? })
    }
}

/// The kept part of `/proc/sys/kernel/version`: the date, `2026-01-31`. Debian
/// writes `(2026-01-31)`, others `Sat Jan 31 10:20:30 UTC 2026`.
pub fn reduce_built(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let iso = words.iter().find_map(|word| {
        let word = word.trim_matches(['(', ')']);
        days_of(word).map(|_| format!("{word}\n"))
    });
    iso.or_else(|| by_words(&words)).unwrap_or_default()
}

/// Days of `2026-01-31` after 1970-01-01.
fn days_of(word: &str) -> Option<i64> {
    let parts: Vec<&str> = word.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return None };
    let number = |word: &str, range: std::ops::RangeInclusive<i128>| {
        word.parse::<i128>().ok().filter(|number| range.contains(number))
    };
    let days =
        calendar::days(number(year, 1991..=9999)?, number(month, 1..=12)?, number(day, 1..=31)?);
    i64::try_from(days).ok()
}

fn by_words(words: &[&str]) -> Option<String> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let at = words.iter().position(|word| word.len() == 3 && MONTHS.contains(word))?;
    let month = MONTHS.find(words[at])? / 3 + 1;
    let day: u32 = words.get(at + 1)?.parse().ok()?;
    let year: u32 = words[at..].iter().rev().find_map(|word| word.parse().ok())?;
    let date = format!("{year:04}-{month:02}-{day:02}");
    days_of(&date).map(|_| format!("{date}\n"))
}

/// When the kernel was built: the start of that day, s since 1970.
pub fn parse_built(text: &str) -> Fact<i64> {
    match days_of(text.trim()) {
        Some(days) => Fact::Known(days * DAY_S),
        None => Fact::Unknown(Unknown::not_applicable("the kernel gives no date of its build")),
    }
}

/// The date (UTC) so many seconds after 1970.
///
/// ```
/// assert_eq!(facts::kernel::version::date(1_582_977_603), "2020-02-29");
/// ```
pub fn date(unix_s: i64) -> String {
    let date = calendar::date(i128::from(unix_s.div_euclid(DAY_S)));
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let of = |release| KernelVersion::parse(release).unwrap();
        assert!(of("6.19.2") < of("7.0.0-rc1") && of("7.0.0-rc1") < of("7.2.13+deb14-amd64"));
        assert_eq!(KernelVersion::parse("none"), None);
    }

    #[test]
    fn the_date_of_the_build_is_kept_in_one_form() {
        for (text, date) in [
            ("#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)", "2024-11-22\n"),
            ("#60-Ubuntu SMP PREEMPT_DYNAMIC Fri Jan 10 20:17:09 UTC 2025", "2025-01-10\n"),
            ("#1 SMP Wed May  7 09:00:01 CEST 2025", "2025-05-07\n"),
            ("#1 SMP", ""),
            ("#1 SMP Mon May 99 2025", ""),
        ] {
            assert_eq!(reduce_built(text), date, "{text}");
            assert_eq!(reduce_built(date), date);
        }
        assert_eq!(parse_built("1991-01-02\n"), Fact::Known(7671 * 86_400));
        assert!(parse_built("").unknown().is_some());
    }
}
