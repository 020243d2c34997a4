//! What calls of adjtimex show of a kernel, a row each of the page.

use std::collections::BTreeMap;

use simulator::kernel_clock::Timex;
use simulator::kernel_clock::timex::{mode, state, status};

/// A call: what went in, what came out.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) input: Timex,
    pub(super) result: i64,
    pub(super) output: Timex,
}

impl Call {
    fn sets(&self, modes: u32) -> bool {
        self.result >= 0 && self.input.modes & 0x8000 == 0 && self.input.modes & modes != 0
    }

    fn has(&self, bit: i32) -> bool {
        self.output.status & bit != 0
    }
}

type Row = (&'static str, fn(&Call) -> bool);

/// `clock_settime`, and refused.
pub(super) const SET: [&str; 2] = ["clock_settime", "clock_settime refused"];

/// The largest frequency and error of `timex`.
const FREQUENCY: i64 = 500 << 16;
const ERROR: i64 = 16_000_000;

/// The rows, in the order of the page.
pub(super) const ROWS: [Row; 17] = [
    ("offset taken by the PLL", |call| call.sets(mode::OFFSET) && call.has(status::PLL)),
    ("offset by the FLL (STA_MODE)", |call| call.has(status::MODE)),
    ("offset without PLL: ignored", |call| call.sets(mode::OFFSET) && !call.has(status::PLL)),
    ("offset partly slewed", |call| call.input.modes == 0 && call.output.offset != 0),
    ("frequency", |call| call.sets(mode::FREQUENCY)),
    ("frequency at its limit", |call| call.output.frequency.abs() == FREQUENCY),
    ("tick", |call| call.sets(mode::TICK)),
    ("time constant", |call| call.sets(mode::TIMECONST)),
    ("TAI", |call| call.sets(mode::TAI)),
    ("singleshot", |call| call.input.modes & 0x8000 != 0 && call.result >= 0),
    ("step (ADJ_SETOFFSET)", |call| call.sets(mode::SETOFFSET)),
    ("counts in ns", |call| call.has(status::NANO)),
    ("maximum error below its limit", |call| call.result >= 0 && call.output.max_error < ERROR),
    ("EINVAL", |call| call.result < 0),
    ("TIME_INS or TIME_DEL", |call| matches!(call.result as i32, state::INS | state::DEL)),
    ("TIME_OOP: within a leap second", |call| call.result == i64::from(state::OOP)),
    ("TIME_WAIT: after one", |call| call.result == i64::from(state::WAIT)),
];

/// Counts what a call has shown.
pub(super) fn count(seen: &mut BTreeMap<&'static str, u32>, call: &Call) {
    for (name, shows) in ROWS {
        if shows(call) {
            *seen.entry(name).or_default() += 1;
        }
    }
}

/// Counts a call of `clock_settime`.
pub(super) fn count_set(seen: &mut BTreeMap<&'static str, u32>, is_taken: bool) {
    *seen.entry(SET[usize::from(!is_taken)]).or_default() += 1;
}
