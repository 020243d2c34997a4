//! What moved between two answers of adjtimex.

use facts::steering::Adjtimex;
use schemars::JsonSchema;
use serde::Serialize;

/// Something that moved.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Move {
    /// The frequency correction, ppm.
    Frequency {
        /// Before.
        before_ppm: f64,
        /// Since.
        after_ppm: f64,
    },
    /// Microseconds a tick: a faster slew than the frequency allows.
    Tick {
        /// Before.
        before_us: i64,
        /// Since.
        after_us: i64,
    },
    /// The offset still to be slewed, by more than [`OFFSET_NS`].
    Offset {
        /// When last told.
        before_ns: i64,
        /// Now.
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
        /// Bits that came.
        set: Vec<String>,
        /// Bits that went.
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
    /// Whether the clock runs otherwise for it; the others announce.
    pub(crate) fn steers(&self) -> bool {
        matches!(self, Self::Frequency { .. } | Self::Tick { .. } | Self::Offset { .. })
    }
}

/// The kernel's own loop brings an offset down a little each second: only
/// what differs by this much from what was told last is told again.
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
pub(crate) struct Steering {
    last: Adjtimex,
    told_offset_ns: i64,
}

impl Steering {
    pub(crate) fn new(state: Adjtimex) -> Self {
        Self { told_offset_ns: state.offset_ns, last: state }
    }

    /// As it stood at the last look.
    pub(crate) fn last(&self) -> &Adjtimex {
        &self.last
    }

    /// The next answer: what moved.
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
        if self.told_offset_ns.abs_diff(state.offset_ns) >= OFFSET_NS {
            let before_ns = std::mem::replace(&mut self.told_offset_ns, state.offset_ns);
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

/// The clock's state as far as it concerns leap seconds; that it is not
/// synchronised (5) is among the status bits.
fn leap(state: i32) -> &'static str {
    match state {
        1 => "one will be inserted",
        2 => "one will be deleted",
        3 => "one is in progress",
        4 => "one is over",
        _ => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> Adjtimex {
        Adjtimex {
            offset_ns: 0,
            frequency_ppm: -1.5,
            max_error_us: 1000,
            estimated_error_us: 10,
            status: Adjtimex::STA_NANO,
            tick_us: 10_000,
            tai_s: 37,
            state: 0,
        }
    }

    #[test]
    fn errors_that_grow_are_no_move() {
        let mut steering = Steering::new(calm());
        let state = Adjtimex { max_error_us: 1500, estimated_error_us: 900, ..calm() };
        assert_eq!(steering.observe(state), []);
    }

    #[test]
    fn an_offset_is_told_when_it_has_gone_far_enough() {
        let mut steering = Steering::new(calm());
        let told: Vec<usize> = [60_000, 120_000, 180_000, 30_000, 10_000]
            .into_iter()
            .map(|offset_ns| steering.observe(Adjtimex { offset_ns, ..calm() }).len())
            .collect();
        assert_eq!(told, [0, 1, 0, 0, 1]);
    }

    #[test]
    fn everything_that_moved_is_told_at_once() {
        let mut steering = Steering::new(calm());
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
                Move::Leap { before: "none".into(), after: "one will be inserted".into() },
            ]
        );
        assert_eq!(steering.observe(state), []);
    }
}
