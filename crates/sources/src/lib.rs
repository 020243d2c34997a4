#![doc = include_str!("../README.md")]

pub mod chronyd_client;
mod error;
pub mod host;
pub mod ntp;
pub mod phc;
pub mod rtc;
mod source;
pub mod tell;
pub mod unique;
mod vmclock;
pub mod wire;

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
