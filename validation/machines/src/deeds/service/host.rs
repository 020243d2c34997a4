//! What a host says to its guest over a virtio-serial port
//! (docs/protocols/host-socket.md), written anew from that page.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use crate::deeds::disruptions::channel::now_ns;
use crate::wire::connect;

/// Why it speaks.
#[derive(Debug, Clone, Copy)]
pub(in crate::deeds) enum Reason {
    Periodic = 0,
    Resumed = 1,
}

const FRAME: usize = 56;
const NOTICE: u8 = 1;
const REQUEST: u8 = 2;
const ANSWER: u8 = 3;

/// It knows its clock to a millisecond.
const BOUND_NS: u64 = 1_000_000;

/// A host, which answers until the guest's QEMU ends.
#[derive(Debug)]
pub(in crate::deeds) struct Host {
    stream: UnixStream,
    clock: Arc<HostClock>,
}

/// This system's clock, as far ahead, and with a second inserted then.
#[derive(Debug)]
struct HostClock {
    ahead_ns: AtomicI64,
    leap_at_ns: AtomicI64,
    is_silent: AtomicBool,
}

impl Default for HostClock {
    fn default() -> Self {
        let is_silent = false.into();
        Self { ahead_ns: 0.into(), leap_at_ns: i64::MAX.into(), is_silent }
    }
}

impl HostClock {
    fn now_ns(&self) -> i64 {
        let now_ns = now_ns() + self.ahead_ns.load(Ordering::Relaxed);
        let is_over = now_ns >= self.leap_at_ns.load(Ordering::Relaxed);
        now_ns - if is_over { 1_000_000_000 } else { 0 }
    }
}

impl Host {
    /// At the other end of the guest's port.
    pub(in crate::deeds) fn connect(socket: &Path) -> Result<Self, String> {
        let stream = connect(socket)?;
        let clock = Arc::new(HostClock::default());
        let (guest, its) = (stream.try_clone().map_err(|why| why.to_string())?, clock.clone());
        // Ends with the connection, which ends with QEMU.
        thread::spawn(move || answer(guest, &its));
        Ok(Self { stream, clock })
    }

    /// Has it ask.
    pub(in crate::deeds) fn notice(&mut self, reason: Reason) -> Result<(), String> {
        let sent = self.stream.write_all(&head(NOTICE, reason as u8));
        sent.map_err(|why| format!("the host's port: {why}"))
    }

    /// Whether it leaves requests unanswered.
    pub(in crate::deeds) fn keep_silent(&self, is_silent: bool) {
        self.clock.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Lives at another time, in which a second is inserted.
    pub(super) fn live_at(&self, ahead_ns: i64, leap_at_ns: i64) {
        self.clock.ahead_ns.store(ahead_ns, Ordering::Relaxed);
        self.clock.leap_at_ns.store(leap_at_ns, Ordering::Relaxed);
    }

    /// Its clock minus this system's, s.
    pub(super) fn ahead_s(&self) -> f64 {
        (self.clock.now_ns() - now_ns()) as f64 / 1e9
    }
}

fn head(kind: u8, reason: u8) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..7].copy_from_slice(&[b'P', b'C', b'H', b'T', 1, kind, reason]);
    frame
}

fn answer(mut guest: UnixStream, clock: &HostClock) {
    let mut request = [0; FRAME];
    while guest.read_exact(&mut request).is_ok() {
        let received_ns = clock.now_ns();
        if request[5] != REQUEST || clock.is_silent.load(Ordering::Relaxed) {
            continue;
        }
        let mut frame = head(ANSWER, 0);
        // TAI's offset is not known.
        frame[10] = 0x80;
        frame[16..32].copy_from_slice(&request[16..32]);
        frame[32..40].copy_from_slice(&received_ns.to_be_bytes());
        frame[48..].copy_from_slice(&BOUND_NS.to_be_bytes());
        frame[40..48].copy_from_slice(&clock.now_ns().to_be_bytes());
        if guest.write_all(&frame).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_with_its_nonce_and_the_time() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let clock = HostClock { ahead_ns: 7_000_000_000.into(), ..HostClock::default() };
        thread::spawn(move || answer(ours, &clock));
        let mut request = head(REQUEST, 0);
        request[16..32].copy_from_slice(&[9; 16]);
        guest.write_all(&request).unwrap();
        let mut frame = [0; FRAME];
        guest.read_exact(&mut frame).unwrap();
        assert_eq!(frame[..12], *b"PCHT\x01\x03\0\0\0\0\x80\0");
        assert_eq!(frame[16..32], [9; 16]);
        let sent_ns = i64::from_be_bytes(frame[40..48].try_into().unwrap());
        assert!((sent_ns - now_ns() - 7_000_000_000).abs() < 5_000_000_000);
    }
}
