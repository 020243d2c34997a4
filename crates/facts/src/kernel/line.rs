//! One line of a log, as somebody has it: what stands before its message is taken off and read.

use pvclock::units::calendar;

/// A line's message, and what stands before it.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Line<'t> {
    /// The kernel's stamp, s since boot.
    pub(super) at_s: Option<f64>,
    /// The time of day, s since the month began, or since midnight where no day stands.
    pub(super) day_s: Option<f64>,
    has_date: bool,
    /// Who wrote it.
    pub(super) program: Option<&'t str>,
    /// The message.
    pub(super) text: &'t str,
    /// Whether a stamp, a time or a program stands before it: such a line begins a message.
    pub(super) is_start: bool,
}

/// Programs that hand on what others write.
const CARRIERS: [&str; 8] =
    ["docker", "dockerd", "containerd", "podman", "crio", "logger", "journal", "sh"];

/// The first three letters of each month, in the languages of which logs are pasted.
const MONTHS: [&str; 12] = [
    "jan ene gen янв",
    "feb fév fev фев",
    "mar mär mrt мар",
    "apr abr avr апр",
    "may mai mei mag мая май",
    "jun jui giu июн",
    "jul lug июл",
    "aug ago aoû авг",
    "sep set сен",
    "oct okt ott out окт",
    "nov ноя",
    "dec dez dic déc дек",
];

/// Takes the forms of klogctl (`<6>[    0.000010] text`), dmesg with each of its options,
/// /dev/kmsg (`6,339,5140900,-;text`), Xen's console, syslog, journalctl, docker and a program's
/// own file (`2026-11-21T04:26:01Z text`), with the marks of quotes and prompts before them.
pub(super) fn split(line: &str) -> Line<'_> {
    let mut found = Line { text: line.trim(), ..Line::default() };
    while let Some(rest) = quote(found.text)
        .or_else(|| found.kmsg())
        .or_else(|| found.bracket())
        .or_else(|| found.program())
        .or_else(|| found.time())
    {
        found.text = rest.trim_start();
    }
    found
}

/// A line without the marks before it: its message, unless a stamp or a program stands there.
pub(super) fn without_marks(line: &str) -> &str {
    let mut text = line.trim();
    while let Some(rest) = quote(text).or_else(|| level(text)) {
        text = rest.trim_start();
    }
    text
}

/// Marks of mail, terminals, lists and tables.
fn quote(text: &str) -> Option<&str> {
    let is_mark = |byte: &u8| *byte >= 0x80 || b">|$#-*`\"<".contains(byte);
    text.as_bytes().first().filter(|byte| is_mark(byte))?;
    [
        "> ", ">", "| ", "│ ", "$ ", "# ", "- ", "* ", "`", "\"", "<pre>", "<code>", "<p>", "<br>",
        "<br/>", "<li>", "<td>",
    ]
    .iter()
    .find_map(|mark| text.strip_prefix(mark))
    .filter(|rest| !rest.is_empty())
}

/// `<6>`
fn level(text: &str) -> Option<&str> {
    let (level, rest) = text.strip_prefix('<')?.split_once('>')?;
    is_number(level).then_some(rest)
}

impl<'t> Line<'t> {
    fn kmsg(&mut self) -> Option<&'t str> {
        let level = self.text.bytes().take_while(u8::is_ascii_digit).count();
        self.text[level..].starts_with(',').then_some(())?;
        let (head, text) = self.text.split_once(';')?;
        let mut numbers = head.split(',');
        let _level: u32 = numbers.next()?.parse().ok()?;
        let _sequence: u64 = numbers.next()?.parse().ok()?;
        let at_us: u64 = numbers.next()?.parse().ok()?;
        self.start(Some(at_us as f64 / 1e6));
        Some(text)
    }

    /// `<6>`; the stamp `[    0.000010]`, or `[  +0.000010]` since the line before; with
    /// CONFIG_PRINTK_CALLER the writer `[    T1]`; a date of `dmesg -T` or `-H`; `(XEN)`.
    fn bracket(&mut self) -> Option<&'t str> {
        if let Some(rest) = self.text.strip_prefix("(XEN)") {
            self.program = Some("xen");
            self.is_start = true;
            return Some(rest);
        }
        if self.text.starts_with('<') {
            return level(self.text);
        }
        let (inside, rest) = self.text.strip_prefix('[')?.split_once(']')?;
        let inside = inside.trim();
        let stamp = inside.parse().ok().filter(|at: &f64| at.is_finite() && *at >= 0.0);
        let is_since = || inside.strip_prefix('+').is_some_and(|rest| rest.parse::<f64>().is_ok());
        let is_writer = || inside.strip_prefix(['T', 'C']).is_some_and(is_number);
        if stamp.is_none() && !is_since() && !is_writer() && !is_date(inside) {
            return None;
        }
        self.start(if inside.starts_with('+') { None } else { stamp });
        Some(rest)
    }

    /// `host kernel: `, `ntpd[812]: `, `google-clock-skew: `, `ntp-1  | `; a host only after a time.
    fn program(&mut self) -> Option<&'t str> {
        if self.program.is_some() {
            return None;
        }
        // A facility or a year may stand beside the host: `2022 kern.info kernel: `.
        const KERNEL: &[u8] = b" kernel: ";
        if self.day_s.is_some() && self.at_s.is_none() {
            let mut heads = self.text.as_bytes().windows(KERNEL.len()).take(48);
            if let Some(end) = heads.position(|word| word == KERNEL) {
                self.program = Some("kernel");
                return Some(&self.text[end + KERNEL.len()..]);
            }
        }
        let container = || {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let end = self.text.find(|c| !is_name(c)).filter(|end| (1..32).contains(end))?;
            let rest = self.text[end..].trim_start().strip_prefix("| ")?;
            // A table's row has a bar at its end as well.
            (!rest.trim_end().ends_with('|')).then_some(rest)
        };
        if let Some(rest) = container() {
            self.is_start = true;
            return Some(rest);
        }
        let end = end_of_words(self.text, 2);
        let mut pairs = self.text.as_bytes()[..end].windows(2);
        let colon = pairs.position(|pair| matches!(pair, b": " | b":\t"))?;
        let (head, rest) = (&self.text[..colon], &self.text[colon + 2..]);
        let mut words = head.split_whitespace();
        let (last, host, more) = (words.next_back()?, words.next_back(), words.next());
        let (name, pid) =
            last.split_once('[').map_or((last, None), |(name, pid)| (name, Some(pid)));
        let has_pid = pid.is_some_and(|pid| pid.strip_suffix(']').is_some_and(is_number));
        let is_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '@');
        let is_after_date = self.has_date && self.at_s.is_none() && !head.ends_with(' ');
        let has_host = host.is_some_and(|host| is_after_date && host.chars().all(is_name));
        let is_header = (host.is_none() && (name == "kernel" || has_pid)) || has_host;
        if more.is_some() || name.is_empty() || !name.chars().all(is_name) || !is_header {
            return None;
        }
        let name = name.rsplit('/').next().unwrap_or(name);
        self.is_start = true;
        if !CARRIERS.contains(&name) {
            self.program = Some(name);
        }
        Some(rest)
    }

    /// `Nov 21 04:26:01`, `2026-11-21T04:26:01+00:00`, `21/11/2026 04:26:01.123 UTC`: words of a
    /// date, and a time of day.
    fn time(&mut self) -> Option<&'t str> {
        // Most messages have no time of day.
        self.text.contains(':').then_some(())?;
        let mut before = 0;
        for word in self.text.split_inclusive([' ', '\t']).take(8) {
            let end = before + word.len();
            if is_time(word) {
                let day_s = time_of_day_s(&self.text[..end])?;
                self.day_s.get_or_insert(day_s);
                self.has_date |= before > 0 || word.contains('T');
                self.is_start = true;
                let rest = &self.text[end..];
                let zone = ["UTC ", "GMT ", "+0000 ", "Z "];
                return Some(zone.iter().find_map(|zone| rest.strip_prefix(zone)).unwrap_or(rest));
            }
            // A day of one digit has two blanks before it.
            if !word.trim().is_empty() && !is_of_date(word.trim()) {
                return None;
            }
            before = end;
        }
        None
    }

    fn start(&mut self, at_s: Option<f64>) {
        self.at_s = self.at_s.or(at_s);
        self.is_start = true;
    }
}

/// Where so many words end, and the blank after them.
fn end_of_words(text: &str, words: usize) -> usize {
    let parts = text.split_inclusive(char::is_whitespace);
    let word_ends = parts.scan(0, |end, part| {
        *end += part.len();
        Some((*end, !part.trim().is_empty()))
    });
    word_ends.filter(|(_, is_word)| *is_word).nth(words - 1).map_or(text.len(), |(end, _)| end)
}

/// The start of a text, of at most so many characters.
pub(super) fn first_chars(text: &str, most: usize) -> &str {
    match text.get(..most) {
        None if text.len() < most => text,
        Some(start) if start.is_ascii() => start,
        _ => text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end]),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `04:26:01`, `2026-11-21T04:26:01.123Z`
fn is_time(word: &str) -> bool {
    let (date, time) = word.rsplit_once('T').unwrap_or(("", word));
    if !date.bytes().all(|byte| byte.is_ascii_digit() || b"-/+".contains(&byte)) {
        return false;
    }
    let mut parts = time.splitn(3, ':');
    let mut is_part = |most: usize| {
        let part = parts.next().unwrap_or_default();
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        (1..=most).contains(&digits)
    };
    is_part(2) && is_part(2) && is_part(2)
}

/// The name of a month or a day, or a number, perhaps in another language.
fn is_of_date(word: &str) -> bool {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let word = word.trim_end_matches([',', '.']);
    let is_day = |start: &str| DAYS.iter().any(|day| day.eq_ignore_ascii_case(start));
    let is_name = |start: &str| month_by_name(start).is_some() || is_day(start);
    let is_ascii_name = || word.len() <= 9 && word.get(..3).is_some_and(is_name);
    let is_foreign = || word.chars().count() <= 4 && !word.is_ascii();
    word.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'+')
        || is_ascii_name()
        || is_foreign()
}

/// `Wed May 25 05:27:59 2022` of `dmesg -T`, `Feb10 09:11` of `dmesg -H`.
fn is_date(inside: &str) -> bool {
    let words: Vec<_> = inside.split_whitespace().collect();
    match words.as_slice() {
        [_, _, _, time, _] => is_time(time),
        [day, time] => is_of_date(day) && time.split(':').count() == 2,
        _ => false,
    }
}

/// The first time of day in a text and the date before it, s: enough for the time between lines.
/// A year that is not given is one of 366 days, so that a month's end is no jump.
pub(super) fn time_of_day_s(text: &str) -> Option<f64> {
    let words = || text.split([' ', 'T', 'Z', '+', ',']).filter(|word| !word.is_empty());
    let is_time = |word: &str| word.bytes().filter(|byte| *byte == b':').count() == 2;
    let (at, time) = words().enumerate().find(|(_, word)| is_time(word))?;
    let mut parts = time.split(':');
    let mut part = || parts.next()?.parse::<f64>().ok().filter(|part| (0.0..61.0).contains(part));
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    let (mut year, mut month, mut numbers) = (1972, 1, Vec::with_capacity(2));
    for word in words().take(at).flat_map(|word| word.split(['-', '/'])) {
        match word.trim_end_matches('.').parse::<i64>() {
            Ok(number @ 1970..2200) => year = number.into(),
            Ok(number @ 1..=31) => numbers.push(number.into()),
            _ => month = month_by_name(word).unwrap_or(month),
        }
    }
    // `21/11/2026`: more than twelve can be the day alone.
    if numbers.len() == 2 {
        month = if numbers[0] > 12 { numbers.remove(1) } else { numbers.remove(0) };
    }
    let day = numbers.first().copied();
    let days = day.and_then(|day| i64::try_from(calendar::days(year, month, day)).ok());
    Some(days.unwrap_or(0) as f64 * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}

pub(super) fn month_by_name(word: &str) -> Option<i128> {
    // Most words before a message are numbers.
    word.starts_with(char::is_alphabetic).then_some(())?;
    if word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("juil")) {
        return Some(7);
    }
    let start = first_chars(word, 3);
    let is_named = |names: &&str| match start.as_bytes() {
        three @ [_, _, _] => {
            names.as_bytes().windows(3).any(|name| name.eq_ignore_ascii_case(three))
        }
        _ => !start.is_ascii() && names.split(' ').any(|name| name == start.to_lowercase()),
    };
    MONTHS.iter().position(is_named).map(|at| at as i128 + 1)
}
