//! What this host knows of its own clock.

use std::io;
use std::time::Duration;

use crate::wire::hosttime::{FrameLeap, FrameScale, HostClock};
use linux::adjtimex::{self, KernelDiscipline};
use pvclock::units::LeapSecond;

/// What the host states in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostState(pub(crate) HostClock);

/// Why a host has nothing to tell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The kernel does not tell.
    #[error("cannot read the state of this host's clock: {0}")]
    Unreadable(io::Error),
    /// No daemon keeps the clock.
    #[error("this host's clock is not synchronised, so its error is unknown")]
    Unsynchronised,
}

/// How far a clock that was set from the RTC may be off.
const RTC_NS: u64 = 1_000_000_000;

/// A clock that smears a leap second is off by half of it at the most.
const SMEARED_NS: u64 = 500_000_000;

impl HostState {
    /// By the kernel's clock discipline: chronyd and others state there how far the
    /// clock may be off; systemd-timesyncd states 0 at each poll, which is no bound
    /// ([`KernelDiscipline::stated_error_ns`]). Or within `error`, which somebody who knows
    /// better vouches for.
    ///
    /// # Errors
    /// The clock is not synchronised, or cannot be asked.
    pub fn read(error: Option<Duration>) -> Result<Self, Unusable> {
        Self::from_discipline(&adjtimex::read().map_err(Unusable::Unreadable)?, error)
    }

    fn from_discipline(
        discipline: &KernelDiscipline,
        error: Option<Duration>,
    ) -> Result<Self, Unusable> {
        let by_hand = error.map(|error| u64::try_from(error.as_nanos()).unwrap_or(u64::MAX - 1));
        let bound_ns = by_hand.or_else(|| discipline.stated_error_ns());
        let leap = match discipline.leap_due() {
            Some(LeapSecond::Inserted) => FrameLeap::Inserted,
            Some(LeapSecond::Deleted) => FrameLeap::Deleted,
            None => FrameLeap::None,
        };
        Ok(Self(HostClock {
            bound_ns: Some(bound_ns.ok_or(Unusable::Unsynchronised)?),
            scale: FrameScale::Utc,
            leap,
            is_smeared: false,
            // 0 until a daemon sets it.
            tai_offset_s: i16::try_from(discipline.tai_s).ok().filter(|tai_s| *tai_s != 0),
        }))
    }

    /// How far the host's clock may be off.
    pub fn error(&self) -> Duration {
        Duration::from_nanos(self.0.bound_ns.unwrap_or(u64::MAX))
    }

    /// The same for one who only sets a clock by it: near a leap second that is spread
    /// over hours, half of that is in it.
    pub(crate) fn bound_ns(&self) -> u64 {
        let smearing = self.0.is_smeared && self.0.leap != FrameLeap::None;
        let bound_ns = self.0.bound_ns.unwrap_or(u64::MAX);
        bound_ns.saturating_add(if smearing { SMEARED_NS } else { 0 })
    }

    /// The same after the host was suspended: Linux takes the time from the RTC then,
    /// which shows whole seconds, and states no larger error for it
    /// (`timekeeping_resume`, kernel/time/timekeeping.c).
    #[must_use]
    pub fn after_suspend(self) -> Self {
        let bound_ns = self.0.bound_ns.map(|ns| ns.saturating_add(RTC_NS));
        Self(HostClock { bound_ns, ..self.0 })
    }

    /// The same where its leap seconds are spread over hours, by all its sources.
    #[must_use]
    pub fn smeared(self) -> Self {
        Self(HostClock { is_smeared: true, ..self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: KernelDiscipline = KernelDiscipline {
        state: libc::TIME_OK,
        offset: 0,
        frequency: 0,
        max_error_us: 250,
        estimated_error_us: 10,
        status: libc::STA_PLL,
        tick_us: 10_000,
        tai_s: 37,
    };

    fn of(discipline: KernelDiscipline, error_ms: Option<u64>) -> Option<HostClock> {
        let state = HostState::from_discipline(&discipline, error_ms.map(Duration::from_millis));
        state.ok().map(|state| state.0)
    }

    #[test]
    fn the_kernel_s_word_is_the_bound() {
        let clock = of(KEPT, None).unwrap();
        assert_eq!((clock.bound_ns, clock.tai_offset_s), (Some(250_000), Some(37)));
        assert_eq!(of(KEPT, Some(3)).unwrap().bound_ns, Some(3_000_000));
        assert_eq!(of(KernelDiscipline { tai_s: 0, ..KEPT }, None).unwrap().tai_offset_s, None);
    }

    #[test]
    fn an_unsynchronised_host_tells_nothing_by_itself() {
        let unsynchronised = KernelDiscipline { state: libc::TIME_ERROR, ..KEPT };
        assert_eq!(of(unsynchronised, None), None);
        assert_eq!(of(KernelDiscipline { max_error_us: 16_000_000, ..KEPT }, None), None);
        assert_eq!(of(unsynchronised, Some(3)).unwrap().bound_ns, Some(3_000_000));
    }

    #[test]
    fn a_leap_second_is_told_until_it_has_passed() {
        let due = KernelDiscipline { state: libc::TIME_INS, status: libc::STA_INS, ..KEPT };
        assert_eq!(of(due, None).unwrap().leap, FrameLeap::Inserted);
        assert_eq!(
            of(KernelDiscipline { state: libc::TIME_WAIT, ..due }, None).unwrap().leap,
            FrameLeap::None
        );
        let state = HostState::from_discipline(&due, None).unwrap();
        assert_eq!(state.bound_ns(), 250_000);
        assert_eq!(state.smeared().bound_ns(), 500_250_000);
        let passed = HostState::from_discipline(&KEPT, None).unwrap();
        assert_eq!(passed.smeared().bound_ns(), 250_000);
        let left_out = KernelDiscipline { status: libc::STA_DEL, ..due };
        assert_eq!(of(left_out, None).unwrap().leap, FrameLeap::Deleted);
    }
}
