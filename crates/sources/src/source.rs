//! A source of UTC, whatever its kind: read between two stamps of the caller's
//! clocks.

use std::net::SocketAddr;

use facts::Unknown;
use facts::steering::ChronyTracking;
use pvclock::units::{ClockPair, OffsetBound, TimeReading};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{HostSource, NtpSource, PhcSource, RtcSource, SourceError, VmClockSource};

/// Where UTC is read from.
#[derive(Debug)]
#[non_exhaustive]
pub enum Source {
    /// A VMClock page.
    VmClock(VmClockSource),
    /// A PTP hardware clock.
    Phc(PhcSource),
    /// An NTP server.
    Ntp(NtpSource),
    /// What the host tells, on its channels.
    Host(Box<HostSource>),
    /// The real-time clock.
    Rtc(RtcSource),
}

/// What a source states about itself; each kind has a few of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ReadStatus {
    /// An NTP server's stratum.
    pub stratum: Option<u8>,
    /// An NTP server's root distance, or a VMClock page's maximum error, ns.
    pub root_distance_ns: Option<u64>,
    /// It follows its own clock: no reference outside that machine shows its time.
    pub is_own_clock: bool,
    /// A leap second warning: 1 insert, 2 delete; 0 for an NTP server without one, and a
    /// VMClock page has one or none.
    pub leap: Option<u8>,
    /// How a PTP hardware clock is compared: precise or extended.
    pub method: Option<String>,
    /// What a PTP hardware clock's driver calls it: `KVM virtual PTP` is the
    /// host's clock by KVM clock pairing.
    pub driver: Option<String>,
    /// How far a PTP hardware clock is ahead of UTC, s, which is subtracted: 0
    /// for one that counts UTC; null where that is not known.
    pub ahead_of_utc_s: Option<i32>,
    /// Whether a PTP hardware clock spreads leap seconds over hours by its name:
    /// `certain` or `possible`.
    pub leap_smear: Option<String>,
    /// chronyd's own figures, as of the last comparison.
    pub chrony: Option<ChronyTracking>,
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME now.
///
/// # Errors
/// CLOCK_REALTIME shows a time before 1970 or after 2554.
pub fn now() -> Result<ClockPair, Unknown> {
    linux::clock::pair().map_err(|error| crate::unknown("CLOCK_REALTIME", &error))
}

impl Source {
    /// Its kind and place, as a person would name it: `vmclock
    /// /dev/vmclock0`, `phc /dev/ptp1,tai`, `ntp time.example`.
    pub fn name(&self) -> String {
        match self {
            Self::VmClock(source) => format!("vmclock {}", source.device()),
            Self::Phc(source) => format!("phc {}{}", source.device(), source.scale()),
            Self::Ntp(source) => format!("ntp {}", source.name()),
            Self::Host(source) => format!("host {}", source.name()),
            Self::Rtc(_) => "rtc".to_owned(),
        }
    }

    /// An NTP server's address, once it is known.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Ntp(source) => source.address(),
            _ => None,
        }
    }

    /// What it stated about itself when it was read last.
    pub fn status(&self) -> ReadStatus {
        match self {
            Self::VmClock(source) => source.status(),
            Self::Phc(source) => source.status(),
            Self::Ntp(source) => source.status(),
            Self::Host(_) | Self::Rtc(_) => ReadStatus::default(),
        }
    }

    /// Reads it once; `stamp` reads the caller's clocks, right before and
    /// right after.
    ///
    /// # Errors
    /// Why it does not give the time.
    pub fn read<S>(&mut self, stamp: impl Fn() -> S) -> Result<TimeReading<S>, SourceError> {
        match self {
            Self::VmClock(source) => source.read(stamp),
            Self::Phc(source) => source.read(stamp),
            Self::Ntp(source) => source.read(stamp),
            Self::Host(source) => source.read(stamp),
            Self::Rtc(source) => source.read(stamp),
        }
    }

    /// Its time minus CLOCK_REALTIME, now.
    ///
    /// # Errors
    /// Why it does not give the time, or none that can be compared.
    pub fn offset(&mut self) -> Result<OffsetBound, SourceError> {
        // A message states the time of when it was sent.
        let reading = match self {
            Self::Host(source) => return source.offset(),
            Self::VmClock(source) => return source.offset(),
            _ => self.read(now)?,
        };
        offset(reading, || self.name())
    }

    /// As [`Source::offset`], of each; the NTP servers among them are queried
    /// at the same time, after all else.
    pub fn offset_all(sources: &mut [&mut Self]) -> Vec<Result<OffsetBound, SourceError>> {
        let (mut offsets, mut servers) = (Vec::new(), Vec::new());
        for source in sources {
            match source {
                Self::Ntp(server) => {
                    servers.push(server);
                    offsets.push(None);
                }
                other => offsets.push(Some(other.offset())),
            }
        }
        let mut of_servers = NtpSource::offset_all(&mut servers).into_iter();
        offsets.into_iter().filter_map(|offset| offset.or_else(|| of_servers.next())).collect()
    }
}

/// The offset of a source, which is called so.
pub(crate) fn offset(
    reading: TimeReading<Result<ClockPair, Unknown>>,
    source_name: impl FnOnce() -> String,
) -> Result<OffsetBound, SourceError> {
    let offset = reading.transpose()?.offset();
    offset.map_err(|error| SourceError::Offset { source_name: source_name(), error })
}
