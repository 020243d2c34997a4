//! Times as programs write them: `37 s`, `2h 15min 30s`, `8m0.640985013s`, `5 milliseconds`.

/// Names of units, and their length, s.
const UNITS: [(&str, f64); 9] = [
    ("ns nsec nsecs nanosecond nanoseconds", 1e-9),
    ("us µs μs usec usecs microsecond microseconds", 1e-6),
    ("ms msec msecs millis millisecond milliseconds", 1e-3),
    ("s sec secs second seconds", 1.0),
    ("m min mins minute minutes", 60.0),
    ("h hr hour hours", 3600.0),
    ("d day days", 86_400.0),
    ("w week weeks", 604_800.0),
    ("y year years", 31_557_600.0),
];

/// A time at the start of a text, s, and what follows it. A minute alone (`5m`) may be a metre.
pub(super) fn parse(text: &str) -> Option<(f64, &str)> {
    let (mut all_s, mut rest, mut parts, mut unit) = (0.0, text, 0, "");
    while let Some((part_s, name, after)) = part(rest.trim_start_matches([' ', ','])) {
        // Units grow smaller from part to part.
        if parts > 0 && part_s >= all_s {
            break;
        }
        all_s += part_s;
        (rest, unit) = (after, name);
        parts += 1;
    }
    (parts > 1 || (parts == 1 && unit != "m")).then_some((all_s, rest))
}

fn part(text: &str) -> Option<(f64, &str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..end].parse().ok().filter(|number: &f64| *number < 1e15)?;
    let name = text[end..].trim_start_matches([' ', '-']);
    let end = name.find(|c: char| !c.is_alphabetic()).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let is_unit = |names: &&(&str, f64)| names.0.split(' ').any(|unit| unit == name);
    let (_, factor) = UNITS.iter().find(is_unit)?;
    Some((number * factor, name, rest))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn times_are_read_as_programs_write_them() {
        for (text, s) in [
            ("37 s in the future", 37.0),
            ("4d 11h 23min 36s)", 386_616.0),
            ("8m0.640985013s\"", 480.640_985_013),
            ("5 milliseconds", 0.005),
            ("1.2s/1200ms]", 1.2),
            ("2 hours, 3 minutes", 7_380.0),
            ("500ms away", 0.5),
        ] {
            let (read, _) = parse(text).unwrap_or_default();
            assert!((read - s).abs() < 1e-9 * s, "{text}: {read}");
        }
        for text in ["5m tall", "12:30:01", "7", "", "192.0.2.1 s", "3 sources"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
