//! A socket whose packets the kernel stamps when they arrive and leave, and the clock they
//! are stamped by (Documentation/networking/timestamping.rst).

use std::io::{Error, ErrorKind, IoSliceMut, Result};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg,
    setsockopt, sockopt,
};
use pvclock::units::ClockPair;

use sources::wire::ntp::{LENGTH, Packet};

/// This node's clock: CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeClock {
    /// Shown ahead by so much, ns: for tests, which do not set the machine's clock.
    pub shift_ns: i64,
}

impl NodeClock {
    /// Both clocks now.
    ///
    /// # Errors
    /// CLOCK_REALTIME shows a time before 1970.
    pub(crate) fn now(self) -> Result<ClockPair> {
        linux::clock::pair()
    }

    /// What it shows at that time of CLOCK_REALTIME, ns since 1970.
    pub(crate) fn shows(self, realtime_ns: u64) -> i64 {
        i64::try_from(realtime_ns).unwrap_or(i64::MAX).saturating_add(self.shift_ns)
    }
}

/// A packet that came.
pub(crate) struct ArrivedPacket {
    pub(crate) length: usize,
    pub(crate) from: Option<SocketAddr>,
    /// CLOCK_REALTIME when the kernel had it, or let it go, ns since 1970.
    pub(crate) arrived_ns: Option<u64>,
}

/// What the kernel says beside a packet: three stamps, and of one that left an error that is
/// none, with an address.
const ERROR_BYTES: usize = 64;
/// Before a packet that left come the headers of its link, IPv6 and UDP.
const HEADERS: usize = 128;

/// Has the kernel stamp what arrives and what leaves; where it does not, the reader's and the
/// sender's clock have to do.
pub(crate) fn stamp(socket: &UdpSocket) {
    let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    let _ = setsockopt(socket, sockopt::Timestamping, &flags);
}

/// The next packet, as far as it fits.
pub(crate) fn receive(socket: &UdpSocket, into: &mut [u8]) -> Result<ArrivedPacket> {
    message(socket, into, MsgFlags::empty())
}

/// A packet of ours that left since it was last asked, and CLOCK_REALTIME when the kernel
/// handed it to the network card's driver, ns since 1970; none where all were returned, or
/// the driver does not stamp.
pub(crate) fn next_departure(socket: &UdpSocket) -> Option<(Packet, u64)> {
    let mut buffer = [0; HEADERS + LENGTH];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let left = message(socket, &mut buffer, flags).ok()?;
    let packet: &[u8; LENGTH] = buffer.get(..left.length)?.last_chunk()?;
    Some((Packet::decode(packet)?, left.arrived_ns?))
}

fn message(socket: &UdpSocket, into: &mut [u8], flags: MsgFlags) -> Result<ArrivedPacket> {
    let mut space = nix::cmsg_space!(Timestamps, [u8; ERROR_BYTES]);
    let mut parts = [IoSliceMut::new(into)];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)
            .map_err(|errno| Error::from_raw_os_error(errno as i32))?;
    let stamp = |control: ControlMessageOwned| match control {
        ControlMessageOwned::ScmTimestampsns(stamps) => {
            let time = stamps.system;
            u64::try_from(time.tv_sec()).ok().and_then(|s| {
                s.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec().try_into().ok()?)
            })
        }
        _ => None,
    };
    let controls = message.cmsgs().map_err(|_| Error::from(ErrorKind::InvalidData))?;
    let arrived_ns = controls.into_iter().find_map(stamp);
    let from = message.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
    });
    Ok(ArrivedPacket { length: message.bytes, from, arrived_ns })
}
