//! One comparison of a clock with a reference.

use pvclock::units::Bracket;

/// Two readings of one clock, ns: before and after what lies between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The earlier reading.
    pub before: u64,
    /// The later reading.
    pub after: u64,
}

impl Span {
    /// A clock read once.
    pub fn instant(reading: u64) -> Self {
        Self { before: reading, after: reading }
    }

    fn middle(self) -> u64 {
        self.before / 2 + self.after / 2 + (self.before % 2 + self.after % 2) / 2
    }
}

/// Which of the two clocks was read around the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// A request leaves, the reference receives and replies, the reply
    /// arrives: the reference's span happened within the clock's.
    ClockOutside,
    /// The clock was read between two reads of the reference. Its span is
    /// what the reading stands for: a clock of whole seconds shows 7 from
    /// 7 to 8.
    ReferenceOutside,
}

/// One comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriftReading {
    /// The clock, ns.
    pub clock: Span,
    /// The reference, ns.
    pub reference: Span,
    /// Which was read around which.
    pub nesting: Nesting,
}

impl DriftReading {
    /// The bounds on clock − reference, ns: NTP's argument (RFC 5905, section
    /// 8) with nothing assumed about how a round trip divides into its ways.
    /// The lower one exceeds the upper where a clock went back meanwhile.
    pub fn bounds(self) -> (i128, i128) {
        let minus = |clock: u64, reference: u64| i128::from(clock) - i128::from(reference);
        let (clock, reference) = (self.clock, self.reference);
        match self.nesting {
            Nesting::ClockOutside => {
                (minus(clock.before, reference.before), minus(clock.after, reference.after))
            }
            Nesting::ReferenceOutside => {
                (minus(clock.before, reference.after), minus(clock.after, reference.before))
            }
        }
    }

    /// The reference's time of the comparison, ns.
    pub fn at_ns(self) -> u64 {
        self.reference.middle()
    }

    /// The same for the instruments that find steps: one reading within two
    /// of the other clock.
    pub fn bracket(self) -> Bracket {
        let (outer, inner) = match self.nesting {
            Nesting::ClockOutside => (self.clock, self.reference),
            Nesting::ReferenceOutside => (self.reference, self.clock),
        };
        Bracket { before: outer.before, inner: inner.middle(), after: outer.after }
    }

    /// The inner clock's largest error within its bracket, ns.
    pub fn inner_step_ns(self) -> f64 {
        let inner = match self.nesting {
            Nesting::ClockOutside => self.reference,
            Nesting::ReferenceOutside => self.clock,
        };
        (inner.after.saturating_sub(inner.before) as f64 / 2.0).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_bounds_the_offset() {
        // 30 there, 10 at the server, 50 back; the clock is 1000 ahead.
        let reading = DriftReading {
            clock: Span { before: 6_000, after: 6_090 },
            reference: Span { before: 5_030, after: 5_040 },
            nesting: Nesting::ClockOutside,
        };
        assert_eq!(reading.bounds(), (970, 1050));
        assert_eq!(reading.at_ns(), 5_035);
        assert_eq!(reading.bracket(), Bracket { before: 6_000, inner: 5_035, after: 6_090 });
    }

    #[test]
    fn a_clock_of_whole_seconds_is_bounded_by_its_second() {
        let reading = DriftReading {
            clock: Span { before: 7_000_000_000, after: 8_000_000_000 },
            reference: Span { before: 100, after: 160 },
            nesting: Nesting::ReferenceOutside,
        };
        assert_eq!(reading.bounds(), (6_999_999_840, 7_999_999_900));
        assert_eq!(reading.inner_step_ns(), 5e8);
    }

    #[test]
    fn middles_do_not_overflow() {
        let span = Span { before: u64::MAX, after: u64::MAX };
        assert_eq!(span.middle(), u64::MAX);
    }
}
