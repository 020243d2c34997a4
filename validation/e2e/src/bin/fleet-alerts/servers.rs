//! NTP servers that show each client a time of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where they are: voices of their own each.
pub(crate) const ADDRESSES: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 3)];

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: u128 = 2_208_988_800;

/// What a client gets of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Reply {
    /// Nothing.
    pub(crate) silent: bool,
    /// This machine's time of day and so much more, s.
    pub(crate) offset_s: f64,
    /// The root dispersion that it states, s.
    pub(crate) dispersion_s: f64,
}

type Views = BTreeMap<(Ipv4Addr, Ipv4Addr), Reply>;

/// The servers, until the process ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Servers(Arc<Mutex<Views>>);

impl Servers {
    /// Starts them, each on port 123 of its address.
    pub(crate) fn start() -> io::Result<Self> {
        let servers = Self::default();
        for address in ADDRESSES {
            let socket = UdpSocket::bind((address, 123))?;
            let views = servers.clone();
            std::thread::spawn(move || views.serve(address, &socket));
        }
        Ok(servers)
    }

    /// From now on that client gets this of that server.
    pub(crate) fn set(&self, server: Ipv4Addr, client: Ipv4Addr, reply: Reply) {
        self.views().insert((server, client), reply);
    }

    fn views(&self) -> MutexGuard<'_, Views> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    fn serve(&self, address: Ipv4Addr, socket: &UdpSocket) {
        let mut request = [0; 48];
        loop {
            let Ok((48, from)) = socket.recv_from(&mut request) else { continue };
            let IpAddr::V4(client) = from.ip() else { continue };
            let reply = self.views().get(&(address, client)).copied().unwrap_or_default();
            if !reply.silent {
                // Who asked may have gone meanwhile.
                let _ = socket.send_to(&packet(&request, reply), from);
            }
        }
    }
}

/// RFC 5905, section 7.3.
fn packet(request: &[u8; 48], reply: Reply) -> [u8; 48] {
    let mut packet = [0; 48];
    // Version 4, server; stratum 1; a poll of 2^6 s; a precision of 2^-24 s.
    packet[..4].copy_from_slice(&[0x24, 1, 6, 0xe8]);
    packet[8..12].copy_from_slice(&((reply.dispersion_s * 65_536.0) as u32).to_be_bytes());
    packet[12..16].copy_from_slice(b"TEST");
    let now = now(reply.offset_s).to_be_bytes();
    packet[16..24].copy_from_slice(&now);
    packet[24..32].copy_from_slice(&request[40..48]);
    packet[32..40].copy_from_slice(&now);
    packet[40..48].copy_from_slice(&now);
    packet
}

/// As a 32.32 number of seconds since 1900.
fn now(offset_s: f64) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ns = since.as_nanos().saturating_add_signed((offset_s * 1e9) as i128);
    ((((ns / 1_000_000_000) + UNIX_EPOCH_S) << 32) | (((ns % 1_000_000_000) << 32) / 1_000_000_000))
        as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_states_its_time_and_dispersion() {
        let reply = Reply { offset_s: 100.0, dispersion_s: 0.5, silent: false };
        let sent = packet(&[7; 48], reply);
        assert_eq!((&sent[8..12], &sent[24..32]), (&[0, 0, 0x80, 0][..], &[7; 8][..]));
        let shown = u64::from_be_bytes(sent[40..48].try_into().unwrap()) >> 32;
        assert!(shown.abs_diff((now(0.0) >> 32) + 100) <= 1, "{shown}");
    }
}
