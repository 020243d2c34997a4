//! A socket whose packets the kernel stamps when they arrive, and the clock they are
//! stamped by.

use std::io::{Error, ErrorKind, IoSliceMut, Result};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use units::ClockPair;

/// This node's clock: CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// Shown ahead by so much, ns: for tests, which do not set the machine's clock.
    pub shift_ns: i64,
}

impl Clock {
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
pub(crate) struct Packet {
    pub(crate) length: usize,
    pub(crate) from: Option<SocketAddr>,
    /// CLOCK_REALTIME when the kernel had it, ns since 1970.
    pub(crate) arrived_ns: Option<u64>,
}

/// Has the kernel stamp what arrives; where it does not, the reader's clock has to do.
pub(crate) fn stamp(socket: &UdpSocket) {
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
}

/// The next packet, as far as it fits.
pub(crate) fn receive(socket: &UdpSocket, into: &mut [u8]) -> Result<Packet> {
    let mut space = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(into)];
    let fd = socket.as_raw_fd();
    let message = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut space), MsgFlags::empty())
        .map_err(|errno| Error::from_raw_os_error(errno as i32))?;
    let stamp = |control: ControlMessageOwned| match control {
        ControlMessageOwned::ScmTimestampns(time) => {
            u64::try_from(time.tv_sec()).ok().and_then(|s| {
                s.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec().try_into().ok()?)
            })
        }
        _ => None,
    };
    let controls = message.cmsgs().map_err(|_| Error::from(ErrorKind::InvalidData))?;
    let arrived_ns = controls.into_iter().find_map(stamp);
    let from = message.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|it| SocketAddr::V4((*it).into()));
        v4.or_else(|| address.as_sockaddr_in6().map(|it| SocketAddr::V6((*it).into())))
    });
    Ok(Packet { length: message.bytes, from, arrived_ns })
}
