//! Sources of the time of day, for a machine whose own has gone wrong: each
//! compared with CLOCK_REALTIME, with a bound of the comparison's error.
//!
//! | source | whose time | bound |
//! | --- | --- | --- |
//! | [`VmClock`] | the host's, by the page it shares | the host's own word, and the reading of the clocks |
//! | [`PhcTime`] | the host's through ptp_kvm (KVM clock pairing), hv_utils, ptp_vmw, …; or a network card's | the reading alone: the device names none |
//! | [`NtpTime`] | a server's | its root distance and half the way there and back |
//! | [`HostSocket`] | what somebody on this machine says that the host says | as said |
//! | [`RtcTime`] | the battery-backed clock's | a second |
//!
//! What lies beyond a source's own word is not in its bound: a host that is
//! wrong about the time is wrong about its bound too.

pub mod host;
mod ntp;
mod offset;
mod phc;
mod rtc;
mod vmclock;

pub use crate::reference::vmclock::VmClock;
pub use host::HostSocket;
pub use ntp::NtpTime;
pub use offset::{Moment, Offset};
pub use phc::{
    Apparent, PhcScale, PhcSpec, PhcSpecError, PhcTime, UnknownScale, hosts_clocks, kernels_tai_s,
};
pub use rtc::RtcTime;

use crate::reference::ntp::NtpError;
use crate::reference::vmclock::VmClockError;
use facts::Unknown;

/// Somewhere to take the time of day from.
#[derive(Debug)]
pub enum TimeSource {
    /// A VMClock page.
    VmClock(VmClock),
    /// A PTP hardware clock.
    Phc(PhcTime),
    /// An NTP server.
    Ntp(NtpTime),
    /// What comes in on a socket.
    Host(HostSocket),
    /// The battery-backed clock.
    Rtc(RtcTime),
}

/// Why a source does not tell how far the clock is off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOffset {
    /// The source, or a clock of this machine, cannot be read.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The server gives no answer to go by.
    #[error(transparent)]
    Ntp(#[from] NtpError),
    /// The page does not tell the time.
    #[error(transparent)]
    VmClock(#[from] VmClockError),
    /// The device counts UTC or TAI, and nothing says which, or how far they
    /// are apart.
    #[error("{device} ({clock_name}): {why}")]
    Scale {
        /// The device.
        device: String,
        /// The name that its driver gives it.
        clock_name: String,
        /// What is not known.
        why: UnknownScale,
    },
    /// Nothing has been said lately.
    #[error("{path}: nobody has told the time{}", last(*.last_age_ms))]
    Silent {
        /// The socket.
        path: String,
        /// How long ago it was told last, ms.
        last_age_ms: Option<u64>,
    },
    /// Read before the clock but later than it, or later but before: the
    /// clock was set meanwhile, or the source does not go forward.
    #[error("{what}: its time contradicts itself by {by_ns} ns")]
    Contradiction {
        /// The source.
        what: String,
        /// How far the bounds are from meeting.
        by_ns: u64,
    },
    /// More than 292 years.
    #[error("{what}: its time is too far from this clock's to be told in 64 bits of nanoseconds")]
    OutOfRange {
        /// The source.
        what: String,
    },
}

fn last(age_ms: Option<u64>) -> String {
    age_ms.map_or(String::new(), |age_ms| format!(" for {age_ms} ms"))
}

impl TimeSource {
    /// Its kind and place, as a person would ask for it: `vmclock
    /// /dev/vmclock0`, `phc /dev/ptp1,tai`, `ntp time.example`.
    pub fn name(&self) -> String {
        match self {
            Self::VmClock(source) => format!("vmclock {}", source.device()),
            Self::Phc(source) => format!("phc {}{}", source.device(), source.scale()),
            Self::Ntp(source) => format!("ntp {}", source.name()),
            Self::Host(source) => format!("host {}", source.path().display()),
            Self::Rtc(_) => "rtc".to_owned(),
        }
    }

    /// How far it is from CLOCK_REALTIME now.
    ///
    /// # Errors
    /// Why it does not say.
    pub fn compare(&mut self) -> Result<Offset, NoOffset> {
        match self {
            Self::VmClock(source) => source.compare(),
            Self::Phc(source) => source.compare(),
            Self::Ntp(source) => source.compare(),
            Self::Host(source) => source.compare(),
            Self::Rtc(source) => source.compare(),
        }
    }

    /// As [`TimeSource::compare`], for each; the servers among them are asked
    /// at the same time, after all else.
    pub fn compare_all(sources: &mut [&mut Self]) -> Vec<Result<Offset, NoOffset>> {
        let (mut told, mut servers) = (Vec::new(), Vec::new());
        for source in sources {
            match source {
                Self::Ntp(server) => {
                    servers.push(server);
                    told.push(None);
                }
                other => told.push(Some(other.compare())),
            }
        }
        let mut by_servers = NtpTime::compare_all(&mut servers).into_iter();
        told.into_iter().filter_map(|told| told.or_else(|| by_servers.next())).collect()
    }
}
