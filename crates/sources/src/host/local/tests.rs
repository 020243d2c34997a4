use crate::wire::hosttime::{FrameLeap, FrameScale, HostClock, ROUNDS, Reason, TimeAnswer};

use super::*;
use crate::SourceError;
use crate::host::{HostChannel, HostSource};
use crate::source::now;

const NOW: ClockPair =
    ClockPair { monotonic_ns: 90_000_000_000, realtime_ns: 1_795_000_000_000_000_000 };

/// Read last half a second ago, and the clock was not set.
const STEADY: (ClockPair, ClockPair) = (earlier(500_000_000, 0), NOW);

/// The moment so long before now, when the clock was ahead of where it would
/// have been by the clock as it is now.
const fn earlier(by_ns: u64, ahead_ns: i64) -> ClockPair {
    ClockPair {
        monotonic_ns: NOW.monotonic_ns - by_ns,
        realtime_ns: (NOW.realtime_ns - by_ns).wrapping_add_signed(ahead_ns),
    }
}

fn datagram(text: &str, uid: u32, age_ns: i64) -> HostDatagram {
    let sent_ns = NOW.realtime_ns.checked_add_signed(-age_ns);
    HostDatagram { bytes: text.as_bytes().to_vec(), from: None, uid: Some(uid), sent_ns }
}

/// The message of a datagram that user `ours` received.
fn accept(
    datagram: &HostDatagram,
    ours: u32,
    around: (ClockPair, ClockPair),
) -> Result<Accepted, Rejected> {
    may_send(datagram, ours).and_then(|()| super::accept(datagram, around))
}

fn bind(path: &Path) -> io::Result<HostSource> {
    HostSource::open(&[HostChannel::Socket(path.to_owned())]).map_err(|(_, why)| why)
}

#[test]
fn a_time_means_the_moment_it_was_sent() {
    let text = "time 1795000002.5 +- 0.001";
    let word = accept(&datagram(text, 0, 300_000_000), 1000, STEADY).unwrap();
    // 2.5 s ahead of now, and that was 0.3 s ago.
    let expected = OffsetBound {
        offset_ns: 2_800_000_000,
        bound_ns: 1_000_000,
        at_monotonic_ns: NOW.monotonic_ns - 300_000_000,
    };
    assert_eq!(word, Accepted::Time(expected));
    // This process's own user is accepted as root is.
    assert_eq!(accept(&datagram("resumed", 1000, 0), 1000, STEADY), Ok(Accepted::Resumed));
}

#[test]
fn strangers_and_stale_messages_are_rejected() {
    let stranger = accept(&datagram("resumed", 1001, 0), 1000, STEADY);
    assert_eq!(stranger, Err(Rejected::Sender { uid: 1001, ours: 1000 }));
    let unsigned = HostDatagram { uid: None, ..datagram("resumed", 0, 0) };
    assert!(matches!(accept(&unsigned, 1000, STEADY), Err(Rejected::Sender { .. })));
    for age_ns in [1_000_000_001, -1] {
        let stale = accept(&datagram("time 1795000002", 0, age_ns), 0, STEADY);
        assert_eq!(stale, Err(Rejected::Stale { age_ns: age_ns.into() }));
    }
    let undated = HostDatagram { sent_ns: None, ..datagram("time 1795000002", 0, 0) };
    assert!(matches!(accept(&undated, 0, STEADY), Err(Rejected::Stale { .. })));
    // That it was stopped stays true.
    assert_eq!(accept(&datagram("resumed", 0, 5_000_000_000), 0, STEADY), Ok(Accepted::Resumed));
    let babble = accept(&datagram("what time is it?", 0, 0), 0, STEADY).unwrap_err();
    assert!(matches!(babble, Rejected::Malformed(_)), "{babble}");
}

#[test]
fn a_message_from_before_the_clock_was_set_is_not_used_twice() {
    // Sent 0.3 s ago, by a clock that was 0.2 s behind until 0.1 s ago, and
    // then was set by this message: by it the clock is right now, or 0.2 s behind
    // once more.
    let since = |by_ns, ahead_ns| (earlier(by_ns, ahead_ns), NOW);
    let offset = |text: &str, age_ns, around| match accept(&datagram(text, 0, age_ns), 0, around) {
        Ok(Accepted::Time(offset)) => (offset.offset_ns, offset.bound_ns),
        other => panic!("{other:?}"),
    };
    let right_then = "time 1794999999.7 +- 0";
    let set = since(500_000_000, -200_000_000);
    // By the clock as it is its stamp is 0.5 s old.
    assert_eq!(offset(right_then, 500_000_000, set), (200_000_000, 200_000_000));
    // Had it been sent a moment ago, the old clock would have been at another
    // time: it is from after.
    assert_eq!(offset("time 1795000000.1 +- 0", 1_000_000, set), (101_000_000, 0));
    // After an hour's sleep, as after any step that is longer than we slept.
    let slept = since(500_000_000, -3_600_000_000_000);
    assert_eq!(offset("time 1795000000 +- 0", 1_000_000, slept), (1_000_000, 0));
    let set_back = since(500_000_000, 3_600_000_000_000);
    assert_eq!(offset("time 1795000000 +- 0", 1_000_000, set_back), (1_000_000, 0));
}

#[test]
fn messages_are_received() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let mut host = bind(&path).unwrap();
    let no_message = SourceError::NoMessage { path: path.display().to_string(), last_age_ms: None };
    assert_eq!(host.offset(), Err(no_message));
    assert!(!host.take_resumed());

    let agent = UnixDatagram::unbound().unwrap();
    let send = |text: &[u8]| agent.send_to(text, &path).unwrap();
    send(b"resumed\n");
    send(b"nonsense");
    send(&[b'x'; 4000]);
    host.receive_all().unwrap();
    let hours = |it: u64| std::time::Instant::now() + std::time::Duration::from_secs(it * 3600);
    assert!(!host.gives_notice(hours(0)));
    assert!(host.take_resumed() && !host.take_resumed());
    // A nightly pause is told before the last notice is too old.
    assert_eq!([0, 24, 26].map(|age| host.gives_notice(hours(age))), [true, true, false]);
    let rejected = host.take_rejected().unwrap().to_string();
    assert!(rejected.starts_with("expected at most 128 bytes"), "{rejected}");
    assert_eq!(host.take_rejected(), None);

    // A machine that stalls here for a second makes it stale: once more then.
    let (stated_ns, before, sent, offset) = std::iter::repeat_with(|| {
        let before = now().unwrap();
        let stated_ns = before.realtime_ns + 5_000_000_000;
        let (s, ns) = (stated_ns / 1_000_000_000, stated_ns % 1_000_000_000);
        send(format!("time {s}.{ns:09} +- 0").as_bytes());
        (stated_ns, before, now().unwrap(), host.offset())
    })
    .take(10)
    .find_map(|(stated_ns, before, sent, offset)| Some((stated_ns, before, sent, offset.ok()?)))
    .unwrap();
    // Exact but for when between the two it was sent.
    let low = stated_ns as i64 - sent.realtime_ns as i64;
    let high = stated_ns as i64 - before.realtime_ns as i64;
    assert!((low..=high).contains(&offset.offset_ns), "{offset:?} {low} {high}");
    // It is used once.
    let again = host.offset().unwrap_err();
    assert!(matches!(again, SourceError::NoMessage { last_age_ms: Some(_), .. }), "{again}");
    drop(host);
    assert!(!path.exists());
}

#[test]
fn a_leftover_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    drop(UnixDatagram::bind(&path).unwrap());
    let host = bind(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = LocalSocket::bind(&path).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    drop(host);
    std::fs::write(&path, "a letter").unwrap();
    assert!(LocalSocket::bind(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
}

#[test]
fn the_documents_examples_parse() {
    let document = include_str!("../../../../../docs/protocols/host-socket.md");
    let (_, rest) = document.split_once("```text\n").unwrap();
    let (examples, _) = rest.split_once("```").unwrap();
    assert_eq!(examples.lines().count(), 3);
    for line in examples.lines() {
        assert!(HostMessage::parse(line.as_bytes()).is_ok(), "{line}");
    }
}

const UTC: HostClock = HostClock {
    bound_ns: Some(1_000),
    scale: FrameScale::Utc,
    leap: FrameLeap::None,
    is_smeared: false,
    tai_offset_s: None,
};

/// An agent that has notified, and answers what it is asked: five seconds more
/// than a clock that is surely set.
fn answer(agent: &UnixDatagram, at_ns: u64) -> bool {
    let mut bytes = [0; FRAME_BYTES];
    let Ok(FRAME_BYTES) = agent.recv(&mut bytes) else { return false };
    let HostTimeFrame::Request { nonce, sent_ns } = HostTimeFrame::parse(&bytes).unwrap() else {
        panic!()
    };
    let request = (nonce, sent_ns);
    let answer =
        HostTimeFrame::Answer(TimeAnswer::new(request, Reason::Restored, (at_ns, at_ns), UTC));
    agent.send(&answer.encode()).unwrap();
    true
}

#[test]
fn an_agent_that_is_asked_gives_a_time_with_the_bound_of_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let (path, own) = (folder.path().join("host.sock"), folder.path().join("agent.sock"));
    let mut host = bind(&path).unwrap();
    let agent = UnixDatagram::bind(&own).unwrap();
    agent.connect(&path).unwrap();
    agent.set_nonblocking(true).unwrap();
    agent.send(&HostTimeFrame::Notice(Reason::Restored).encode()).unwrap();
    let mut offset = host.offset();
    assert!(host.take_resumed());
    let mut answered = 0;
    let now_ns = || linux::clock::LinuxClock::Monotonic.read_ns().unwrap();
    while offset.is_err() {
        answered += u32::from(answer(&agent, crate::wire::hosttime::EARLIEST_NS + now_ns()));
        assert!(answered <= ROUNDS);
        offset = host.offset();
    }
    let (offset, pair) = (offset.unwrap(), now().unwrap());
    let truth = i128::from(crate::wire::hosttime::EARLIEST_NS + pair.monotonic_ns)
        - i128::from(pair.realtime_ns);
    let wrong_ns = (i128::from(offset.offset_ns) - truth).unsigned_abs();
    // The two clocks of `pair` were read one after the other.
    assert!(wrong_ns <= u128::from(offset.bound_ns) + 1_000_000, "{wrong_ns} {offset:?}");
    assert_eq!(answered, ROUNDS);
    // It came once; and a replay is nothing.
    let replay = HostTimeFrame::Answer(TimeAnswer::new((1, 2), Reason::Restored, (3, 3), UTC));
    agent.send(&replay.encode()).unwrap();
    assert!(host.offset().is_err());
    let why = host.take_rejected().unwrap();
    assert!(
        matches!(why, Rejected::Exchange(crate::wire::hosttime::Refused::NotAsked { .. })),
        "{why}"
    );
}

#[test]
fn frames_that_cannot_be_answered_are_rejected_once_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let mut host = bind(&path).unwrap();
    let agent = UnixDatagram::unbound().unwrap();
    agent.send_to(&HostTimeFrame::Notice(Reason::Restored).encode(), &path).unwrap();
    host.receive_all().unwrap();
    assert_eq!((host.take_rejected(), host.take_resumed()), (Some(Rejected::NoAddress), false));
    agent.send_to(b"PCHT is the magic number", &path).unwrap();
    host.receive_all().unwrap();
    // Not so soon.
    assert_eq!(host.take_rejected(), None);
}
