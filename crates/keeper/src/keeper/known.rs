//! How far the clock may be off, for whoever asks.

use units::OffsetBound;

use super::Keeper;
use super::date::Date;
use super::phase::Phase;
use super::polled::SECOND_NS;
use crate::action::Cause;
use crate::choice::Selected;
use crate::source::SourceKind;

/// Without a measurement for so long beyond a poll the clock runs free.
const FREE_RUNNING_NS: u64 = 10 * SECOND_NS;

/// What is known of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it was not measured yet, or another process set it.
    Nothing,
    /// A disruption moved it, and it was not measured since.
    Disrupted,
    /// It was off by this at most, when it was measured.
    Within {
        /// The last offset, by as many sources as a correction takes.
        offset: OffsetBound,
        /// No source was measured for longer than a poll.
        is_free_running: bool,
    },
}

impl Keeper {
    /// By how much the clock shows a time before this program was made, if it does: the
    /// machine was started without an RTC, or with one that had stopped. The host's
    /// first word is its date then, whatever else is configured, unless it is later by more
    /// than twice that.
    #[must_use]
    pub fn with_unset_clock(self, behind_ns: Option<u64>) -> Self {
        let date = behind_ns.map_or(Date::Shown, |behind_ns| Date::Missing { behind_ns });
        Self { date, ..self }
    }

    /// The same, now: another process may have given it a date. To be called at each
    /// sample.
    pub fn unset_clock(&mut self, behind_ns: Option<u64>) {
        self.date.shown(behind_ns);
    }

    /// What is known of the clock at `now_ns`, CLOCK_MONOTONIC.
    pub fn known(&self, now_ns: u64) -> Known {
        if let Some(offset) = self.known {
            let age_ns = now_ns.saturating_sub(offset.at_monotonic_ns);
            let is_free_running = age_ns > self.policy.poll_ns.saturating_add(FREE_RUNNING_NS);
            return Known::Within { offset, is_free_running };
        }
        match self.phase {
            Phase::Disturbed(Cause::Start) | Phase::SetByAnother | Phase::Settled => Known::Nothing,
            Phase::Disturbed(_) | Phase::Corrected(_) => Known::Disrupted,
        }
    }

    /// Notes an offset that is no reason for a step: of as many sources as have
    /// to agree, each measured in this sample.
    pub(super) fn note(&mut self, selected: &Selected) {
        let needed = self.needed().0;
        let is_shown = selected.kind != SourceKind::Rtc
            && selected.agreeing.0 >= needed
            && selected.fresh >= needed;
        if is_shown {
            self.known = Some(selected.offset);
        }
    }
}
