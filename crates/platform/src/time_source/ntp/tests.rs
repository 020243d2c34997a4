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
) -> (NtpTime, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        for number in 0..answers {
            let mut request = [0; 48];
            let (_, from) = socket.recv_from(&mut request).unwrap();
            let now_ns = u128::from(Moment::now().unwrap().realtime_ns);
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
    (NtpTime::named(&name, Duration::from_secs(10)), thread)
}

#[test]
fn a_servers_time_is_compared() {
    let (mut source, thread) = server(1, 40, |_, _| ());
    let offset = source.compare().unwrap();
    thread.join().unwrap();
    assert!(offset.offset_ns.abs_diff(40_000_000_000) <= offset.bound_ns, "{offset:?}");
}

#[test]
fn servers_are_asked_at_the_same_time() {
    // The first answers once the second was asked.
    let (asked, is_asked) = std::sync::mpsc::channel();
    let (mut first, one) = server(1, 40, move |_, _| is_asked.recv().unwrap());
    let (mut second, other) = server(1, 50, move |_, _| asked.send(()).unwrap());
    let told = NtpTime::compare_all(&mut [&mut first, &mut second]);
    one.join().unwrap();
    other.join().unwrap();
    for (told, ahead_s) in told.into_iter().zip([40u64, 50]) {
        let told = told.unwrap();
        assert!(told.offset_ns.abs_diff(ahead_s as i64 * 1_000_000_000) <= told.bound_ns);
    }
}

#[test]
fn each_is_told_by_itself_whatever_becomes_of_the_others() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let mut silent_one = NtpTime::named(&name, Duration::from_millis(100));
    let mut unknown = NtpTime::found_by(hangs, "time.example", Duration::from_secs(1000));
    let (mut answers, thread) = server(1, 40, |_, _| ());
    let told = NtpTime::compare_all(&mut [&mut silent_one, &mut unknown, &mut answers]);
    thread.join().unwrap();
    let [silent_one, unknown, answers] = &told[..] else { panic!("{told:?}") };
    assert!(matches!(silent_one, Err(NoOffset::Ntp(NtpError::NoAnswer { .. }))), "{told:?}");
    assert!(matches!(unknown, Err(NoOffset::Ntp(NtpError::NoAddress { .. }))), "{told:?}");
    assert!(answers.is_ok(), "{told:?}");
    assert!(NtpTime::compare_all(&mut []).is_empty());
}

#[test]
fn a_servers_own_distance_is_in_the_bound() {
    // Half of 1 s of root delay, and 0.25 s of dispersion.
    let far = |_: u32, packet: &mut [u8; 48]| {
        packet[4..8].copy_from_slice(&0x1_0000u32.to_be_bytes());
        packet[8..12].copy_from_slice(&0x4000u32.to_be_bytes());
    };
    let (mut source, thread) = server(1, 0, far);
    let offset = source.compare().unwrap();
    thread.join().unwrap();
    assert!(offset.bound_ns >= 750_000_000, "{offset:?}");
    assert!(offset.offset_ns.unsigned_abs() <= offset.bound_ns - 750_000_000, "{offset:?}");
}

/// Answers with a kiss-o'-death from its first request on.
fn kiss(code: [u8; 4]) -> impl Fn(u32, &mut [u8; 48]) + Send + 'static {
    move |_, packet| {
        packet[1] = 0;
        packet[12..16].copy_from_slice(&code);
    }
}

#[test]
fn a_server_that_says_leave_or_slower_is_left_alone() {
    for code in [*b"DENY", *b"RSTR", *b"RATE"] {
        let (mut source, thread) = server(1, 0, kiss(code));
        let said = source.compare().unwrap_err();
        thread.join().unwrap();
        assert!(matches!(said, NoOffset::Ntp(NtpError::Kiss { .. })), "{said}");
        // By now nothing listens there: whoever asked would be told so.
        for _ in 0..2 * FAILURES {
            assert_eq!(source.compare(), Err(said.clone()));
        }
    }
}

#[test]
fn a_server_that_says_anything_else_is_asked_again() {
    let (mut source, thread) = server(2, 0, |number, packet| {
        if number == 0 {
            kiss(*b"INIT")(number, packet);
        }
    });
    assert!(source.compare().is_err());
    let told = source.compare();
    thread.join().unwrap();
    assert!(told.is_ok(), "{told:?}");
}

#[test]
fn a_name_that_leaves_a_server_is_followed_and_one_that_stays_is_not_asked() {
    // Each question of the resolver begins a server that answers once.
    fn finds(name: &str, patience: Duration) -> Result<NtpServer, NtpError> {
        static STAYS: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let begin = || server(1, 0, kiss(*b"DENY")).0.name().to_owned();
        match name {
            "stays.example" => NtpServer::find(STAYS.get_or_init(begin), patience),
            _ => NtpServer::find(&begin(), patience),
        }
    }
    let patience = Duration::from_secs(10);
    let mut stays = NtpTime::found_by(finds, "stays.example", patience);
    let mut moves = NtpTime::found_by(finds, "moves.example", patience);
    let said = |source: &mut NtpTime| source.compare().unwrap_err().to_string();
    let (first_stays, first_moves) = (said(&mut stays), said(&mut moves));
    // The resolver's answer may be some questions late.
    let is_followed = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(said(&mut stays), first_stays);
        said(&mut moves) != first_moves
    });
    assert!(is_followed);
}

/// A resolver of which no answer comes.
fn hangs(_: &str, _: Duration) -> Result<NtpServer, NtpError> {
    loop {
        std::thread::park();
    }
}

#[test]
fn a_resolver_that_hangs_is_not_waited_for() {
    let mut source = NtpTime::found_by(hangs, "time.example", Duration::from_millis(1));
    for _ in 0..2 {
        let error = source.compare().unwrap_err().to_string();
        let expected = "time.example: no address found: the resolver has not answered yet";
        assert_eq!(error, expected);
    }
}

/// A resolver that says no, and not at once.
fn fails(name: &str, _: Duration) -> Result<NtpServer, NtpError> {
    std::thread::sleep(Duration::from_millis(5));
    let error = "Name or service not known".to_owned();
    Err(NtpError::NoAddress { name: name.to_owned(), error })
}

#[test]
fn what_the_resolver_said_meanwhile_is_told_beside_a_server_that_is_found() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let mut found = NtpTime::named(&name, Duration::from_millis(1));
    let mut unknown = NtpTime::found_by(fails, "time.example", Duration::from_secs(10));
    let is_told = (0..100).any(|_| {
        let told = NtpTime::compare_all(&mut [&mut found, &mut unknown]);
        std::thread::sleep(Duration::from_millis(10));
        told[1].as_ref().unwrap_err().to_string().ends_with("Name or service not known")
    });
    assert!(is_told);
}

/// A resolver that takes a while to find a server on loopback of that port.
fn finds_late(name: &str, patience: Duration) -> Result<NtpServer, NtpError> {
    std::thread::sleep(Duration::from_millis(100));
    let (_, port) = name.split_once(':').unwrap();
    NtpServer::find(&format!("127.0.0.1:{port}"), patience)
}

#[test]
fn the_resolver_and_the_server_share_one_patience() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("time.example:{}", silent.local_addr().unwrap().port());
    let ask = || NtpTime::found_by(finds_late, &name, Duration::from_secs(1)).compare();
    // The resolver's thread may be late too.
    let told = (0..10).map(|_| ask().unwrap_err());
    let mut waited = told.filter_map(|error| match error {
        NoOffset::Ntp(NtpError::NoAnswer { patience_ms, .. }) => Some(patience_ms),
        _ => None,
    });
    let waited_ms = waited.next();
    assert!(waited_ms.is_some_and(|ms| (100..=900).contains(&ms)), "{waited_ms:?}");
}

/// A resolver that finds a server which answers once, each time another.
fn finds_another(_: &str, patience: Duration) -> Result<NtpServer, NtpError> {
    let (source, _) = server(1, 40, |_, _| ());
    NtpServer::find(source.name(), patience)
}

#[test]
fn a_server_that_has_moved_is_looked_up_again() {
    let mut source = NtpTime::found_by(finds_another, "time.example", Duration::from_secs(10));
    assert!(source.compare().is_ok());
    // By now nothing listens there. The resolver's answer may be some
    // questions late.
    let failed = (0..1000).take_while(|_| {
        std::thread::sleep(Duration::from_millis(10));
        source.compare().is_err()
    });
    let failed = failed.count() as u32;
    assert!((FAILURES..1000).contains(&failed), "{failed}");
}
