//! How a guest is reached.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::wire::hosttime::VSOCK_PORT;

/// The way to a guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `vsock:CID[:PORT]`: AF_VSOCK.
    Vsock {
        /// The guest's context id, 3 or more.
        cid: u32,
        /// The port.
        port: u32,
    },
    /// `unix:PATH[:PORT]`: the Unix socket of Firecracker's and of
    /// cloud-hypervisor's vsock, which takes `CONNECT PORT`.
    Unix {
        /// The socket.
        path: PathBuf,
        /// The port.
        port: u32,
    },
    /// `port:PATH`: the Unix socket at the host's end of a virtio-serial port.
    Port(PathBuf),
    /// `agent:PATH`: the Unix socket of qemu-guest-agent.
    Agent(PathBuf),
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not vsock:CID[:PORT], unix:PATH[:PORT], port:PATH or agent:PATH: {why}")]
pub struct NotAnAddress {
    /// The text.
    pub found: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// CIDs below are the hypervisor, this machine itself and the host
/// (include/uapi/linux/vm_sockets.h).
const FIRST_GUEST: u32 = 3;

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let wrong = |why| NotAnAddress { found: text.to_owned(), why };
        let (kind, rest) = text.split_once(':').ok_or_else(|| wrong("no kind before a colon"))?;
        if rest.is_empty() {
            return Err(wrong("nothing after the colon"));
        }
        match kind {
            "vsock" => {
                let (cid, port) = with_port(rest);
                let cid = cid.parse().map_err(|_| wrong("the CID is no number"))?;
                if !(FIRST_GUEST..u32::MAX).contains(&cid) {
                    return Err(wrong("guests' CIDs begin with 3"));
                }
                let port = port.ok_or_else(|| wrong("the port is no number"))?;
                Ok(Self::Vsock { cid, port })
            }
            "unix" => match with_port(rest) {
                (path, Some(port)) => Ok(Self::Unix { path: path.into(), port }),
                // A colon of the path's own.
                (_, None) => Ok(Self::Unix { path: rest.into(), port: VSOCK_PORT }),
            },
            "port" => Ok(Self::Port(rest.into())),
            "agent" => Ok(Self::Agent(rest.into())),
            _ => Err(wrong("that kind is not known")),
        }
    }
}

/// What is before the last colon, and the port behind it: the default one where
/// there is no colon, none where it is no number.
fn with_port(text: &str) -> (&str, Option<u32>) {
    match text.rsplit_once(':') {
        Some((before, port)) => (before, port.parse().ok()),
        None => (text, Some(VSOCK_PORT)),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vsock { cid, port: VSOCK_PORT } => write!(f, "vsock:{cid}"),
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Unix { path, port: VSOCK_PORT } => write!(f, "unix:{}", path.display()),
            Self::Unix { path, port } => write!(f, "unix:{}:{port}", path.display()),
            Self::Port(path) => write!(f, "port:{}", path.display()),
            Self::Agent(path) => write!(f, "agent:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_written() {
        let unix = |path: &str, port| Address::Unix { path: path.into(), port };
        for (text, address) in [
            ("vsock:3", Address::Vsock { cid: 3, port: 123 }),
            ("vsock:7:9", Address::Vsock { cid: 7, port: 9 }),
            ("unix:/run/v.sock", unix("/run/v.sock", 123)),
            ("unix:/run/v.sock:52", unix("/run/v.sock", 52)),
            ("unix:/run/a:b", unix("/run/a:b", 123)),
            ("port:/run/p", Address::Port("/run/p".into())),
            ("agent:/run/qga.sock", Address::Agent("/run/qga.sock".into())),
        ] {
            assert_eq!(text.parse(), Ok(address.clone()));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (text, why) in [
            ("guest", "no kind before a colon"),
            ("vsock:", "nothing after the colon"),
            ("vsock:x", "the CID is no number"),
            ("vsock:2", "guests' CIDs begin with 3"),
            ("vsock:4294967295", "guests' CIDs begin with 3"),
            ("vsock:3:x", "the port is no number"),
            ("tcp:host", "that kind is not known"),
        ] {
            assert_eq!(text.parse::<Address>().map_err(|error| error.why), Err(why), "{text}");
        }
    }
}
