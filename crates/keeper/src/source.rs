//! The kinds of time sources, and what each states of leap seconds.

use pvclock::units::LeapSecond;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of sources, the best first.
///
/// The host's own clocks come first: read in this machine, within
/// microseconds, and right at the moment the machine resumes. What each may do
/// to the clock is in docs/design/keep.md.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SourceKind {
    /// The host's VMClock page, while it is marked as synchronised.
    VmClock,
    /// A PTP clock that the host offers: its own clock by pairing (`ptp_kvm`),
    /// Hyper-V's, VMware's.
    Phc,
    /// The PTP clock of a network card, which ptp4l sets.
    NetworkCard,
    /// A time that the host sent over a socket.
    HostValue,
    /// An NTP server.
    Ntp,
    /// The battery-backed clock, which a virtual machine's host emulates.
    ///
    /// It may be wrong by hours and is never taken for the time of day: by how
    /// much it moved against the clock is how long the machine was away.
    Rtc,
}

/// Who reports a time. Sources of one voice are right or wrong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The host, by whichever of its faces: page, PTP clock, socket, RTC.
    Host,
    /// A server or a network card: the source's index.
    Own(usize),
}

impl SourceKind {
    /// Whether it is read in this machine, and so cheap enough for each
    /// sample.
    pub fn is_local(self) -> bool {
        matches!(self, Self::VmClock | Self::Phc | Self::NetworkCard | Self::Rtc)
    }

    /// Whether it is a face of the host: all of those are right or wrong together.
    pub fn is_hosts(self) -> bool {
        match self {
            Self::VmClock | Self::Phc | Self::HostValue | Self::Rtc => true,
            Self::NetworkCard | Self::Ntp => false,
        }
    }

    /// The voice of the source with this index.
    pub(crate) fn voice(self, index: usize) -> Voice {
        if self.is_hosts() { Voice::Host } else { Voice::Own(index) }
    }

    /// Whether it sends its time by itself, and cannot be polled.
    pub fn is_pushed(self) -> bool {
        self == Self::HostValue
    }

    /// Whether it is polled over the network.
    pub(crate) fn is_server(self) -> bool {
        !self.is_local() && !self.is_pushed()
    }

    /// Whether one sample is enough to step by: a clock read with no network
    /// between in which a packet can be late, old or forged.
    pub(crate) fn needs_no_second(self) -> bool {
        matches!(self, Self::VmClock | Self::Phc | Self::NetworkCard | Self::HostValue)
    }
}

/// Which time of day a source shows while a leap second is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnnouncedScale {
    /// That is not known: a host's clock may be either.
    #[default]
    Unknown,
    /// UTC, which repeats or leaves out that second.
    Utc,
    /// UTC with the leap second spread over hours: up to half a second off UTC from
    /// noon before it to noon after it, and the same else.
    Smeared,
}

/// What a source states of leap seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// The leap second of this day, if it announces one.
    pub leap: Option<LeapSecond>,
    /// The time that it shows meanwhile.
    pub scale: AnnouncedScale,
}
