//! Figures as people read them: three significant digits, and a unit.

/// Units of time, longest first; each starts where it reads better than the
/// next: `294 s`, but `15.0 min`.
const TIMES: [(&str, f64, f64); 7] = [
    ("days", 86_400e9, 172_800e9),
    ("h", 3_600e9, 7_200e9),
    ("min", 60e9, 600e9),
    ("s", 1e9, 1e9),
    ("ms", 1e6, 1e6),
    ("µs", 1e3, 1e3),
    ("ns", 1.0, 0.0),
];

/// Three significant digits, without a power of ten.
pub fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        // What rounds up to the next power of ten has one decimal less.
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A time in the unit that suits it: `20.8 ns`, `1.65 µs`, `15.0 min`.
pub fn time(ns: f64) -> String {
    let (unit, factor, _) =
        TIMES.into_iter().find(|(.., from)| ns.abs() >= from * 0.9995).unwrap_or(TIMES[6]);
    format!("{} {unit}", three_digits(ns / factor))
}

/// As [`time`], of seconds.
pub fn seconds(s: f64) -> String {
    time(s * 1e9)
}

/// The size of a time: whole ns while it is small, then exact to the ns in µs,
/// to the µs in s. `250 ns`, `1500.000 µs`, `2.000000 s`.
pub fn exact_time(ns: f64) -> String {
    match ns {
        ns if ns < 9_999.5 => format!("{ns:.0} ns"),
        ns if ns < 9_999_999.5 => format!("{:.3} µs", ns / 1e3),
        ns => format!("{:.6} s", ns / 1e9),
    }
}

/// A figure with its sign, and none for zero; `shown` formats its size:
/// `signed(1645.2, time)` is `+1.65 µs`.
pub fn signed(value: f64, shown: impl Fn(f64) -> String) -> String {
    let size = shown(value.abs());
    let is_zero = !size.contains(|c| matches!(c, '1'..='9'));
    let sign = match value {
        _ if is_zero => "",
        value if value < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{size}")
}

/// A whole time, exact where it is a round one: `1 ns`, `4 ms`.
pub fn whole_time(ns: u64) -> String {
    let mut units = TIMES.into_iter().skip(3);
    match units.find(|(_, factor, _)| ns > 0 && ns as f64 % factor == 0.0) {
        Some((unit, factor, _)) => format!("{} {unit}", ns as f64 / factor),
        None => "0 ns".into(),
    }
}

/// A count in groups of three digits, separated by a narrow no-break space.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A frequency with all its digits.
pub fn hz(hz: f64) -> String {
    format!("{} Hz", count(hz.round() as u64))
}

/// Signed parts per million: `+3.44 ppm`, `-22988 ppm` in groups of three.
pub fn ppm(ppm: f64) -> String {
    let size = |ppm: f64| match ppm {
        ppm if ppm < 999.5 => three_digits(ppm),
        ppm => count(ppm.round() as u64),
    };
    format!("{} ppm", signed(ppm, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let figures = [0.0, 8.6234, 9.996, 20.84, 99.96, 1645.2, 1e7];
        let shown = ["0.00", "8.62", "10.0", "20.8", "100", "1645", "10000000"];
        assert_eq!(figures.map(three_digits), shown);
    }

    #[test]
    fn times_have_their_unit() {
        let shown = [0.0, 0.02, 20.84, 999.9, 1645.2, -2.5e6, 3e10, 294e9].map(time);
        assert_eq!(
            shown,
            ["0.00 ns", "0.02 ns", "20.8 ns", "1.00 µs", "1.65 µs", "-2.50 ms", "30.0 s", "294 s"]
        );
        assert_eq!([900.0, -7.5e3, 2e5].map(seconds), ["15.0 min", "-2.08 h", "2.31 days"]);
        assert_eq!(
            [0, 1, 70, 1000, 4_000_000].map(whole_time),
            ["0 ns", "1 ns", "70 ns", "1 µs", "4 ms"]
        );
    }

    #[test]
    fn exact_times_keep_their_ns_as_long_as_that_is_short() {
        let shown = [0.4, 9_999.4, 9_999.6, 9_999_999.0, 1e10].map(exact_time);
        assert_eq!(shown, ["0 ns", "9999 ns", "10.000 µs", "9999.999 µs", "10.000000 s"]);
    }

    #[test]
    fn zero_has_no_sign() {
        let exact = [0.0, -0.4, 7.0, -7.0].map(|ns| signed(ns, exact_time));
        assert_eq!(exact, ["0 ns", "0 ns", "+7 ns", "-7 ns"]);
        let short = [-0.0, 0.001, 1645.2, -4e10].map(|ns| signed(ns, time));
        assert_eq!(short, ["0.00 ns", "0.00 ns", "+1.65 µs", "-40.0 s"]);
    }

    #[test]
    fn counts_and_frequencies_are_in_groups_of_three() {
        assert_eq!(
            [7, 1234, 1_234_567].map(count),
            ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]
        );
        assert_eq!(hz(3_478_274_491.2), "3\u{202f}478\u{202f}274\u{202f}491 Hz");
        assert_eq!(
            [-22_988.4, 3.44, 999.6, 500.0].map(ppm),
            ["-22\u{202f}988 ppm", "+3.44 ppm", "+1\u{202f}000 ppm", "+500 ppm"]
        );
    }
}
