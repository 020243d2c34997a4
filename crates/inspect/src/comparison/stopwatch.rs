//! A person with a stopwatch as the reference: all clocks at its start, and at
//! a later moment with what it shows.

use std::time::Duration;

use instruments::drift::{DriftReading, Nesting, Span};

use super::clock_name::ClockName;
use super::clocks::ClockComparison;

/// The reference's name.
pub const NAME: &str = "stopwatch";

/// How far apart a finger on Enter and one on the stopwatch may be, ns.
const REACTION_NS: u64 = 200_000_000;

/// The stopwatch's start, ns: room for a reaction before it.
const START_NS: u64 = 1_000_000_000;

/// What the clocks showed when the stopwatch showed `shown`.
pub fn compared(clocks: &[(ClockName, Span)], shown: Duration) -> Vec<ClockComparison> {
    let shown_ns = u64::try_from(shown.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2);
    let at_ns = START_NS + shown_ns;
    let reference = Span { before: at_ns - REACTION_NS, after: at_ns + REACTION_NS };
    let nesting = Nesting::ReferenceOutside;
    let of = |&(clock, shown): &(ClockName, Span)| {
        let reading = DriftReading { clock: shown, reference, nesting };
        ClockComparison { clock, reading }
    };
    clocks.iter().map(of).collect()
}

/// A time as a stopwatch shows it: `300`, `300.4`, `5:00.4`, `1:05:00`.
pub fn parse(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    for part in text.split(':') {
        let is_number = part.chars().all(|c| c.is_ascii_digit() || c == '.');
        seconds = seconds * 60.0 + part.parse::<f64>().ok().filter(|_| is_number)?;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_by_hand_is_off_by_a_reaction() {
        let clock = (ClockName::Monotonic, Span::instant(7));
        let [start] = compared(&[clock], Duration::ZERO)[..] else { panic!() };
        assert_eq!((start.clock, start.reading.clock), clock);
        let [end] = compared(&[clock], Duration::from_secs(300))[..] else { panic!() };
        let later = |of: fn(Span) -> u64| of(end.reading.reference) - of(start.reading.reference);
        assert_eq!(
            (later(|span| span.before), later(|span| span.after)),
            (300_000_000_000, 300_000_000_000)
        );
        assert_eq!(end.reading.reference.after - end.reading.reference.before, 2 * REACTION_NS);
    }

    #[test]
    fn what_a_stopwatch_shows_is_understood() {
        for (text, ms) in [("300", 300_000), ("5:00.4", 300_400), ("1:05:00", 3_900_000)] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "-3", "5:", "1e9", "five", "99999999999999999999999"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
