#![doc = include_str!("../README.md")]

pub mod chronyd_client;
mod error;
pub mod host;
pub mod ntp;
pub mod phc;
pub mod rtc;
mod source;
pub mod tell;
mod vmclock;
pub mod wire;

use std::net::SocketAddr;

pub use error::SourceError;
pub use host::HostSource;
pub use ntp::{NtpError, NtpPeer, NtpSource};
pub use phc::PhcSource;
pub use rtc::RtcSource;
pub use source::{ReadStatus, Source, now};
pub use vmclock::{VmClockError, VmClockSource};

/// The reason behind an error of the system in reading `what`.
fn unknown(what: &str, error: &std::io::Error) -> facts::Unknown {
    facts::Unknown::from_io(what, error, rustix::process::geteuid().is_root())
}

/// A source by its name, such as `ntp 192.0.2.1`, and its address, where it is
/// a server whose address is known.
pub type Named<'n> = (&'n str, Option<SocketAddr>);

/// In which way one is a duplicate of the other; nothing where it is not.
pub fn duplicate_of(one: Named<'_>, other: Named<'_>) -> Option<String> {
    match (one, other) {
        ((one, _), (other, _)) if one == other => Some(format!("{one} is given twice")),
        ((one, Some(address)), (other, Some(same))) if address == same => {
            Some(format!("{one} and {other} are one server, {address}"))
        }
        _ => None,
    }
}

/// What to do about a duplicate.
pub const DUPLICATE_REMEDY: &str =
    "name each source once: a source that is named twice would have two votes";

#[cfg(test)]
mod tests;
