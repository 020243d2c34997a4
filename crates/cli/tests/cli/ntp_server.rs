//! An NTP server on loopback with faults of our choice: known truth in, so
//! that what is measured of it can be judged.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 1970 in NTP's seconds, which count from 1900.
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// The leap indicator of a server whose clock is not set.
const NOT_SYNCHRONISED: u8 = 3;

/// The leap indicator of a day whose last minute has 61 seconds.
const INSERTED: u8 = 1;

/// How the server's time goes, and how it behaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour {
    /// Its port of loopback; a free one for 0.
    pub(crate) port: u16,
    /// Its frequency error, ppm: its clock is CLOCK_MONOTONIC scaled by it.
    pub(crate) ppm: f64,
    /// How far it is off this machine's time of day at the start, s: a
    /// falseticker tells a wrong time steadily.
    pub(crate) offset_s: f64,
    /// Each way takes this long beyond loopback's own time.
    pub(crate) delay: Duration,
    /// And up to this long more, evenly distributed, either way anew.
    pub(crate) jitter: Duration,
    /// Of so many requests one is not answered; 0 for none.
    pub(crate) loss_one_of: u64,
    /// Its clock steps by so many seconds once it has run for so long.
    pub(crate) step: Option<(Duration, f64)>,
    /// Its clock steps by so many seconds at that request.
    pub(crate) step_at_request: Option<(u64, f64)>,
    /// Of so many answers, that one is wrong by so many seconds.
    pub(crate) wrong_one_of: Option<(u64, f64)>,
    /// What it answers with a kiss-o'-death, and from which request on.
    pub(crate) kiss: Option<(u64, [u8; 4])>,
    /// It does not answer from then to then.
    pub(crate) away: Option<(Duration, Duration)>,
    /// From which request on it says that it is not synchronised.
    pub(crate) unsynchronised_from: Option<u64>,
    /// The leap indicator; 3 says that it is not synchronised.
    pub(crate) leap: u8,
    /// A second is inserted before this time of its clock, s since 1970: announced for
    /// a day, and shown twice.
    pub(crate) leap_at_s: Option<u64>,
    /// Answers are cut to this length.
    pub(crate) cut_to: Option<usize>,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct NtpServer {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    /// By how much it was stepped while it runs, ns.
    stepped_ns: Arc<AtomicI64>,
    thread: Option<JoinHandle<u64>>,
}

impl NtpServer {
    /// Starts one on loopback.
    ///
    /// # Panics
    /// Loopback does not give that port.
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", behaviour.port)).expect("a port of loopback");
        // Looks at `over` now and then.
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let address = socket.local_addr().expect("our own address");
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let stepped_ns = Arc::new(AtomicI64::new(0));
        let steps = Arc::clone(&stepped_ns);
        let thread = std::thread::spawn(move || serve(&socket, &behaviour, &until, &steps));
        Self { address, over, stepped_ns, thread: Some(thread) }
    }

    /// Steps its clock, s.
    pub(crate) fn step(&self, by_s: f64) {
        self.stepped_ns.fetch_add((by_s * 1e9) as i64, Ordering::Relaxed);
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    /// Ends it, and says how many requests it got.
    ///
    /// # Panics
    /// Its thread did.
    pub(crate) fn stop(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the server's thread")
    }
}

impl Drop for NtpServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was told on standard error.
            let _ = thread.join();
        }
    }
}

/// The server's clock.
struct Clock<'b> {
    started: Instant,
    at_start: Duration,
    behaviour: &'b Behaviour,
    stepped_ns: &'b AtomicI64,
}

impl Clock<'_> {
    fn leap_at_ns(&self) -> Option<u128> {
        self.behaviour.leap_at_s.map(|at_s| u128::from(at_s) * 1_000_000_000)
    }

    /// Whether the leap second is announced by a packet of that time.
    fn announces(&self, now: u64) -> bool {
        let now_s = (now >> 32).saturating_sub(UNIX_EPOCH_S);
        self.behaviour.leap_at_s.is_some_and(|at_s| now_s < at_s && at_s - now_s <= 86_400)
    }

    /// As a 32.32 number of seconds since 1900, at that request.
    fn now(&self, request: u64) -> u64 {
        let elapsed = self.started.elapsed();
        let stepped = self.behaviour.step.filter(|(after, _)| elapsed >= *after);
        let at_request = self.behaviour.step_at_request.filter(|(from, _)| request >= *from);
        let wrong = self.behaviour.wrong_one_of.filter(|(of, _)| request.is_multiple_of(*of));
        let gained_s = elapsed.as_secs_f64() * self.behaviour.ppm / 1e6
            + self.behaviour.offset_s
            + stepped.map_or(0.0, |(_, by_s)| by_s)
            + at_request.map_or(0.0, |(_, by_s)| by_s)
            + wrong.map_or(0.0, |(_, by_s)| by_s);
        let ns = (self.at_start + elapsed).as_nanos() as i128 + (gained_s * 1e9) as i128;
        let ns = ns + i128::from(self.stepped_ns.load(Ordering::Relaxed));
        let ns = u128::try_from(ns).expect("a time since 1970");
        let has_leapt = self.leap_at_ns().is_some_and(|at_ns| ns >= at_ns);
        let ns = ns - if has_leapt { 1_000_000_000 } else { 0 };
        let seconds = ns / 1_000_000_000 + u128::from(UNIX_EPOCH_S);
        let fraction = ((ns % 1_000_000_000) << 32) / 1_000_000_000;
        ((seconds << 32) | fraction) as u64
    }
}

fn serve(
    socket: &UdpSocket,
    behaviour: &Behaviour,
    over: &AtomicBool,
    stepped_ns: &AtomicI64,
) -> u64 {
    let at_start = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time since 1970");
    let clock = Clock { started: Instant::now(), at_start, behaviour, stepped_ns };
    let mut requests = 0;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    while !over.load(Ordering::Relaxed) {
        let mut request = [0; 48];
        let Ok((48, from)) = socket.recv_from(&mut request) else { continue };
        requests += 1;
        let ran = clock.started.elapsed();
        if behaviour.away.is_some_and(|(from, to)| (from..to).contains(&ran)) {
            continue;
        }
        let leap = match behaviour.unsynchronised_from {
            Some(from) if requests >= from => NOT_SYNCHRONISED,
            _ if clock.announces(clock.now(requests)) => INSERTED,
            _ => behaviour.leap,
        };
        if behaviour.loss_one_of > 0 && requests % behaviour.loss_one_of == 0 {
            continue;
        }
        // The way there, the answer, the way back.
        sleep(behaviour.delay + jitter(behaviour, &mut random));
        let received = clock.now(requests);
        let mut packet = answer(&request, behaviour, requests, (received, clock.now(requests)));
        packet[0] |= leap << 6;
        sleep(behaviour.delay + jitter(behaviour, &mut random));
        let length = behaviour.cut_to.unwrap_or(packet.len()).min(packet.len());
        // Who asked may have gone meanwhile.
        let _ = socket.send_to(&packet[..length], from);
    }
    requests
}

/// xorshift64 (Marsaglia, 2003).
fn jitter(behaviour: &Behaviour, random: &mut u64) -> Duration {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    behaviour.jitter.mul_f64((*random >> 11) as f64 / (1u64 << 53) as f64)
}

fn answer(request: &[u8; 48], behaviour: &Behaviour, number: u64, times: (u64, u64)) -> [u8; 48] {
    let mut packet = [0; 48];
    // Version 4, server; stratum 1; a poll of 2^6 s; a precision of 2^-24 s.
    packet[..4].copy_from_slice(&[0x24, 1, 6, 0xe8]);
    packet[12..16].copy_from_slice(b"TEST");
    if let Some((_, code)) = behaviour.kiss.filter(|(from, _)| number >= *from) {
        packet[1] = 0;
        packet[12..16].copy_from_slice(&code);
    }
    packet[16..24].copy_from_slice(&times.0.to_be_bytes());
    packet[24..32].copy_from_slice(&request[40..48]);
    packet[32..40].copy_from_slice(&times.0.to_be_bytes());
    packet[40..48].copy_from_slice(&times.1.to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_second_is_announced_for_a_day_and_shown_twice() {
        let at_s = 1_798_761_600;
        let behaviour = Behaviour { leap_at_s: Some(at_s), ..Behaviour::default() };
        for (at_start_s, shown_s, announces) in [
            (at_s - 86_401, at_s - 86_401, false),
            (at_s - 1, at_s - 1, true),
            (at_s, at_s - 1, true),
            (at_s + 1, at_s, false),
        ] {
            let at_start = Duration::from_secs(at_start_s);
            let stepped_ns = &AtomicI64::new(0);
            let clock =
                Clock { started: Instant::now(), at_start, behaviour: &behaviour, stepped_ns };
            let now = clock.now(1);
            assert_eq!((now >> 32) - UNIX_EPOCH_S, shown_s);
            assert_eq!(clock.announces(now), announces, "{at_start_s}");
        }
    }
}
