//! Figures as people read them: unit, and no more digits than they carry.

/// `1 note`, `3 notes`
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `a`, `a and b`, `a, b and c`
pub(crate) fn list<S: AsRef<str>>(items: &[S]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A length of time in the unit that suits it, three digits or more: `42 ns`,
/// `1.23 µs`, `62.5 ms`, `4.69 s`, `2 h 5 min`.
pub(crate) fn duration_ns(ns: f64) -> String {
    let magnitude = ns.abs();
    // A step of 1000 in the unit, where rounding would show four digits.
    let (value, unit) = match magnitude {
        m if m < 999.5 => (ns, "ns"),
        m if m < 999.5e3 => (ns / 1e3, "µs"),
        m if m < 999.5e6 => (ns / 1e6, "ms"),
        m if m < 600e9 => (ns / 1e9, "s"),
        m if m < 7200e9 => return format!("{:.0} min", ns / 60e9),
        m if m < 48.0 * 3600e9 => return format!("{:.1} h", ns / 3600e9),
        _ => return format!("{:.1} days", ns / 86_400e9),
    };
    format!("{} {unit}", three_digits(value))
}

/// As [`duration_ns`], from seconds.
pub(crate) fn duration_s(s: f64) -> String {
    duration_ns(s * 1e9)
}

/// As [`duration_ns`], with its sign always shown.
pub(crate) fn signed_duration_ns(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", duration_ns(ns.abs()))
}

/// `41.2`, `412`, `4.12`: three digits, and no zeros that say nothing.
pub(crate) fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let shown = format!("{value:.digits$}");
    match shown.contains('.') {
        true => shown.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => shown,
    }
}

/// A frequency with all its digits in groups of three: `3 478 274 491 Hz`.
pub(crate) fn hz(hz: f64) -> String {
    format!("{} Hz", grouped(hz.round().max(0.0)))
}

/// Parts per million in groups of three, signed: `+22 988 ppm`, `−3.4 ppm`.
pub(crate) fn ppm(ppm: f64) -> String {
    let sign = if ppm < 0.0 { "−" } else { "+" };
    let magnitude = ppm.abs();
    match magnitude {
        m if m < 1000.0 => format!("{sign}{} ppm", three_digits(m)),
        m => format!("{sign}{} ppm", grouped(m.round())),
    }
}

/// A whole number in groups of three.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_the_unit_that_suits_them() {
        let shown = [41.24, 999.4, 999.6, 62_500_000.0, 4.686_9e9, 294e9, 900e9, 7.5e12, 2e14]
            .map(duration_ns);
        assert_eq!(
            shown,
            [
                "41.2 ns", "999 ns", "1 µs", "62.5 ms", "4.69 s", "294 s", "15 min", "2.1 h",
                "2.3 days"
            ]
        );
        assert_eq!(signed_duration_ns(-62_500_000.0), "−62.5 ms");
        assert_eq!(signed_duration_ns(1.0), "+1 ns");
        assert_eq!(duration_s(64.0), "64 s");
    }

    #[test]
    fn frequencies_keep_all_their_digits() {
        assert_eq!(hz(3_478_274_491.0), "3 478 274 491 Hz");
        assert_eq!(hz(999.0), "999 Hz");
        assert_eq!(ppm(-22_988.4), "−22 988 ppm");
        assert_eq!(ppm(3.44), "+3.44 ppm");
        assert_eq!(ppm(500.0), "+500 ppm");
    }

    #[test]
    fn lists_read_as_people_write_them() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(count(1, "note", "notes"), "1 note");
        assert_eq!(count(0, "note", "notes"), "0 notes");
    }
}
