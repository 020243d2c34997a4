//! Whether the clock shows a date at all.
//!
//! | state | entered by | the host's word alone | two voices that agree |
//! | --- | --- | --- | --- |
//! | shown | the clock is right, or was not before this program at the start | as for any clock | by no more than a year |
//! | missing | it showed a time before this program was made | forward, by twice what it is certainly behind | forward, by any amount |
//! | told | the host's word, or another process | as for any clock | by any amount, either way |

/// Whether the clock shows a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateGuard {
    /// It does, as far as is known.
    Shown,
    /// It shows one that cannot be, as without an RTC: it is behind by this at least, ns.
    Missing { behind_ns: u64 },
    /// It was given one that was not confirmed yet.
    Told,
}

impl DateGuard {
    /// Of a clock that is behind by this for certain, if it is.
    pub(super) fn new(behind_ns: Option<u64>) -> Self {
        behind_ns.map_or(Self::Shown, |behind_ns| Self::Missing { behind_ns })
    }

    /// Whether this move cannot leave it farther off than it was: of a clock that is
    /// behind by 56 years at least, one by 112 at most.
    pub(super) fn takes(self, by_ns: i64) -> bool {
        let Self::Missing { behind_ns } = self else { return false };
        by_ns > 0 && by_ns.unsigned_abs() <= behind_ns.saturating_mul(2)
    }

    /// The clock was moved by this.
    pub(super) fn step(&mut self, by_ns: i64) {
        if let Self::Missing { behind_ns } = self {
            let left_ns = i128::from(*behind_ns) - i128::from(by_ns);
            *self = u64::try_from(left_ns)
                .ok()
                .filter(|left_ns| *left_ns > 0)
                .map_or(Self::Told, |behind_ns| Self::Missing { behind_ns });
        }
    }

    /// By so much the clock is behind for certain now, if it is.
    pub(super) fn update(&mut self, behind_ns: Option<u64>) {
        if let Self::Missing { .. } = self {
            *self = behind_ns.map_or(Self::Told, |behind_ns| Self::Missing { behind_ns });
        }
    }

    /// Another process set the clock.
    pub(super) fn confirm_set(&mut self) {
        if let Self::Missing { .. } = self {
            *self = Self::Told;
        }
    }
}
