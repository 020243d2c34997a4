//! Frames on a stream, whose other end is the host.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::wire::hosttime::{FRAME_BYTES, GuestExchange, Incoming};
use rustix::io::Errno;

use super::told::{Rejected, ReportedTime, request};

/// Frames read in one call, so that a flood does not stall the caller.
const MOST_AT_ONCE: u32 = 64;

/// A non-blocking descriptor, and the frame that is under way on it.
#[derive(Debug)]
pub(super) struct HostStream {
    fd: OwnedFd,
    incoming: Incoming,
    guest: GuestExchange,
}

/// What is left of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// More may come.
    Open,
    /// Its other end has closed it.
    Ended,
    /// What came is no frame, or it takes none: its frames cannot be told
    /// apart any more.
    Broken,
}

impl HostStream {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, incoming: Incoming::default(), guest: GuestExchange::default() }
    }

    /// Reads what waits, and asks what is to be asked; does not wait.
    pub(super) fn receive(&mut self, told: &mut ReportedTime) -> io::Result<Left> {
        for _ in 0..MOST_AT_ONCE {
            let length = match rustix::io::read(&self.fd, self.incoming.space()) {
                Ok(0) => return Ok(Left::Ended),
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => return Ok(Left::Ended),
            };
            match self.incoming.filled(length) {
                Ok(None) => continue,
                Ok(Some(frame)) => _ = told.hear(&mut self.guest, &frame, linux::clock::pair()?),
                Err(why) => {
                    told.reject(why);
                    return Ok(Left::Broken);
                }
            }
            if !self.ask(told)? {
                return Ok(Left::Broken);
            }
        }
        Ok(if self.ask(told)? { Left::Open } else { Left::Broken })
    }

    /// Sends the request that is due; whether the stream took it.
    fn ask(&mut self, told: &mut ReportedTime) -> io::Result<bool> {
        let Some(frame) = request(&mut self.guest, linux::clock::pair()?, told) else {
            return Ok(true);
        };
        let why = match rustix::io::write(&self.fd, &frame.encode()) {
            Ok(FRAME_BYTES) => return Ok(true),
            Ok(sent) => format!("{sent} of {FRAME_BYTES} bytes were sent"),
            Err(why) => why.to_string(),
        };
        told.reject(Rejected::NotAsked { why });
        Ok(false)
    }

    /// Forgets the frame and the exchange under way.
    pub(super) fn reset(&mut self) {
        (self.incoming, self.guest) = (Incoming::default(), GuestExchange::default());
    }
}

impl AsFd for HostStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
