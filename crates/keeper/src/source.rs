//! The kinds of time sources.

use schemars::JsonSchema;
use serde::Serialize;

/// The kinds of sources, the best first.
///
/// The host's own clocks come first: read in this machine, within
/// microseconds, and right at the moment the machine resumes. Where they and
/// others contradict each other, see [`crate::Keeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SourceKind {
    /// The host's VMClock page, while it is marked as synchronised.
    VmClock,
    /// A PTP hardware clock; with `ptp_kvm` the host's clock by pairing.
    Phc,
    /// A time that the host sent over a socket.
    HostValue,
    /// An NTP server.
    Ntp,
    /// The battery-backed clock, which a virtual machine's host emulates.
    Rtc,
}

impl SourceKind {
    /// Whether it is read in this machine, and so cheap enough for each
    /// sample.
    pub fn is_local(self) -> bool {
        matches!(self, Self::VmClock | Self::Phc | Self::Rtc)
    }

    /// Whether it sends its time by itself, and cannot be polled.
    pub fn is_pushed(self) -> bool {
        self == Self::HostValue
    }

    /// Whether it is polled over the network.
    pub(crate) fn is_server(self) -> bool {
        !self.is_local() && !self.is_pushed()
    }

    /// Whether one sample is enough to step by: the host's clock, with no
    /// network between in which a packet can be late, old or forged.
    pub(crate) fn needs_no_second(self) -> bool {
        matches!(self, Self::VmClock | Self::Phc | Self::HostValue)
    }
}
