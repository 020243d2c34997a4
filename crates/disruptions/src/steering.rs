//! What changed between two readings of adjtimex.

use facts::steering::Adjtimex;
use schemars::JsonSchema;
use serde::Serialize;

/// A change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Move {
    /// The frequency correction, ppm.
    Frequency {
        /// Before.
        before_ppm: f64,
        /// Since.
        after_ppm: f64,
    },
    /// Microseconds per tick: a faster slew than the frequency allows.
    Tick {
        /// Before.
        before_us: i64,
        /// Since.
        after_us: i64,
    },
    /// The offset still to be slewed, by more than [`OFFSET_NS`].
    Offset {
        /// When last reported.
        before_ns: i64,
        /// Since.
        after_ns: i64,
    },
    /// TAI − UTC, s.
    Tai {
        /// Before.
        before_s: i32,
        /// Since.
        after_s: i32,
    },
    /// Status bits.
    Status {
        /// Bits that were set.
        set: Vec<String>,
        /// Bits that were cleared.
        cleared: Vec<String>,
    },
    /// Leap seconds.
    Leap {
        /// Before.
        before: String,
        /// Since.
        after: String,
    },
}

impl Move {
    /// Whether it changes the rate of the clock; the others are announcements.
    pub(crate) fn steers(&self) -> bool {
        matches!(self, Self::Frequency { .. } | Self::Tick { .. } | Self::Offset { .. })
    }
}

/// The kernel's own loop reduces an offset a little each second: it is
/// reported again once it differs by this much from the last report.
pub const OFFSET_NS: u64 = 100_000;

/// Status bits by their names without `STA_` (include/uapi/linux/timex.h).
const BITS: [(u32, &str); 16] = [
    (0x0001, "PLL"),
    (0x0002, "PPSFREQ"),
    (0x0004, "PPSTIME"),
    (0x0008, "FLL"),
    (0x0010, "INS"),
    (0x0020, "DEL"),
    (0x0040, "UNSYNC"),
    (0x0080, "FREQHOLD"),
    (0x0100, "PPSSIGNAL"),
    (0x0200, "PPSJITTER"),
    (0x0400, "PPSWANDER"),
    (0x0800, "PPSERROR"),
    (0x1000, "CLOCKERR"),
    (0x2000, "NANO"),
    (0x4000, "MODE"),
    (0x8000, "CLK"),
];

/// The names of the bits that are set.
pub fn bits(status: u32) -> Vec<String> {
    BITS.iter().filter(|(bit, _)| status & bit != 0).map(|(_, name)| (*name).to_owned()).collect()
}

/// Follows adjtimex.
#[derive(Debug, Clone)]
pub(crate) struct ObservedSteering {
    last: Adjtimex,
    reported_offset_ns: i64,
}

impl ObservedSteering {
    pub(crate) fn new(state: Adjtimex) -> Self {
        Self { reported_offset_ns: state.offset_ns, last: state }
    }

    /// The state at the last sample.
    pub(crate) fn last(&self) -> &Adjtimex {
        &self.last
    }

    /// Takes the next reading and returns what changed.
    pub(crate) fn observe(&mut self, state: Adjtimex) -> Vec<Move> {
        let before = std::mem::replace(&mut self.last, state.clone());
        let mut moves = Vec::new();
        if before.frequency_ppm != state.frequency_ppm {
            moves.push(Move::Frequency {
                before_ppm: before.frequency_ppm,
                after_ppm: state.frequency_ppm,
            });
        }
        if before.tick_us != state.tick_us {
            moves.push(Move::Tick { before_us: before.tick_us, after_us: state.tick_us });
        }
        if self.reported_offset_ns.abs_diff(state.offset_ns) >= OFFSET_NS {
            let before_ns = std::mem::replace(&mut self.reported_offset_ns, state.offset_ns);
            moves.push(Move::Offset { before_ns, after_ns: state.offset_ns });
        }
        if before.tai_s != state.tai_s {
            moves.push(Move::Tai { before_s: before.tai_s, after_s: state.tai_s });
        }
        if before.status != state.status {
            moves.push(Move::Status {
                set: bits(state.status & !before.status),
                cleared: bits(before.status & !state.status),
            });
        }
        let (was, is) = (leap(before.state), leap(state.state));
        if was != is {
            moves.push(Move::Leap { before: was.to_owned(), after: is.to_owned() });
        }
        moves
    }
}

/// The clock's state as far as leap seconds go; that it is not synchronised
/// (5) is among the status bits.
fn leap(state: i32) -> &'static str {
    match state {
        1 => "insertion scheduled",
        2 => "deletion scheduled",
        3 => "in progress",
        4 => "passed",
        _ => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> Adjtimex {
        Adjtimex {
            offset_ns: 0,
            miscast_offset_us: None,
            frequency_ppm: -1.5,
            max_error_us: 1000,
            estimated_error_us: 10,
            status: Adjtimex::STA_NANO,
            tick_us: 10_000,
            tai_s: 37,
            state: 0,
            not_given: Vec::new(),
        }
    }

    #[test]
    fn growing_errors_are_no_change() {
        let mut steering = ObservedSteering::new(calm());
        let state = Adjtimex { max_error_us: 1500, estimated_error_us: 900, ..calm() };
        assert_eq!(steering.observe(state), []);
    }

    #[test]
    fn an_offset_is_reported_after_a_large_enough_change() {
        let mut steering = ObservedSteering::new(calm());
        let reported: Vec<usize> = [60_000, 120_000, 180_000, 30_000, 10_000]
            .into_iter()
            .map(|offset_ns| steering.observe(Adjtimex { offset_ns, ..calm() }).len())
            .collect();
        assert_eq!(reported, [0, 1, 0, 0, 1]);
    }

    #[test]
    fn all_changes_are_reported_at_once() {
        let mut steering = ObservedSteering::new(calm());
        let state = Adjtimex {
            frequency_ppm: 2.25,
            tick_us: 9_990,
            tai_s: 38,
            status: Adjtimex::STA_UNSYNC | Adjtimex::STA_INS,
            state: 1,
            ..calm()
        };
        let moves = steering.observe(state.clone());
        assert_eq!(
            moves,
            [
                Move::Frequency { before_ppm: -1.5, after_ppm: 2.25 },
                Move::Tick { before_us: 10_000, after_us: 9_990 },
                Move::Tai { before_s: 37, after_s: 38 },
                Move::Status {
                    set: vec!["INS".into(), "UNSYNC".into()],
                    cleared: vec!["NANO".into()]
                },
                Move::Leap { before: "none".into(), after: "insertion scheduled".into() },
            ]
        );
        assert_eq!(steering.observe(state), []);
    }
}
