//! The leap second's states. A bit of the status arms it, the end of the day
//! fires it, and clearing the bit makes it ready again:
//!
//! | state | next second, if | becomes |
//! | --- | --- | --- |
//! | Ok | INS; DEL | Inserting; Deleting |
//! | Inserting | no INS; it is midnight | Ok; Passing, the clock goes back 1 s |
//! | Deleting | no DEL; it is 23:59:59 | Ok; Passed, the clock goes on 1 s |
//! | Passing | always | Passed |
//! | Passed | neither INS nor DEL | Ok |

use crate::kernel_clock::timex::status;

const DAY_S: i64 = 86_400;

/// Where the kernel is with a leap second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeapState {
    /// None is near (`TIME_OK`).
    #[default]
    Ok,
    /// At midnight 23:59:60 follows (`TIME_INS`).
    Inserting,
    /// 23:59:59 is left out (`TIME_DEL`).
    Deleting,
    /// It is 23:59:60 (`TIME_OOP`).
    Passing,
    /// It is over, and its bit still set (`TIME_WAIT`).
    Passed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Leap {
    pub(super) state: LeapState,
    /// The second of the time of day at which it is due.
    pub(super) at_s: Option<i64>,
}

impl Leap {
    /// A second begins; returns by how much the clock leaps, s.
    pub(super) fn second(&mut self, second: i64, bits: i32) -> i64 {
        let has = |bit| bits & bit != 0;
        let midnight = |of: i64| second + DAY_S - of % DAY_S;
        let (state, at_s, leap) = match self.state {
            LeapState::Ok if has(status::INS) => (LeapState::Inserting, Some(midnight(second)), 0),
            LeapState::Ok if has(status::DEL) => {
                (LeapState::Deleting, Some(midnight(second + 1)), 0)
            }
            LeapState::Inserting if !has(status::INS) => (LeapState::Ok, None, 0),
            LeapState::Inserting if self.at_s == Some(second) => {
                (LeapState::Passing, self.at_s, -1)
            }
            LeapState::Deleting if !has(status::DEL) => (LeapState::Ok, None, 0),
            LeapState::Deleting if self.at_s == Some(second) => (LeapState::Passed, None, 1),
            LeapState::Passing => (LeapState::Passed, None, 0),
            LeapState::Passed if !has(status::INS | status::DEL) => (LeapState::Ok, self.at_s, 0),
            same => (same, self.at_s, 0),
        };
        *self = Self { state, at_s };
        leap
    }

    /// Nothing if the next second changes the state; otherwise the second that
    /// does.
    pub(super) fn quiet_until(self, now_s: i64, bits: i32) -> Option<Option<i64>> {
        let has = |bit| bits & bit != 0;
        let due = self.at_s.filter(|&at_s| at_s > now_s);
        match self.state {
            LeapState::Ok => (!has(status::INS | status::DEL)).then_some(None),
            LeapState::Inserting => has(status::INS).then_some(due),
            LeapState::Deleting => has(status::DEL).then_some(due),
            LeapState::Passing => None,
            LeapState::Passed => has(status::INS | status::DEL).then_some(None),
        }
    }
}
