//! Interleaved mode (RFC 9769): packets by hand, as its section 2 has them, and peers that do
//! it, do not, or lie.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fleet_map::pair::{Networks, NodeClock, Prober, Responder};

const TIMEOUT: Duration = Duration::from_secs(10);

fn responder() -> SocketAddr {
    let networks: Networks = "127.0.0.0/8".parse().unwrap();
    let responder = Responder::bind("127.0.0.1:0".parse().unwrap(), networks, NodeClock::default());
    let responder = responder.unwrap();
    let address = responder.address().unwrap();
    std::thread::spawn(move || responder.run());
    address
}

/// Origin, receive and transmit time stamp.
fn stamps(packet: &[u8; 48]) -> [u64; 3] {
    [24, 32, 40].map(|at| u64::from_be_bytes(packet[at..at + 8].try_into().unwrap()))
}

/// Asks with these time stamps.
fn ask(socket: &UdpSocket, address: SocketAddr, of: [u64; 3]) -> [u64; 3] {
    let mut request = [0; 48];
    request[0] = 4 << 3 | 3;
    for (at, stamp) in [24, 32, 40].into_iter().zip(of) {
        request[at..at + 8].copy_from_slice(&stamp.to_be_bytes());
    }
    socket.send_to(&request, address).unwrap();
    let mut reply = [0; 48];
    assert_eq!(socket.recv(&mut reply).unwrap(), 48);
    stamps(&reply)
}

/// Now, as NTP has it.
fn now() -> u64 {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    ((unix.as_secs() + 2_208_988_800) << 32)
        + (u64::from(unix.subsec_nanos()) << 32) / 1_000_000_000
}

#[test]
fn a_second_request_learns_when_the_first_reply_was_sent() {
    let address = responder();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let [origin, received, written] = ask(&socket, address, [0, 0, 77]);
    let came = now();
    assert_eq!(origin, 77);
    let [origin, second, sent] = ask(&socket, address, [received, 88, 99]);
    assert_eq!(origin, 88, "interleaved: it replies to the receive time stamp");
    assert!(received < written && written < sent && sent < came, "{written} {sent} {came}");
    assert!(second > came);
    // Once more, and it is plain: nothing is told twice.
    assert_eq!(ask(&socket, address, [received, 88, 99])[0], 99);
    // Nor to who has equal time stamps, or names an arrival that never was.
    let [_, received, _] = ask(&socket, address, [0, 0, 77]);
    assert_eq!(ask(&socket, address, [received, 88, 88])[0], 88);
    assert_eq!(ask(&socket, address, [received + 1, 88, 99])[0], 99);
}

#[test]
fn a_prober_goes_by_it() {
    let (address, mut prober) = (responder(), Prober::default());
    for _ in 0..3 {
        let [t1, t2, t3, t4] = prober.probe(address, TIMEOUT, NodeClock::default()).unwrap().ns;
        assert!(prober.is_interleaved());
        // One clock: an honest one, so all are in order but for roundings of 1 ns.
        assert!(t1 <= t2 && t2 <= t3 + 1 && t3 <= t4, "{t1} {t2} {t3} {t4}");
    }
    // Seen from a clock that is 5 ms ahead.
    let clock = NodeClock { shift_ns: 5_000_000 };
    let [t1, t2, t3, t4] = prober.probe(address, TIMEOUT, clock).unwrap().ns;
    assert!(t2 - t1 >= -5_000_000 && t3 - t4 <= -5_000_000, "{t1} {t2} {t3} {t4}");
}

/// A server of the time that replies by `reply`: number of the request, request, plain reply.
fn server(reply: fn(u64, &[u8; 48], &mut [u8; 48])) -> (SocketAddr, Arc<AtomicU64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, count) = (socket.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut request = [0; 48];
        while let Ok((48, from)) = socket.recv_from(&mut request) {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let mut answer = fleet_map::pair::reply(&request, unix.as_nanos() as i64).unwrap();
            answer[40..].copy_from_slice(&now().to_be_bytes());
            reply(number, &request, &mut answer);
            socket.send_to(&answer, from).unwrap();
        }
    });
    (address, count)
}

#[test]
fn a_peer_that_does_not_do_it_is_soon_asked_once_a_time() {
    let (address, count) = server(|_, _, _| {});
    let mut prober = Prober::default();
    for _ in 0..10 {
        let [t1, t2, t3, t4] = prober.probe(address, TIMEOUT, NodeClock::default()).unwrap().ns;
        assert!(t1 <= t2 && t2 <= t3 + 1 && t3 <= t4);
    }
    assert!(!prober.is_interleaved());
    assert_eq!(count.load(Ordering::SeqCst), 10 + 3);
}

#[test]
fn a_peer_that_says_what_cannot_be_is_not_believed() {
    // Sent an hour later than it was written, or an hour before.
    fn lie(number: u64, request: &[u8; 48], reply: &mut [u8; 48], sent: u64) {
        if number == 1 {
            reply[24..32].copy_from_slice(&request[32..40]);
            reply[40..].copy_from_slice(&sent.to_be_bytes());
        }
    }
    let late = server(|number, request, reply| lie(number, request, reply, now() + (3600 << 32)));
    let early = server(|number, request, reply| lie(number, request, reply, now() - (3600 << 32)));
    for (address, _) in [late, early] {
        let [_, t2, t3, t4] =
            Prober::default().probe(address, TIMEOUT, NodeClock::default()).unwrap().ns;
        assert!(t2 <= t3 + 1 && t3 <= t4, "{t2} {t3} {t4}");
    }
}

#[test]
fn a_peer_that_refuses_the_second_request_is_heard() {
    let (address, _) = server(|number, request, reply| {
        if number == 1 {
            // A kiss-o'-death (RFC 5905, section 7.4) replies to its request: stratum 0.
            reply[1] = 0;
            reply[12..16].copy_from_slice(b"RATE");
            reply[24..32].copy_from_slice(&request[40..48]);
        }
    });
    let refused = Prober::default().probe(address, TIMEOUT, NodeClock::default());
    assert!(
        matches!(refused, Err(fleet_map::pair::ProbeError::Kiss(code)) if &code == b"RATE"),
        "{refused:?}"
    );
}
