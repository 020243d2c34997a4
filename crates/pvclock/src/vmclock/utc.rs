//! UTC from the page, as far as the host states it.

use core::fmt;

use super::page::{CounterId, TimeType, VmClockFlags, VmClockStatus};
use super::reader::VmClockTime;
use crate::Nanos;

/// `leap_indicator` during 23:59:60, a second that a count since 1970 has no
/// number for: CLOCK_REALTIME shows the one before once more.
const IN_LEAP_SECOND: u8 = 3;

/// UTC, and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// Nanoseconds since 1970, leap seconds not counted.
    pub since_1970_ns: i64,
    /// The truth is within ± this.
    pub max_error: Nanos,
}

/// Why a page does not give UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoUtc {
    /// The host's clock is not synchronised, or was not before it ran free.
    Status(VmClockStatus),
    /// The page refers to another counter than the CPU's.
    Counter(CounterId),
    /// The page's times are neither UTC nor TAI.
    TimeScale(TimeType),
    /// The page gives TAI without its offset from UTC.
    NoTaiOffset,
    /// The host states no bound of its error.
    NoErrorBound,
    /// A leap second is being inserted.
    LeapSecond,
    /// Not a time that 64 bits of nanoseconds since 1970 can hold.
    OutOfRange {
        /// The page's seconds.
        seconds: u64,
    },
}

impl fmt::Display for NoUtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Status(VmClockStatus::UNKNOWN) => f.write_str("the host does not know the time"),
            Self::Status(VmClockStatus::INITIALISING) => {
                f.write_str("the host's clock is not synchronised yet")
            }
            Self::Status(VmClockStatus::UNRELIABLE) => {
                f.write_str("the host calls its clock unreliable")
            }
            Self::Status(VmClockStatus(status)) => {
                write!(f, "the host's clock status is {status} where 2 or 3 is expected")
            }
            Self::Counter(CounterId(id)) => {
                write!(f, "the page refers to counter {id} where {} is expected", OURS.0)
            }
            Self::TimeScale(TimeType(scale)) => {
                write!(f, "the page's time type is {scale} where 0 (UTC) or 1 (TAI) is expected")
            }
            Self::NoTaiOffset => f.write_str("the page gives TAI without its offset from UTC"),
            Self::NoErrorBound => f.write_str("the host states no bound of its clock's error"),
            Self::LeapSecond => f.write_str("a leap second is being inserted"),
            Self::OutOfRange { seconds } => {
                write!(f, "{seconds} s exceed 64 bits of nanoseconds since 1970")
            }
        }
    }
}

impl core::error::Error for NoUtc {}

/// The counter that a program reads here.
const OURS: CounterId = CounterId::NATIVE;

impl VmClockTime {
    /// UTC at the moment of this time, if the page is of this CPU's counter
    /// ([`CounterId::NATIVE`]), by which it was taken. The page's offset counts without its
    /// sign, which hosts write either way: TAI has been ahead of UTC since 1961.
    ///
    /// # Errors
    /// The host does not vouch for it, or does not bound its error.
    pub fn utc(&self) -> Result<Utc, NoUtc> {
        let info = &self.info;
        if !matches!(info.clock_status, VmClockStatus::SYNCHRONISED | VmClockStatus::FREE_RUNNING) {
            return Err(NoUtc::Status(info.clock_status));
        }
        if info.counter_id != OURS {
            return Err(NoUtc::Counter(info.counter_id));
        }
        let to_utc_s = match info.time_type {
            TimeType::UTC if info.leap_indicator == IN_LEAP_SECOND => {
                return Err(NoUtc::LeapSecond);
            }
            TimeType::UTC => 0,
            TimeType::TAI if info.flags.contains(VmClockFlags::TAI_OFFSET_VALID) => {
                -i64::from(info.tai_offset_s.unsigned_abs())
            }
            TimeType::TAI => return Err(NoUtc::NoTaiOffset),
            other => return Err(NoUtc::TimeScale(other)),
        };
        let max_error = self.max_error.ok_or(NoUtc::NoErrorBound)?;
        let since_1970_ns = i64::try_from(self.seconds)
            .ok()
            .and_then(|seconds| seconds.checked_add(to_utc_s)?.checked_mul(1_000_000_000))
            .and_then(|whole_ns| whole_ns.checked_add(i64::from(self.subsecond_nanos())))
            .ok_or(NoUtc::OutOfRange { seconds: self.seconds })?;
        Ok(Utc { since_1970_ns, max_error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmclock::VmClockInfo;

    fn time(change: impl FnOnce(&mut VmClockInfo)) -> VmClockTime {
        let mut info = VmClockInfo::from_words(4096, 0, 0, 0);
        info.counter_id = OURS;
        info.time_type = TimeType::UTC;
        info.flags = VmClockFlags::TAI_OFFSET_VALID;
        info.clock_status = VmClockStatus::SYNCHRONISED;
        info.tai_offset_s = -37;
        change(&mut info);
        VmClockTime { seconds: 100, fraction: 1 << 63, max_error: Some(Nanos(70)), info }
    }

    #[test]
    fn utc_and_tai_are_told_as_utc() {
        let utc = |since_1970_ns| Ok(Utc { since_1970_ns, max_error: Nanos(70) });
        assert_eq!(time(|_| {}).utc(), utc(100_500_000_000));
        let free_running = time(|info| info.clock_status = VmClockStatus::FREE_RUNNING);
        assert_eq!(free_running.utc(), utc(100_500_000_000));
        assert_eq!(time(|info| info.time_type = TimeType::TAI).utc(), utc(63_500_000_000));
        // A host by version 1.0 of UAPI.13 writes TAI − UTC.
        let old = time(|info| (info.time_type, info.tai_offset_s) = (TimeType::TAI, 37));
        assert_eq!(old.utc(), utc(63_500_000_000));
        // TAI counts through a leap second.
        let leaping = time(|info| {
            info.time_type = TimeType::TAI;
            info.leap_indicator = IN_LEAP_SECOND;
        });
        assert_eq!(leaping.utc(), utc(63_500_000_000));
    }

    #[test]
    fn what_the_host_does_not_vouch_for_is_not_told() {
        let no = |change: fn(&mut VmClockInfo)| time(change).utc().unwrap_err();
        for status in
            [VmClockStatus::UNRELIABLE, VmClockStatus::INITIALISING, VmClockStatus::UNKNOWN]
        {
            let time = time(|info| info.clock_status = status);
            assert_eq!(time.utc(), Err(NoUtc::Status(status)));
        }
        let other = NoUtc::Counter(CounterId(99));
        assert_eq!(no(|info| info.counter_id = CounterId(99)), other);
        let scale = NoUtc::TimeScale(TimeType::MONOTONIC);
        assert_eq!(no(|info| info.time_type = TimeType::MONOTONIC), scale);
        assert_eq!(no(|info| info.leap_indicator = IN_LEAP_SECOND), NoUtc::LeapSecond);
        let without_offset = |info: &mut VmClockInfo| {
            info.time_type = TimeType::TAI;
            info.flags = VmClockFlags::default();
        };
        assert_eq!(no(without_offset), NoUtc::NoTaiOffset);
        let unbound = VmClockTime { max_error: None, ..time(|_| {}) };
        assert_eq!(unbound.utc(), Err(NoUtc::NoErrorBound));
        let seconds = u64::MAX;
        let far = VmClockTime { seconds, ..time(|_| {}) };
        assert_eq!(far.utc(), Err(NoUtc::OutOfRange { seconds }));
    }
}
