//! Guests of all kinds, behind sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::tell::{Address, HostState, MAX_REPLY_BYTES, TellFailure, TellOutcome};
use crate::wire::hosttime::{FRAME_BYTES, GuestExchange, Heard, HostTimeFrame, Reason};
use pvclock::units::{ClockPair, OffsetBound};

const LIMIT: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(200);

fn host(error: Duration) -> HostState {
    HostState::read(Some(error)).unwrap()
}

/// How far the host may be off.
const ERROR: Duration = Duration::from_micros(7);

/// Tells what `guest` does with its first connection, and what that came to.
fn with<T: Send + 'static>(
    address: fn(&Path) -> Address,
    limit: Duration,
    guest: impl FnOnce(UnixStream) -> T + Send + 'static,
) -> (Result<TellOutcome, TellFailure>, T) {
    by(host(ERROR), address, limit, guest)
}

fn by<T: Send + 'static>(
    host: HostState,
    address: fn(&Path) -> Address,
    limit: Duration,
    guest: impl FnOnce(UnixStream) -> T + Send + 'static,
) -> (Result<TellOutcome, TellFailure>, T) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let guest = thread::spawn(move || guest(listener.accept().unwrap().0));
    let told = crate::tell::tell(&address(&path), host, Reason::Restored, limit);
    (told, guest.join().unwrap())
}

fn port(path: &Path) -> Address {
    Address::Port(path.into())
}

fn agent(path: &Path) -> Address {
    Address::Agent(path.into())
}

/// A guest's clocks, which are behind by so much.
fn clocks(behind_ns: u64) -> ClockPair {
    let now = linux::clock::pair().unwrap();
    ClockPair { realtime_ns: now.realtime_ns - behind_ns, ..now }
}

/// What keep does on such a stream.
fn ask(mut stream: UnixStream, behind_ns: u64) -> (Option<Reason>, Option<OffsetBound>) {
    let (mut guest, mut reason, mut nonce) = (GuestExchange::default(), None, 7);
    loop {
        let mut bytes = [0; FRAME_BYTES];
        stream.read_exact(&mut bytes).unwrap();
        let frame = HostTimeFrame::parse(&bytes).unwrap();
        match guest.receive(&frame, clocks(behind_ns)).unwrap() {
            Heard::Notice(told) => reason = Some(told),
            Heard::Offset(offset) => return (reason, Some(offset)),
            Heard::Answer => {}
        }
        nonce += 1;
        if let Some(request) = guest.next(clocks(behind_ns), || nonce).unwrap() {
            stream.write_all(&request.encode()).unwrap();
        }
    }
}

#[test]
fn a_guest_that_asks_learns_the_time_and_its_host_how_far_it_was_off() {
    let (told, (reason, offset)) = with(port, LIMIT, |stream| ask(stream, 30_000_000_000));
    let (told, offset) = (told.unwrap(), offset.unwrap());
    assert_eq!((reason, told.answers), (Some(Reason::Restored), 4));
    assert!((offset.offset_ns - 30_000_000_000).unsigned_abs() <= offset.bound_ns, "{offset:?}");
    assert!(offset.bound_ns >= 7_000, "the host's own error is in it: {offset:?}");
    let apart_ns = (told.before.offset_ns + 30_000_000_000).unsigned_abs();
    assert!(apart_ns <= told.before.bound_ns, "{told:?}");
}

/// Something disturbed its last exchange, which `keep` finds out with its next sample.
#[test]
fn a_guest_that_asks_again_a_sample_later_is_answered() {
    let (told, frame) = with(port, LIMIT, |mut stream| {
        ask(stream.try_clone().unwrap(), 0);
        std::thread::sleep(Duration::from_millis(600));
        let sent_ns = clocks(0).realtime_ns;
        stream.write_all(&HostTimeFrame::Request { nonce: 99, sent_ns }.encode()).unwrap();
        let mut bytes = [0; FRAME_BYTES];
        stream.read_exact(&mut bytes).map(|()| HostTimeFrame::parse(&bytes).unwrap())
    });
    assert!(matches!(frame, Ok(HostTimeFrame::Answer(_))), "{frame:?}");
    assert_eq!(told.unwrap().answers, 5);
}

#[test]
fn firecracker_s_socket_is_asked_for_the_port() {
    let unix = |path: &Path| Address::Unix { path: path.into(), port: 52 };
    let (told, line) = with(unix, LIMIT, |mut stream| {
        let mut line = [0; 11];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(b"OK 1073741824\n").unwrap();
        ask(stream, 0);
        line
    });
    assert_eq!((told.unwrap().answers, &line), (4, b"CONNECT 52\n"));

    let (told, ()) = with(unix, LIMIT, |mut stream| {
        let _ = stream.read(&mut [0; 64]);
        stream.write_all(&[b'x'; 100]).unwrap();
    });
    assert!(matches!(told, Err(TellFailure::Nonsense(_))), "{told:?}");
}

#[test]
fn a_guest_that_hangs_costs_its_limit_and_no_more() {
    for (sends, begun) in [(&b""[..], Instant::now()), (b"PCHT\x01\x02", Instant::now())] {
        let (told, ()) = with(port, SHORT, |mut stream| {
            stream.write_all(sends).unwrap();
            while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {}
        });
        assert!(matches!(told, Err(TellFailure::Silent { .. })), "{told:?}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn nonsense_is_refused() {
    for frame in [[b'x'; FRAME_BYTES], HostTimeFrame::Notice(Reason::Resumed).encode()] {
        let (told, ()) = with(port, LIMIT, move |mut stream| {
            stream.write_all(&frame).unwrap();
            while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {}
        });
        assert!(matches!(told, Err(TellFailure::Nonsense(_))), "{told:?}");
    }
}

#[test]
fn a_guest_that_asks_for_ever_is_left() {
    let (told, ()) = with(port, LIMIT, |mut stream| {
        let request = HostTimeFrame::Request { nonce: 1, sent_ns: clocks(0).realtime_ns }.encode();
        while stream.write_all(&request).is_ok() {}
    });
    assert_eq!(told.unwrap().answers, 16);
}

#[test]
fn nobody_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let guest = Address::Port(folder.path().join("none"));
    let told = crate::tell::tell(&guest, host(ERROR), Reason::Periodic, LIMIT);
    assert!(matches!(told, Err(TellFailure::Unreachable(_))), "{told:?}");

    // Firecracker closes where nobody in the guest listens.
    let unix = |path: &Path| Address::Unix { path: path.into(), port: 52 };
    let (told, ()) = with(unix, LIMIT, |mut stream| {
        stream.read_exact(&mut [0; 11]).unwrap();
    });
    let why = told.unwrap_err();
    assert!(matches!(why, TellFailure::Unreachable(_)), "{why:?}");
    assert_eq!(why.to_string(), "cannot connect: nobody in the guest listens on port 52");
}

#[test]
fn a_listener_that_takes_nobody_costs_the_limit_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.sock");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let begun = Instant::now();
    let told = crate::tell::tell(&Address::Port(path), host(ERROR), Reason::Periodic, SHORT);
    assert_eq!(told.unwrap_err().to_string(), "cannot connect: not within 0.2 s");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// A guest that is not there yet: with AF_VSOCK the kernel would wait for 2 s.
#[test]
fn the_limit_holds_for_connecting_over_vsock() {
    let begun = Instant::now();
    let guest = Address::Vsock { cid: 1 << 30, port: 123 };
    let told = crate::tell::tell(&guest, host(ERROR), Reason::Periodic, SHORT);
    assert!(matches!(told, Err(TellFailure::Unreachable(_))), "{told:?}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn the_longest_limit_is_no_crash() {
    let (told, _) = with(port, Duration::MAX, |stream| ask(stream, 0));
    assert_eq!(told.unwrap().answers, 4);
}

/// qemu-guest-agent, whose machine's clock is behind by so much: the times that it was
/// set to. Without an RTC it then says that it failed.
fn serve(stream: UnixStream, mut behind_ns: u64, has_rtc: bool) -> Vec<u64> {
    let mut set = Vec::new();
    let mut writer = stream.try_clone().unwrap();
    // What an earlier client did not read.
    writer.write_all(b"{\"return\": 1").unwrap();
    for line in BufReader::new(stream).split(b'\n') {
        let line = line.unwrap();
        let begin = line.iter().position(|byte| *byte == b'{').unwrap();
        let command: serde_json::Value = serde_json::from_slice(&line[begin..]).unwrap();
        let reply = match command["execute"].as_str().unwrap() {
            "guest-sync-delimited" => {
                writer.write_all(&[0xff]).unwrap();
                command["arguments"]["id"].clone()
            }
            "guest-get-time" => clocks(behind_ns).realtime_ns.into(),
            "guest-set-time" => {
                set.push(command["arguments"]["time"].as_u64().unwrap());
                behind_ns = 0;
                if !has_rtc {
                    writeln!(writer, r#"{{"error": {{"desc": "hwclock failed"}}}}"#).unwrap();
                    continue;
                }
                serde_json::json!({})
            }
            other => panic!("{other}"),
        };
        writeln!(writer, "{}", serde_json::json!({ "return": reply })).unwrap();
    }
    set
}

#[test]
fn an_agent_sets_a_clock_that_is_wrong_and_no_other() {
    for has_rtc in [true, false] {
        let (told, set) = with(agent, LIMIT, move |stream| serve(stream, 5_000_000_000, has_rtc));
        let told = told.unwrap();
        assert_eq!((told.answers, set.len()), (1, 1));
        let apart_ns = (told.before.offset_ns + 5_000_000_000).unsigned_abs();
        assert!(apart_ns <= told.before.bound_ns, "{told:?}");
        let after = told.after.unwrap();
        assert!(after.offset_ns.unsigned_abs() <= after.bound_ns, "{told:?}");
    }

    let (told, set) = with(agent, LIMIT, |stream| serve(stream, 0, true));
    assert_eq!((told.unwrap().answers, set.len()), (0, 0));
}

#[test]
fn an_agent_leaves_a_clock_that_may_be_as_right_as_the_host_s() {
    let off = |seconds| {
        let host = host(Duration::from_secs(10));
        let (told, set) = by(host, agent, LIMIT, move |stream| {
            serve(stream, Duration::from_secs(seconds).as_nanos() as u64, true)
        });
        (told.unwrap().answers, set.len())
    };
    assert_eq!(off(9), (0, 0));
    assert_eq!(off(12), (1, 1));
}

#[test]
fn an_agent_that_answers_nonsense_is_refused() {
    let replies: [(&[u8], &str); 6] = [
        (b"\xff{\"return\": 1}\n", "no reply from the guest's agent within 0.2 s"),
        (b"\xff{\"error\": {\"desc\": \"disabled\"}}\n", "the agent refused: disabled"),
        (b"\xff{}\n", "the agent's reply has neither \"return\" nor \"error\""),
        (b"\xffx\n", "the agent's reply is not JSON: expected value at line 1 column 1"),
        (&[0xff; 2 * MAX_REPLY_BYTES], "the agent's reply is longer than 4096 bytes"),
        (&[b' '; 2 * MAX_REPLY_BYTES], "the agent's replies have no end"),
    ];
    for (reply, expected) in replies {
        let (told, ()) = with(agent, SHORT, move |mut stream| {
            let _ = stream.write_all(reply);
            while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {}
        });
        assert_eq!(told.unwrap_err().to_string(), expected);
    }
}
