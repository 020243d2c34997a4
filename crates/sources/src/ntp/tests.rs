use std::net::UdpSocket;
use std::thread::JoinHandle;

use super::*;

/// 1970 in NTP's seconds.
const UNIX_EPOCH_S: u64 = 2_208_988_800;

/// A server on loopback for `answers` requests, so many seconds ahead of this
/// machine, and how it changes each of its answers.
fn server(
    answers: u32,
    ahead_s: u64,
    change: impl Fn(u32, &mut [u8; 48]) + Send + 'static,
) -> (NtpSource, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        for number in 0..answers {
            let mut request = [0; 48];
            let (_, from) = socket.recv_from(&mut request).unwrap();
            let now_ns = u128::from(now().unwrap().realtime_ns);
            let seconds = now_ns / 1_000_000_000 + u128::from(ahead_s + UNIX_EPOCH_S);
            let fraction = ((now_ns % 1_000_000_000) << 32) / 1_000_000_000;
            let now = ((seconds << 32 | fraction) as u64).to_be_bytes();
            let mut packet = [0; 48];
            packet[..4].copy_from_slice(&[0x24, 2, 6, 0xec]);
            packet[24..32].copy_from_slice(&request[40..48]);
            packet[32..40].copy_from_slice(&now);
            packet[40..48].copy_from_slice(&now);
            change(number, &mut packet);
            socket.send_to(&packet, from).unwrap();
        }
    });
    (NtpSource::named(&name, Duration::from_secs(10)), thread)
}

#[test]
fn a_servers_time_is_compared() {
    let (mut source, thread) = server(1, 40, |_, _| ());
    let offset = source.offset().unwrap();
    thread.join().unwrap();
    assert!(offset.offset_ns.abs_diff(40_000_000_000) <= offset.bound_ns, "{offset:?}");
}

#[test]
fn servers_are_queried_at_the_same_time() {
    // The first replies once the second was queried.
    let (queried, is_queried) = std::sync::mpsc::channel();
    let (mut first, one) = server(1, 40, move |_, _| is_queried.recv().unwrap());
    let (mut second, other) = server(1, 50, move |_, _| queried.send(()).unwrap());
    let offsets = NtpSource::offset_all(&mut [&mut first, &mut second]);
    one.join().unwrap();
    other.join().unwrap();
    for (offset, ahead_s) in offsets.into_iter().zip([40u64, 50]) {
        let offset = offset.unwrap();
        assert!(offset.offset_ns.abs_diff(ahead_s as i64 * 1_000_000_000) <= offset.bound_ns);
    }
}

#[test]
fn each_has_its_own_result_whatever_that_of_the_others() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let mut silent_one = NtpSource::named(&name, Duration::from_millis(100));
    let mut unknown = NtpSource::resolved_by(hangs, "time.example", Duration::from_secs(1000));
    let (mut answers, thread) = server(1, 40, |_, _| ());
    let offsets = NtpSource::offset_all(&mut [&mut silent_one, &mut unknown, &mut answers]);
    thread.join().unwrap();
    let [silent_one, unknown, answers] = &offsets[..] else { panic!("{offsets:?}") };
    assert!(matches!(silent_one, Err(SourceError::Ntp(NtpError::Timeout { .. }))), "{offsets:?}");
    assert!(matches!(unknown, Err(SourceError::Ntp(NtpError::NoAddress { .. }))), "{offsets:?}");
    assert!(answers.is_ok(), "{offsets:?}");
    assert!(NtpSource::offset_all(&mut []).is_empty());
}

#[test]
fn a_servers_own_distance_is_in_the_bound() {
    // Half of 1 s of root delay, and 0.25 s of dispersion.
    let far = |_: u32, packet: &mut [u8; 48]| {
        packet[4..8].copy_from_slice(&0x1_0000u32.to_be_bytes());
        packet[8..12].copy_from_slice(&0x4000u32.to_be_bytes());
    };
    let (mut source, thread) = server(1, 0, far);
    let offset = source.offset().unwrap();
    thread.join().unwrap();
    assert!(offset.bound_ns >= 750_000_000, "{offset:?}");
    assert!(offset.offset_ns.unsigned_abs() <= offset.bound_ns - 750_000_000, "{offset:?}");
}

/// Replies with a kiss-o'-death from its first request on.
fn kiss(code: [u8; 4]) -> impl Fn(u32, &mut [u8; 48]) + Send + 'static {
    move |_, packet| {
        packet[1] = 0;
        packet[12..16].copy_from_slice(&code);
    }
}

#[test]
fn a_server_that_replies_stop_or_slower_is_not_queried() {
    for code in [*b"DENY", *b"RSTR", *b"RATE"] {
        let (mut source, thread) = server(1, 0, kiss(code));
        let kiss = source.offset().unwrap_err();
        thread.join().unwrap();
        assert!(matches!(kiss, SourceError::Ntp(NtpError::Kiss { .. })), "{kiss}");
        // By now nothing listens there: a query would fail by that.
        for _ in 0..2 * FAILURES {
            assert_eq!(source.offset(), Err(kiss.clone()));
        }
    }
}

#[test]
fn a_server_with_any_other_kiss_is_queried_again() {
    let (mut source, thread) = server(2, 0, |number, packet| {
        if number == 0 {
            kiss(*b"INIT")(number, packet);
        }
    });
    assert!(source.offset().is_err());
    let offset = source.offset();
    thread.join().unwrap();
    assert!(offset.is_ok(), "{offset:?}");
}

#[test]
fn a_name_that_leaves_a_server_is_followed_and_one_that_stays_is_not_queried() {
    // Each lookup begins a server that replies once.
    fn finds(name: &str, timeout: Duration) -> Result<NtpPeer, NtpError> {
        static STAYS: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let begin = || server(1, 0, kiss(*b"DENY")).0.name().to_owned();
        match name {
            "stays.example" => NtpPeer::find(STAYS.get_or_init(begin), timeout),
            _ => NtpPeer::find(&begin(), timeout),
        }
    }
    let timeout = Duration::from_secs(10);
    let mut stays = NtpSource::resolved_by(finds, "stays.example", timeout);
    let mut moves = NtpSource::resolved_by(finds, "moves.example", timeout);
    let kiss = |source: &mut NtpSource| source.offset().unwrap_err().to_string();
    let (first_stays, first_moves) = (kiss(&mut stays), kiss(&mut moves));
    // The resolver's answer may be some questions late.
    let is_followed = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(kiss(&mut stays), first_stays);
        kiss(&mut moves) != first_moves
    });
    assert!(is_followed);
}

/// A resolver of which no answer comes.
fn hangs(_: &str, _: Duration) -> Result<NtpPeer, NtpError> {
    loop {
        std::thread::park();
    }
}

#[test]
fn a_resolver_that_hangs_is_not_waited_for() {
    let mut source = NtpSource::resolved_by(hangs, "time.example", Duration::from_millis(1));
    for _ in 0..2 {
        let error = source.offset().unwrap_err().to_string();
        let expected = "time.example: no address found: the resolver has not replied yet";
        assert_eq!(error, expected);
    }
}

/// A resolver that says where it may run.
fn where_it_runs(name: &str, _: Duration) -> Result<NtpPeer, NtpError> {
    let error = format!("{:?}", linux::cpus::allowed());
    Err(NtpError::NoAddress { name: name.to_owned(), error })
}

/// The thread that samples clocks is bound to a CPU.
#[test]
fn the_resolver_does_not_wait_for_the_samplers_cpu() {
    let all = linux::cpus::allowed().unwrap();
    let _pinned = linux::cpus::pin(all[0]).unwrap();
    let mut source = NtpSource::resolved_by(where_it_runs, "time.example", Duration::from_secs(60));
    let error = source.offset().unwrap_err().to_string();
    let free: Result<_, linux::cpus::PinError> = Ok(all);
    assert_eq!(error, format!("time.example: no address found: {free:?}"));
}

/// A resolver that says no, and not at once.
fn fails(name: &str, _: Duration) -> Result<NtpPeer, NtpError> {
    std::thread::sleep(Duration::from_millis(5));
    let error = "Name or service not known".to_owned();
    Err(NtpError::NoAddress { name: name.to_owned(), error })
}

#[test]
fn the_resolvers_error_comes_with_another_servers_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let mut found = NtpSource::named(&name, Duration::from_millis(1));
    let mut unknown = NtpSource::resolved_by(fails, "time.example", Duration::from_secs(10));
    let has_error = (0..100).any(|_| {
        let offsets = NtpSource::offset_all(&mut [&mut found, &mut unknown]);
        std::thread::sleep(Duration::from_millis(10));
        offsets[1].as_ref().unwrap_err().to_string().ends_with("Name or service not known")
    });
    assert!(has_error);
}

/// A resolver that takes a while to find a server on loopback of that port.
fn finds_late(name: &str, timeout: Duration) -> Result<NtpPeer, NtpError> {
    std::thread::sleep(Duration::from_millis(100));
    let (_, port) = name.split_once(':').unwrap();
    NtpPeer::find(&format!("127.0.0.1:{port}"), timeout)
}

#[test]
fn the_resolver_and_the_server_share_one_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("time.example:{}", silent.local_addr().unwrap().port());
    let read = || NtpSource::resolved_by(finds_late, &name, Duration::from_secs(1)).offset();
    // The resolver's thread may be late too.
    let errors = (0..10).map(|_| read().unwrap_err());
    let mut waited = errors.filter_map(|error| match error {
        SourceError::Ntp(NtpError::Timeout { timeout_ms, .. }) => Some(timeout_ms),
        _ => None,
    });
    let waited_ms = waited.next();
    assert!(waited_ms.is_some_and(|ms| (100..=900).contains(&ms)), "{waited_ms:?}");
}

/// A resolver that finds a server which answers once, each time another.
fn finds_another(_: &str, timeout: Duration) -> Result<NtpPeer, NtpError> {
    let (source, _) = server(1, 40, |_, _| ());
    NtpPeer::find(source.name(), timeout)
}

#[test]
fn a_server_that_has_moved_is_looked_up_again() {
    let mut source = NtpSource::resolved_by(finds_another, "time.example", Duration::from_secs(10));
    assert!(source.offset().is_ok());
    // By now nothing listens there. The resolver's answer may be some
    // questions late.
    let failed = (0..1000).take_while(|_| {
        std::thread::sleep(Duration::from_millis(10));
        source.offset().is_err()
    });
    let failed = failed.count() as u32;
    assert!((FAILURES..1000).contains(&failed), "{failed}");
}

#[test]
fn a_kiss_holds_as_long_as_its_code_demands() {
    let kiss =
        |code: &str| Kiss::from_reply(&NtpError::Kiss { name: "a".into(), code: code.into() });
    let begun = Instant::now();
    for code in ["DENY", "RSTR"] {
        assert!(kiss(code).unwrap().holds(begun + Duration::from_secs(1_000_000)).is_some());
    }
    let slower = kiss("RATE").unwrap();
    assert!(slower.holds(begun + Duration::from_secs(63)).is_some());
    assert!(slower.holds(Instant::now() + Duration::from_secs(64)).is_none());
    assert!(kiss("INIT").is_none());
    assert!(Kiss::from_reply(&NtpError::NotSynchronised { name: "a".into() }).is_none());
}
