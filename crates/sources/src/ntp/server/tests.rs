use std::cell::{Cell, RefCell};
use std::net::UdpSocket;
use std::thread::JoinHandle;

use super::super::transport::Wire;
use super::*;

/// 1970 in NTP's seconds.
const UNIX_EPOCH_S: u64 = 2_208_988_800;
const TIMEOUT: Duration = Duration::from_millis(200);

/// Replies to one request on loopback with what `reply` makes of it.
fn server(reply: impl FnOnce([u8; 48]) -> Vec<u8> + Send + 'static) -> (String, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut request = [0; 48];
        let (length, from) = socket.recv_from(&mut request).unwrap();
        assert_eq!((length, request[0]), (48, 0x23), "version 4, client");
        socket.send_to(&reply(request), from).unwrap();
    });
    (name, thread)
}

/// A right reply of the year 2026: received at .25 s, transmitted at .5 s.
fn reply(request: [u8; 48]) -> Vec<u8> {
    let mut packet = vec![0; 48];
    packet[..4].copy_from_slice(&[0x24, 2, 6, 0xec]);
    packet[8..12].copy_from_slice(&0x8000u32.to_be_bytes());
    packet[24..32].copy_from_slice(&request[40..48]);
    let second = (1_795_000_000 + UNIX_EPOCH_S) << 32;
    packet[32..40].copy_from_slice(&(second | 1 << 30).to_be_bytes());
    packet[40..48].copy_from_slice(&(second | 1 << 31).to_be_bytes());
    packet
}

fn query(change: impl FnOnce(&mut Vec<u8>) + Send + 'static) -> Result<ServerReply<u32>, String> {
    let (name, thread) = server(|request| {
        let mut packet = reply(request);
        change(&mut packet);
        packet
    });
    let calls = Cell::new(0);
    let result = NtpPeer::find(&name, TIMEOUT).unwrap().query(|| calls.replace(calls.get() + 1));
    thread.join().unwrap();
    result.map_err(|error| error.to_string().replace(&name, "server"))
}

#[test]
fn a_right_reply_is_taken_with_the_clocks_around_it() {
    let ServerReply { reading, state } = query(|_| ()).unwrap();
    let utc_ns = Interval { low: 1_795_000_000_000_000_000, high: 1_795_000_000_750_000_000 };
    let shown_ns = (1_795_000_000_250_000_000, 1_795_000_000_500_000_000);
    assert_eq!(
        reading,
        TimeReading { before: 0, utc_ns, shown_ns, cross_timestamp: None, after: 1 }
    );
    assert_eq!(
        state,
        ServerState { stratum: 2, root_distance_ns: 500_000_000, is_own_clock: false, leap: 0 }
    );
}

#[test]
fn each_invalid_reply_has_its_error() {
    let error = |change: fn(&mut Vec<u8>)| query(change).unwrap_err();
    assert_eq!(error(|p| p[0] |= 0xc0), "server: reports that it is not synchronised");
    let kiss = |packet: &mut Vec<u8>| {
        packet[1] = 0;
        packet[12..16].copy_from_slice(b"RATE");
    };
    assert_eq!(error(kiss), "server: kiss-o'-death RATE");
    let late = "server: invalid reply: it was sent before the request arrived, or long after";
    assert_eq!(error(|p| p[32..40].fill(0)), late);
    assert_eq!(error(|p| p[32] += 1), late);
    assert_eq!(error(|p| p[1] = 16), "server: invalid reply: stratum 16, expected 1 to 15");
    assert_eq!(error(|p| p.truncate(47)), "server: invalid reply: shorter than 48 bytes");
    assert_eq!(error(|p| p[0] = 0x23), "server: invalid reply: mode 3, expected 4, a server's");
    // A reply to another request is not one to ours.
    assert_eq!(error(|p| p[24] ^= 1), "server: no reply within 200 ms");
}

/// An authenticator, extension fields, or the largest datagram that there is.
#[test]
fn what_follows_a_reply_is_not_read() {
    let right = query(|_| ()).unwrap();
    for more in [1, 20, 1_000, 65_507 - 48] {
        let reply = query(move |packet| packet.resize(48 + more, 0xff)).unwrap();
        assert_eq!(reply, right, "{more}");
    }
}

/// A transport on which the packets come that are made of the request.
struct Script<F: Fn(usize, [u8; 48]) -> Option<Vec<u8>>> {
    packet: F,
    request: Cell<[u8; 48]>,
    came: Cell<usize>,
}

impl<F: Fn(usize, [u8; 48]) -> Option<Vec<u8>>> Wire for Script<F> {
    fn send(&self, packet: &[u8]) -> std::io::Result<usize> {
        self.request.set(packet.try_into().unwrap());
        Ok(packet.len())
    }

    fn receive(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let number = self.came.replace(self.came.get() + 1);
        let packet = (self.packet)(number, self.request.get());
        let packet = packet.ok_or(ErrorKind::WouldBlock)?;
        buffer[..packet.len()].copy_from_slice(&packet);
        Ok(packet.len())
    }
}

fn query_over(
    packet: impl Fn(usize, [u8; 48]) -> Option<Vec<u8>>,
) -> Result<ServerReply<()>, NtpError> {
    let script = Script { packet, request: Cell::new([0; 48]), came: Cell::new(0) };
    NtpPeer::find("127.0.0.1", TIMEOUT).unwrap().query_over(&script, || ())
}

#[test]
fn the_reply_is_found_behind_other_packets() {
    let reply = query_over(|number, request| match number {
        0 => Some(vec![]),
        1 => Some(reply(request)[..47].to_vec()),
        2 => Some(reply([0; 48])),
        _ => Some(reply(request)),
    });
    assert!(reply.is_ok(), "{reply:?}");
}

/// A request that gets no reply.
fn request() -> [u8; 48] {
    let sent = Cell::new([0; 48]);
    let reply = query_over(|_, request| {
        sent.set(request);
        None
    });
    assert!(matches!(reply, Err(NtpError::Timeout { .. })), "{reply:?}");
    sent.get()
}

/// Who cannot see the request does not know one bit of what a reply has to repeat.
#[test]
fn no_bit_of_a_requests_number_can_be_guessed() {
    let numbers: Vec<u64> =
        (0..64).map(|_| u64::from_be_bytes(request()[40..].try_into().unwrap())).collect();
    // A bit that is the same in 64 requests: once in 2^57 runs.
    let ever_set = numbers.iter().fold(0, |all, number| all | number);
    let always_set = numbers.iter().fold(u64::MAX, |all, number| all & number);
    assert_eq!((ever_set, always_set), (u64::MAX, 0), "{numbers:x?}");
}

/// Each of its 64 bits counts.
#[test]
fn a_reply_to_another_number_is_none() {
    for bit in 0..64 {
        let reply = query_over(|number, request| {
            let mut packet = reply(request);
            packet[24 + bit / 8] ^= 1 << (bit % 8);
            (number == 0).then_some(packet)
        });
        assert!(matches!(reply, Err(NtpError::Timeout { .. })), "bit {bit}: {reply:?}");
    }
}

/// Many clients send the time of day, which anyone knows.
#[test]
fn a_reply_to_the_time_of_day_is_none() {
    let now_s = linux::clock::LinuxClock::Realtime.read_ns().unwrap() / 1_000_000_000;
    let replied = query_over(|number, request| {
        let mut packet = reply(request);
        let second = (now_s + UNIX_EPOCH_S + number as u64 / 2) << 32;
        packet[24..32].copy_from_slice(&second.to_be_bytes());
        (number < 4).then_some(packet)
    });
    assert!(replied.is_err(), "{replied:?}");
}

#[test]
fn a_flood_is_not_read_to_its_end() {
    for length in [0, 48] {
        let reply = query_over(|number, _| {
            assert!(number < 100, "others wait");
            Some(reply([0; 48])[..length].to_vec())
        });
        assert!(reply.is_err());
    }
}

#[test]
fn a_flood_ends_with_the_timeout() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    let (over, is_over) = std::sync::mpsc::channel();
    let flood = std::thread::spawn(move || {
        let (_, from) = socket.recv_from(&mut [0; 48]).unwrap();
        let begun = std::time::Instant::now();
        while is_over.try_recv().is_err() && begun.elapsed() < Duration::from_secs(60) {
            // The client may be gone.
            let _ = socket.send_to(&reply([0; 48]), from);
        }
        begun.elapsed()
    });
    let reply = NtpPeer::find(&name, Duration::from_millis(20)).unwrap().query(|| ());
    over.send(()).unwrap();
    assert!(matches!(reply, Err(NtpError::Timeout { .. })), "{reply:?}");
    assert!(flood.join().unwrap() < Duration::from_secs(60));
}

#[test]
fn a_reply_that_has_come_by_the_deadline_is_read() {
    let (name, thread) = server(reply);
    let first = NtpPeer::find(&name, Duration::ZERO).unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let second = NtpPeer::find(&name, Duration::ZERO).unwrap();
    // Each request is stamped: the second one not before the first has its
    // reply.
    let (calls, thread) = (Cell::new(0), RefCell::new(Some(thread)));
    let replies = NtpPeer::query_all(&[&first, &second], || {
        if calls.replace(calls.get() + 1) == 1 {
            thread.take().unwrap().join().unwrap();
        }
    });
    assert!(replies[0].is_ok(), "{replies:?}");
    assert!(matches!(replies[1], Err(NtpError::Timeout { .. })), "{replies:?}");
}

#[test]
fn kisses_are_classified() {
    let kiss = |code: &str| NtpError::Kiss { name: String::new(), code: code.into() };
    assert!(kiss("DENY").is_stop() && kiss("RSTR").is_stop() && !kiss("RATE").is_stop());
    assert!(kiss("RATE").is_rate_limit() && !kiss("DENY").is_rate_limit());
}

#[test]
fn a_refused_connection_is_not_a_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let query = || NtpPeer::find(&name, TIMEOUT).unwrap().query(|| ()).unwrap_err();
    assert!(matches!(query(), NtpError::Timeout { timeout_ms: 200, .. }));
    drop(silent);
    assert!(matches!(query(), NtpError::Refused { .. }));
}

#[test]
fn names_are_parsed_or_quoted_back() {
    for (name, expected) in [
        ("ntp.example", ("ntp.example", 123)),
        ("ntp.example:11123", ("ntp.example", 11123)),
        ("::1", ("::1", 123)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", 123)),
    ] {
        assert_eq!(host_and_port(name), Ok(expected), "{name}");
    }
    for name in ["", ":1", "a:", "a:0", "a:99999", "[::1", "[::1]5", "a:b"] {
        assert!(host_and_port(name).is_err(), "{name}");
    }
    let error = NtpPeer::find("a:b", TIMEOUT).unwrap_err();
    assert_eq!(error.to_string(), "a:b: no address found: \"b\" is no port");
}
