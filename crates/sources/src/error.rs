//! Why a source gives no time.

use facts::Unknown;
use pvclock::units::OffsetError;

use crate::ntp::NtpError;
use crate::phc::UnknownScale;
use crate::vmclock::VmClockError;

/// Why a source does not give the time, or an offset from CLOCK_REALTIME.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source, or a clock of this machine, cannot be read.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The NTP server gives no usable reply.
    #[error(transparent)]
    Ntp(#[from] NtpError),
    /// The VMClock page does not give the time.
    #[error(transparent)]
    VmClock(#[from] VmClockError),
    /// The device counts UTC or TAI, and it is not known which, or how far they
    /// differ.
    #[error("{device} ({clock_name}): {why}")]
    Scale {
        /// The device.
        device: String,
        /// The name that its driver gives it.
        clock_name: String,
        /// What is not known.
        why: UnknownScale,
    },
    /// The device shows a time before 1970.
    #[error("{device}: shows a time before 1970")]
    Before1970 {
        /// The device.
        device: String,
    },
    /// No time message came within the last second.
    #[error("{path}: no time message {}", since(*.last_age_ms))]
    NoMessage {
        /// The socket.
        path: String,
        /// The age of the last one, ms.
        last_age_ms: Option<u64>,
    },
    /// Another process has the host's channel, by which it would be heard.
    #[error("{channel}: {why}")]
    ChannelTaken {
        /// Which.
        channel: String,
        /// What the system said, and when it is tried again.
        why: String,
    },
    /// The source's reading gives no offset.
    #[error("{source_name}: {error}")]
    Offset {
        /// The source.
        source_name: String,
        /// Why.
        error: OffsetError,
    },
}

fn since(age_ms: Option<u64>) -> String {
    age_ms.map_or_else(|| "yet".to_owned(), |age_ms| format!("for {age_ms} ms"))
}
