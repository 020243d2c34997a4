//! Times that a text prints for themselves, as `date`, `hwclock` and `timedatectl` do: what two of
//! them, or one of them and the stamps before it, show of the clocks.

use pvclock::units::calendar;

use crate::kernel::line;

/// A printed time is a short line, bytes.
const LONGEST: usize = 90;

/// `System time was Fri Mar  3 10:00:05 2023 -03  .123456 seconds`
const MOST_WORDS: usize = 11;

/// People and programs take so long between two, s.
const SLACK_S: f64 = 2.0;

/// Whoever prints the time again later leaves less between, s.
const DAY_S: f64 = 86_400.0;

/// Between two times that belong together stand at most so many lines: a prompt, a heading.
const MOST_BETWEEN: u32 = 2;

/// So long after one command the next is typed, s.
const TYPED_S: f64 = 60.0;

/// No clock of a machine that runs shows such a year.
const YEARS: std::ops::Range<i128> = 1990..2100;

/// Words before a printed time.
const LABELS: &str = "local universal rtc system time clock hardware hw current was is now date host \
                      guest vm container set";

/// The days' names begin so.
const WEEKDAYS: &str = "mon tue wed thu fri sat sun die mit don fre sam son lun mer jeu ven dim \
                        mié jue vie sáb dom seg ter qua qui sex gio sab пн вт ср чт пт сб вс 星期";

/// What printed times show.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedTimes {
    /// Its name in the table of statements.
    pub of: &'static str,
    /// The later line's time less the earlier line's, s.
    pub by_s: f64,
    /// Its year, where that is absurd.
    pub year: i128,
    /// The lines.
    pub lines: Vec<String>,
}

/// A printed time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Printed {
    /// Since 1970 by its own zone, s, and in a year of 366 days for stamps without a year.
    at_s: f64,
    in_year_s: f64,
    year: i128,
    zone: String,
    /// Of `dmesg -T`.
    is_bracketed: bool,
    line: String,
}

/// Collects printed times.
#[derive(Debug, Default)]
pub(super) struct PrintedLines {
    last: Option<Printed>,
    /// Lines since then, and how many times stood in a row.
    between: u32,
    run: u32,
    /// A line between asked or named another clock.
    is_other: bool,
    /// How many lines print a time for itself.
    pub(super) lines: u64,
    found: Vec<PrintedTimes>,
}

impl PrintedLines {
    /// One line, whether it names another clock, and the last line that had a stamp, with its time.
    pub(super) fn push(
        &mut self,
        text: &str,
        names_other: bool,
        stamp: impl FnOnce() -> Option<(f64, String)>,
    ) {
        let Some(printed) = Printed::parse(text) else {
            let is_text = !matches!(text.trim(), "" | "```");
            self.between += u32::from(is_text);
            self.is_other |= names_other;
            // Then that clock's time is no UTC.
            if !self.found.is_empty() && text.contains("RTC in local TZ: yes") {
                self.found.retain(|found| !found.lines.iter().any(|line| line.contains("RTC")));
            }
            return;
        };
        self.lines += u64::from(!printed.is_bracketed);
        if !YEARS.contains(&printed.year) {
            self.add("printed-absurd", 0.0, &[&printed]);
        } else if let Some(last) = self.last.take() {
            self.compare(&last, &printed);
        } else if let Some((mut at_s, line)) = stamp() {
            // A stamp without a year is in 1972.
            if at_s < 3.0 * 366.0 * DAY_S {
                at_s += printed.at_s - printed.in_year_s;
            }
            let zone = words(&line).iter().find_map(|word| Some(clock(word)?.1.to_owned()));
            let stamped = Printed { at_s, zone: zone.unwrap_or_default(), line, ..<_>::default() };
            let is_foreign = self.is_other || printed.is_bracketed || names_other;
            let is_known = !stamped.zone.is_empty() && !printed.zone.is_empty();
            if let Some((by_s, _)) = stamped.until(&printed)
                && (-DAY_S / 2.0..-SLACK_S).contains(&by_s)
                && !is_foreign
                && (is_known || !is_near_quarter_hour(by_s))
            {
                self.add("printed-before-stamps", by_s, &[&stamped, &printed]);
            }
        }
        (self.between, self.is_other) = (0, false);
        self.last = Some(printed).filter(|printed| YEARS.contains(&printed.year));
    }

    fn compare(&mut self, last: &Printed, printed: &Printed) {
        let is_stamped = last.is_bracketed || printed.is_bracketed;
        let Some((by_s, is_zone)) = last.until(printed) else {
            if !is_stamped {
                self.add("printed-unsure", 0.0, &[last, printed]);
            }
            return;
        };
        let is_together = self.between == 0;
        let is_apart = by_s.abs() > SLACK_S;
        self.run = if is_together { self.run + u32::from(is_apart) } else { 0 };
        if self.run > 1 {
            // A loop prints more than two.
            self.found.retain(|found| found.of != "clocks-apart");
        } else if last.is_bracketed != printed.is_bracketed {
            let ahead_s = if printed.is_bracketed { by_s } else { -by_s };
            if ahead_s > 60.0 && !is_zone {
                self.add("printed-by-dmesg", ahead_s, &[last, printed]);
            }
        } else if is_stamped || !is_apart {
        } else if self.between > MOST_BETWEEN {
            // Of one clock, the second may have been printed so much later.
            if last.zone != printed.zone || !(0.0..DAY_S).contains(&by_s) {
                self.add("printed-unsure", by_s, &[last, printed]);
            }
        } else if is_zone && (is_together || self.is_other) {
            self.add("zones-apart", by_s, &[last, printed]);
        } else if is_together {
            self.add("clocks-apart", by_s, &[last, printed]);
        } else if by_s < 0.0 {
            self.add("printed-back", by_s, &[last, printed]);
        } else if by_s > if self.is_other { TYPED_S } else { DAY_S } {
            self.add("printed-forward", by_s, &[last, printed]);
        } else if last.zone != printed.zone {
            self.add("printed-unsure", by_s, &[last, printed]);
        }
    }

    fn add(&mut self, of: &'static str, by_s: f64, lines: &[&Printed]) {
        if self.found.iter().all(|found| found.of != of) {
            let (year, lines) = (lines[0].year, lines.iter().map(|one| one.line.clone()).collect());
            self.found.push(PrintedTimes { of, by_s, year, lines });
        }
    }

    /// What was found, and what the stamps show of a clock set at boot; clocks that are apart before
    /// what may be but time between two commands.
    pub(super) fn finish(mut self, set_at_boot: Option<PrintedTimes>) -> Vec<PrintedTimes> {
        self.found.extend(set_at_boot);
        if self.found.iter().any(|found| found.of == "clocks-apart") {
            self.found.retain(|found| !matches!(found.of, "printed-back" | "printed-forward"));
        }
        self.found
    }
}

impl Printed {
    /// `Fri Nov  3 15:26:26 UTC 2017`, `Universal time: Fri 2017-11-03 15:20:43 UTC`,
    /// `2026-02-23T11:11:58-05:00`, `[Tue Feb 28 08:30:58 2026] audit: …`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches(['>', '|', ' ']);
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let inside = match bracketed {
            Some((inside, _)) => inside,
            None if text.len() > LONGEST => return None,
            None => text,
        };
        // No date has more words, and each has a year.
        if !has_year(inside.as_bytes())
            || is_of_program(inside)
            || inside.split_ascii_whitespace().nth(MOST_WORDS).is_some()
            || !inside.contains([':', '时', '時'])
        {
            return None;
        }
        let (mut clock_s, mut year, mut month) = (None, None, None);
        let (mut day, mut zone, mut names, mut is_pm) = (None, String::new(), 0, None);
        for word in words(inside) {
            let bare = word.trim_end_matches([',', '.', ':', ';']);
            let is_named = word.ends_with(':') && clock(bare).is_none();
            (!is_named || is_label(bare)).then_some(())?;
            if bare.is_empty() || (clock_s.is_none() && is_label(bare)) {
            } else if let Some((s, rest)) = clock(bare) {
                clock_s.is_none().then(|| clock_s = Some(s))?;
                zone += rest;
            } else if is_date(bare) {
                let mut parts = bare.split('-').map(str::parse::<i128>);
                let mut part = || parts.next()?.ok();
                (year, month, day) = (part(), part(), part());
            } else if bare.bytes().all(|byte| byte.is_ascii_digit()) {
                let number = bare.parse().ok()?;
                if bare.len() >= 4 { year = Some(number) } else { day = Some(number) }
            } else if matches!(bare, "am" | "pm") {
                is_pm = Some(bare == "pm");
            } else if bare == "seconds" || (bare.contains('.') && bare.parse::<f64>().is_ok()) {
                // hwclock: `0.000000 seconds`.
            } else if clock_s.is_some() && bare.starts_with(['+', '-']) && zone.is_empty() {
                zone += bare;
            } else if let Some(number) = line::month_by_name(bare).filter(|_| month.is_none()) {
                month = Some(number);
            } else if clock_s.is_some() && zone.is_empty() && bare.len() <= 5 {
                zone += bare;
            } else {
                // The day of the week.
                names += 1;
                (names == 1 && is_weekday(bare)).then_some(())?;
            }
        }
        let (year, month, day) = (year?, month?, day?);
        let noon = match (is_pm, clock_s?) {
            (Some(true), s) if s < DAY_S / 2.0 => DAY_S / 2.0,
            (Some(false), s) if s >= DAY_S / 2.0 => -DAY_S / 2.0,
            _ => 0.0,
        };
        let at = |year| {
            let days = i64::try_from(calendar::days(year, month, day)).ok()?;
            Some(days as f64 * DAY_S + clock_s? + noon)
        };
        if text.starts_with("RTC time:") {
            "utc".clone_into(&mut zone);
        }
        // Programs write the years 1 and 9999 for none.
        let is_year = (2..1_000_000).contains(&year) && year != 9999;
        let is_day = is_year && (1..=12).contains(&month) && (0..=31).contains(&day);
        let is_absurd = !YEARS.contains(&year);
        is_day.then_some(())?;
        Some(Self {
            at_s: if is_absurd { 0.0 } else { at(year)? },
            in_year_s: at(1972)?,
            year,
            zone,
            is_bracketed: bracketed.is_some(),
            line: line::first_chars(text, 200).to_owned(),
        })
    }

    /// The time from this one to another, s, and whether that may be but their zones' difference.
    fn until(&self, other: &Self) -> Option<(f64, bool)> {
        let offset_s = |zone: &str| match zone {
            "utc" | "gmt" | "z" => Some(0.0),
            _ => numeric_zone(zone).map(|hours| hours * 3600.0),
        };
        let by_s = other.at_s - self.at_s;
        if self.zone == other.zone {
            return Some((by_s, false));
        }
        if let Some((one_s, other_s)) = offset_s(&self.zone).zip(offset_s(&other.zone)) {
            return Some((by_s + one_s - other_s, false));
        }
        // Without a zone it is local time, or UTC.
        let is_without = self.zone.is_empty() || other.zone.is_empty();
        is_without.then(|| (by_s, is_near_quarter_hour(by_s)))
    }
}

/// Whether four digits stand together.
fn has_year(bytes: &[u8]) -> bool {
    let mut digits = 0;
    bytes.iter().any(|byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        digits == 4
    })
}

/// Whether a program's name stands before its message: `kernel: `, `ntpd[12]: `.
fn is_of_program(text: &str) -> bool {
    let is_program = |word: &str| {
        let is_name = word.is_ascii() && word.starts_with(char::is_alphabetic);
        word.ends_with(':') && is_name && !is_label(word.trim_end_matches([',', '.', ':', ';']))
    };
    text.split_ascii_whitespace().any(is_program) || text.contains("]: ")
}

fn is_label(word: &str) -> bool {
    LABELS.split(' ').any(|label| label.eq_ignore_ascii_case(word))
}

fn is_weekday(word: &str) -> bool {
    WEEKDAYS.split(' ').any(|day| word.starts_with(day))
}

/// Zones differ by quarters of an hour.
fn is_near_quarter_hour(by_s: f64) -> bool {
    let rest_s = by_s.abs() % 900.0;
    by_s.abs() > 800.0 && rest_s.min(900.0 - rest_s) < 120.0
}

/// The words of a date in small letters; `2017年11月03日` is `2017-11-03`, and `T` divides.
fn words(text: &str) -> Vec<String> {
    let signs = ["年 ", "月 ", "年", "月"];
    let text = signs.iter().fold(text.to_lowercase(), |text, sign| text.replace(sign, "-"));
    let text = text.replace(['时', '時', '分'], ":").replace(['日', '秒'], " ");
    let divide = |word: &str| match word.split_once('t') {
        Some((date, time)) if is_date(date) => vec![date.to_owned(), time.to_owned()],
        _ => vec![word.to_owned()],
    };
    text.split_whitespace().flat_map(divide).collect()
}

/// `+01:00`, `-0500`, h.
fn numeric_zone(zone: &str) -> Option<f64> {
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    let is_sign = zone.starts_with(['+', '-']);
    let (hours, minutes) = digits.split_at_checked(2).filter(|_| is_sign)?;
    let size = hours.parse::<f64>().ok()? + minutes.parse::<f64>().unwrap_or(0.0) / 60.0;
    Some(if zone.starts_with('-') { -size } else { size })
}

/// `2017-11-03`
fn is_date(word: &str) -> bool {
    word.split('-').count() == 3 && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}

/// `15:20:43.5+01:00`: the time of day, s, and what follows it.
fn clock(word: &str) -> Option<(f64, &str)> {
    let is_part = |c: char| c.is_ascii_digit() || ":.,".contains(c);
    let (figure, rest) = word.split_at(word.find(|c| !is_part(c)).unwrap_or(word.len()));
    let mut parts = figure.split(':');
    let mut part = |most: f64| {
        let number = parts.next()?.replace(',', ".").parse::<f64>().ok()?;
        (0.0..most).contains(&number).then_some(number)
    };
    let (hours, minutes, seconds) = (part(24.0)?, part(60.0)?, part(61.0)?);
    parts.next().is_none().then_some((hours * 3600.0 + minutes * 60.0 + seconds, rest))
}
