//! Lines of Prometheus' own format, written and read, and of OpenMetrics text, read.

use std::collections::BTreeMap;

/// A sample as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SampleLine<'t> {
    pub(crate) name: &'t str,
    pub(crate) labels: BTreeMap<&'t str, String>,
    pub(crate) value: &'t str,
}

/// A sample as a line.
pub(crate) fn line(name: &str, labels: &[(&str, &str)], value: f64) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{}\"", quoted(value))).collect();
    format!("{name}{{{}}} {value:?}\n", labels.join(","))
}

/// The samples of a text whose names begin with this. Comments and damaged lines are left out.
pub(crate) fn lines<'t>(
    text: &'t str,
    prefix: &'static str,
) -> impl Iterator<Item = SampleLine<'t>> {
    text.lines().filter(move |line| line.starts_with(prefix)).filter_map(parse)
}

/// `name{label="value"} 1.5`, and after it perhaps a time.
fn parse(line: &str) -> Option<SampleLine<'_>> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = unquote(after)?;
            labels.insert(label, value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    Some(SampleLine { name, labels, value: rest.split_whitespace().next()? })
}

impl SampleLine<'_> {
    /// A label's value; empty where it is missing, as in PromQL.
    pub(crate) fn label(&self, name: &str) -> String {
        self.labels.get(name).cloned().unwrap_or_default()
    }

    /// Seconds as nanoseconds: exact if up to nine decimal places are written out, else as
    /// exact as a 64-bit float. None beyond 146 years.
    pub(crate) fn nanoseconds(&self) -> Option<i64> {
        nanoseconds(self.value)
    }
}

/// A label's value up to its closing quote, and the text after that.
fn unquote(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some((value, &text[at + 1..])),
            '\\' if !escaped => escaped = true,
            _ => {
                value.push(if escaped && c == 'n' { '\n' } else { c });
                escaped = false;
            }
        }
    }
    None
}

fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (s, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal(s) && is_decimal(rest) && (1..=10).contains(&s.len()) && rest.len() <= 9 {
        let fraction = format!("{rest:0<9}").parse::<i64>().ok()?;
        let ns = s.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
        return Some(sign * ns);
    }
    let ns = (text.parse::<f64>().ok()? * 1e9).round();
    (ns.abs() < crate::errormap::LONGEST_NS as f64).then_some(ns as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unescaped_and_times_ignored() {
        let text =
            "# TYPE a gauge\na_b{x=\"1\",y=\"a\\\"\\\\\\n{}\"} -0.5 1700000000000\nother 1\n";
        let all: Vec<SampleLine<'_>> = lines(text, "a_").collect();
        let [line] = &all[..] else { panic!("{all:?}") };
        assert_eq!((line.name, line.label("x").as_str(), line.value), ("a_b", "1", "-0.5"));
        assert_eq!((line.label("y").as_str(), line.label("z").as_str()), ("a\"\\\n{}", ""));
        for damaged in ["a_b", "a_b{x=\"1", "a_b{x=\"1\"}", "a_b{x}"] {
            assert_eq!(parse(damaged), None, "{damaged}");
        }
    }

    /// A tenth of a second and one nanosecond, as Rust, Go and people write it.
    #[test]
    fn seconds_are_read_to_the_nanosecond() {
        for text in ["0.100000001", "1.00000001e-1", "100000001e-9"] {
            assert_eq!(nanoseconds(text), Some(100_000_001), "{text}");
        }
        assert_eq!(nanoseconds("-1e-9"), Some(-1));
        assert_eq!(nanoseconds("1700000000.123456789"), Some(1_700_000_000_123_456_789));
        for text in ["NaN", "+Inf", "1e300", "", "x"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }
}
