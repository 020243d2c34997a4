//! A channel that another process has, until it is free.
//!
//! Who listens first at a port of AF_VSOCK beyond 1023, or has a socket in a folder that
//! all may write, may be any user: that keeps the host from being heard, and is no reason
//! for a daemon to end.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::channel::HostChannel;
use crate::SourceError;

/// It is tried again after this.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

/// One that is waited for.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) channel: HostChannel,
    /// What is in the way, and what is done about it.
    pub(super) why: String,
    /// When it was tried again last.
    tried: Option<Instant>,
}

impl Awaited {
    pub(super) fn new(channel: &HostChannel, why: &io::Error) -> Self {
        Self { channel: channel.clone(), why: reason(why), tried: None }
    }

    /// Whether it is to be tried now: at once, as a daemon that takes new settings has it
    /// itself until they are in force, and then once each [`AGAIN`].
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.tried.is_none_or(|at| now.saturating_duration_since(at) >= AGAIN);
        if is_due {
            self.tried = Some(now);
        }
        is_due
    }

    /// It cannot be had still.
    pub(super) fn failed(&mut self, why: &io::Error) {
        self.why = reason(why);
    }

    pub(super) fn error(&self) -> SourceError {
        SourceError::ChannelTaken { channel: self.channel.to_string(), why: self.why.clone() }
    }
}

/// Whether a channel cannot be opened as another process has it, or has put something in
/// its place.
pub(super) fn is_anothers(channel: &HostChannel, why: &io::Error) -> bool {
    match (why.kind(), channel) {
        (ErrorKind::AddrInUse | ErrorKind::ResourceBusy | ErrorKind::AlreadyExists, _) => true,
        // A dead socket of another user's, in a folder where each removes his own alone.
        (ErrorKind::PermissionDenied, HostChannel::Socket(path)) => path.symlink_metadata().is_ok(),
        _ => false,
    }
}

fn reason(why: &io::Error) -> String {
    let cause = match why.kind() {
        ErrorKind::AddrInUse | ErrorKind::ResourceBusy => "it is in use",
        ErrorKind::AlreadyExists => "the existing file is not a socket",
        ErrorKind::PermissionDenied => "the existing file cannot be removed",
        _ => "the channel cannot be opened",
    };
    format!("{why}: {cause}; retrying every {} s", AGAIN.as_secs())
}

#[cfg(test)]
mod tests;
