use std::cell::{Cell, RefCell};
use std::net::UdpSocket;
use std::thread::JoinHandle;

use super::*;

const PATIENCE: Duration = Duration::from_millis(200);

/// Answers one request on loopback with what `answer` makes of it.
fn server(answer: impl FnOnce([u8; 48]) -> Vec<u8> + Send + 'static) -> (String, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut request = [0; 48];
        let (length, from) = socket.recv_from(&mut request).unwrap();
        assert_eq!((length, request[0]), (48, 0x23), "version 4, client");
        socket.send_to(&answer(request), from).unwrap();
    });
    (name, thread)
}

/// A right answer of the year 2026: received at .25 s, answered at .5 s.
fn answer(request: [u8; 48]) -> Vec<u8> {
    let mut packet = vec![0; 48];
    packet[..4].copy_from_slice(&[0x24, 2, 6, 0xec]);
    packet[8..12].copy_from_slice(&0x8000u32.to_be_bytes());
    packet[24..32].copy_from_slice(&request[40..48]);
    let second = (1_795_000_000 + UNIX_EPOCH_S) << 32;
    packet[32..40].copy_from_slice(&(second | 1 << 30).to_be_bytes());
    packet[40..48].copy_from_slice(&(second | 1 << 31).to_be_bytes());
    packet
}

fn ask(change: impl FnOnce(&mut Vec<u8>) + Send + 'static) -> Result<Exchange<u32>, String> {
    let (name, thread) = server(|request| {
        let mut packet = answer(request);
        change(&mut packet);
        packet
    });
    let calls = Cell::new(0);
    let result = NtpServer::find(&name, PATIENCE).unwrap().ask(|| calls.replace(calls.get() + 1));
    thread.join().unwrap();
    result.map_err(|error| error.to_string().replace(&name, "server"))
}

#[test]
fn a_right_answer_is_taken_with_the_clocks_around_it() {
    let exchange = ask(|_| ()).unwrap();
    let expected = Exchange {
        sent: 0,
        received_ns: 1_795_000_000_250_000_000,
        answered_ns: 1_795_000_000_500_000_000,
        arrived: 1,
        stratum: 2,
        root_distance_ns: 500_000_000,
        leap: 0,
    };
    assert_eq!(exchange, expected);
}

#[test]
fn a_wrong_answer_is_told_apart() {
    let error = |change: fn(&mut Vec<u8>)| ask(change).unwrap_err();
    assert_eq!(error(|p| p[0] |= 0xc0), "server: says that it is not synchronised");
    let kiss = |packet: &mut Vec<u8>| {
        packet[1] = 0;
        packet[12..16].copy_from_slice(b"RATE");
    };
    assert_eq!(error(kiss), "server: kiss-o'-death RATE");
    let late = "server: wrong answer: it was sent before the request arrived, or long after";
    assert_eq!(error(|p| p[32..40].fill(0)), late);
    assert_eq!(error(|p| p[32] += 1), late);
    assert_eq!(error(|p| p[1] = 16), "server: wrong answer: IncorrectStratumHeaders");
    assert_eq!(error(|p| p.truncate(47)), "server: wrong answer: IncorrectPayload");
    assert_eq!(error(|p| p[0] = 0x23), "server: wrong answer: IncorrectMode");
    // An answer to somebody else's request is not one to ours.
    assert_eq!(error(|p| p[24] ^= 1), "server: no answer in 200 ms");
}

/// A way on which the packets come that are made of the request.
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

fn ask_over(packet: impl Fn(usize, [u8; 48]) -> Option<Vec<u8>>) -> Result<Exchange<()>, NtpError> {
    let script = Script { packet, request: Cell::new([0; 48]), came: Cell::new(0) };
    NtpServer::find("127.0.0.1", PATIENCE).unwrap().ask_over(&script, || ())
}

#[test]
fn the_answer_is_found_behind_what_is_none() {
    let told = ask_over(|number, request| match number {
        0 => Some(vec![]),
        1 => Some(answer(request)[..47].to_vec()),
        2 => Some(answer([0; 48])),
        _ => Some(answer(request)),
    });
    assert!(told.is_ok(), "{told:?}");
}

#[test]
fn a_flood_is_not_read_to_its_end() {
    for length in [0, 48] {
        let told = ask_over(|number, _| {
            assert!(number < 100, "others wait");
            Some(answer([0; 48])[..length].to_vec())
        });
        assert!(told.is_err());
    }
}

#[test]
fn a_flood_ends_with_patience() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    let (over, is_over) = std::sync::mpsc::channel();
    let flood = std::thread::spawn(move || {
        let (_, from) = socket.recv_from(&mut [0; 48]).unwrap();
        let begun = std::time::Instant::now();
        while is_over.try_recv().is_err() && begun.elapsed() < Duration::from_secs(60) {
            // Nobody may listen any more.
            let _ = socket.send_to(&answer([0; 48]), from);
        }
        begun.elapsed()
    });
    let told = NtpServer::find(&name, Duration::from_millis(20)).unwrap().ask(|| ());
    over.send(()).unwrap();
    assert!(matches!(told, Err(NtpError::NoAnswer { .. })), "{told:?}");
    assert!(flood.join().unwrap() < Duration::from_secs(60));
}

#[test]
fn an_answer_that_has_come_by_the_deadline_is_read() {
    let (name, thread) = server(answer);
    let first = NtpServer::find(&name, Duration::ZERO).unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let second = NtpServer::find(&name, Duration::ZERO).unwrap();
    // The clocks are noted before each is asked: the second one not before the
    // first has answered.
    let (calls, thread) = (Cell::new(0), RefCell::new(Some(thread)));
    let told = NtpServer::ask_all(&[&first, &second], || {
        if calls.replace(calls.get() + 1) == 1 {
            thread.take().unwrap().join().unwrap();
        }
    });
    assert!(told[0].is_ok(), "{told:?}");
    assert!(matches!(told[1], Err(NtpError::NoAnswer { .. })), "{told:?}");
}

#[test]
fn kisses_are_obeyed() {
    let kiss = |code: &str| NtpError::Kiss { name: String::new(), code: code.into() };
    assert!(kiss("DENY").says_stop() && kiss("RSTR").says_stop() && !kiss("RATE").says_stop());
    assert!(kiss("RATE").says_slower() && !kiss("DENY").says_slower());
}

#[test]
fn nobody_there_is_told_apart_from_silence() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let ask = || NtpServer::find(&name, PATIENCE).unwrap().ask(|| ()).unwrap_err();
    assert!(matches!(ask(), NtpError::NoAnswer { patience_ms: 200, .. }));
    drop(silent);
    assert!(matches!(ask(), NtpError::NothingListens { .. }));
}

#[test]
fn names_are_understood_or_quoted_back() {
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
    let error = NtpServer::find("a:b", PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "a:b: no address found: \"b\" is no port");
}
