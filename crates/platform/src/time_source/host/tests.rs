use super::*;

const NOW: Moment = Moment { monotonic_ns: 90_000_000_000, realtime_ns: 1_795_000_000_000_000_000 };

/// Read last half a second ago, and nobody has set the clock.
const STEADY: (Moment, Moment) = (earlier(500_000_000, 0), NOW);

/// The moment so long before now, when the clock was ahead of where it would
/// have been by now's reckoning.
const fn earlier(by_ns: u64, ahead_ns: i64) -> Moment {
    Moment {
        monotonic_ns: NOW.monotonic_ns - by_ns,
        realtime_ns: (NOW.realtime_ns - by_ns).wrapping_add_signed(ahead_ns),
    }
}

fn datagram(text: &str, uid: u32, age_ns: i64) -> Datagram {
    let sent_ns = NOW.realtime_ns.checked_add_signed(-age_ns);
    Datagram { bytes: text.as_bytes().to_vec(), uid: Some(uid), sent_ns }
}

#[test]
fn a_time_means_the_moment_it_was_sent() {
    let text = "time 1795000002.5 +- 0.001";
    let word = judge(&datagram(text, 0, 300_000_000), 1000, STEADY).unwrap();
    // 2.5 s ahead of now, and that was 0.3 s ago.
    let expected = Offset {
        offset_ns: 2_800_000_000,
        bound_ns: 1_000_000,
        at_monotonic_ns: NOW.monotonic_ns - 300_000_000,
    };
    assert_eq!(word, Word::Time(expected));
    // The keeper's own user is listened to as root is.
    assert_eq!(judge(&datagram("resumed", 1000, 0), 1000, STEADY), Ok(Word::Resumed));
}

#[test]
fn strangers_and_stale_words_are_not_listened_to() {
    let stranger = judge(&datagram("resumed", 1001, 0), 1000, STEADY);
    assert_eq!(stranger, Err(Refused::Stranger { uid: 1001, ours: 1000 }));
    let unsigned = Datagram { uid: None, ..datagram("resumed", 0, 0) };
    assert!(matches!(judge(&unsigned, 1000, STEADY), Err(Refused::Stranger { .. })));
    for age_ns in [1_000_000_001, -1] {
        let stale = judge(&datagram("time 1795000002", 0, age_ns), 0, STEADY);
        assert_eq!(stale, Err(Refused::Stale { age_ns: age_ns.into() }));
    }
    let undated = Datagram { sent_ns: None, ..datagram("time 1795000002", 0, 0) };
    assert!(matches!(judge(&undated, 0, STEADY), Err(Refused::Stale { .. })));
    // That it was stopped is true later too.
    assert_eq!(judge(&datagram("resumed", 0, 5_000_000_000), 0, STEADY), Ok(Word::Resumed));
    let babble = judge(&datagram("what time is it?", 0, 0), 0, STEADY).unwrap_err();
    assert!(matches!(babble, Refused::Malformed(_)), "{babble}");
}

#[test]
fn a_word_from_before_the_clock_was_set_is_not_used_again() {
    // Sent 0.3 s ago, by a clock that was 0.2 s behind until 0.1 s ago, and
    // then was set by this word: what it says now is that it is right, or 0.2 s
    // behind once more.
    let since = |by_ns, ahead_ns| (earlier(by_ns, ahead_ns), NOW);
    let word = |text: &str, age_ns, around| match judge(&datagram(text, 0, age_ns), 0, around) {
        Ok(Word::Time(offset)) => (offset.offset_ns, offset.bound_ns),
        other => panic!("{other:?}"),
    };
    let right_then = "time 1794999999.7 +- 0";
    let set = since(500_000_000, -200_000_000);
    // By the clock as it stands its stamp is 0.5 s old.
    assert_eq!(word(right_then, 500_000_000, set), (200_000_000, 200_000_000));
    // Had it been sent a moment ago, the old clock would have been at another
    // time: it is from after.
    assert_eq!(word("time 1795000000.1 +- 0", 1_000_000, set), (101_000_000, 0));
    // After an hour's sleep, as after any step that is longer than we slept.
    let slept = since(500_000_000, -3_600_000_000_000);
    assert_eq!(word("time 1795000000 +- 0", 1_000_000, slept), (1_000_000, 0));
    let set_back = since(500_000_000, 3_600_000_000_000);
    assert_eq!(word("time 1795000000 +- 0", 1_000_000, set_back), (1_000_000, 0));
}

#[test]
fn what_is_sent_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let mut host = HostSocket::bind(&path).unwrap();
    let silent = NoOffset::Silent { path: path.display().to_string(), last_age_ms: None };
    assert_eq!(host.compare(), Err(silent));
    assert!(!host.hear().unwrap() && !host.take_resumed());

    let agent = UnixDatagram::unbound().unwrap();
    let say = |text: &[u8]| agent.send_to(text, &path).unwrap();
    say(b"resumed\n");
    say(b"nonsense");
    say(&[b'x'; 4000]);
    assert!(host.hear().unwrap());
    assert!(host.take_resumed() && !host.take_resumed());
    let refused = host.take_refused().unwrap().to_string();
    assert!(refused.starts_with("expected at most 128 bytes"), "{refused}");
    assert_eq!(host.take_refused(), None);

    // A machine that stalls here for a second makes it stale: once more then.
    let (told_ns, before, sent, offset) = std::iter::repeat_with(|| {
        let before = Moment::now().unwrap();
        let told_ns = before.realtime_ns + 5_000_000_000;
        let (s, ns) = (told_ns / 1_000_000_000, told_ns % 1_000_000_000);
        say(format!("time {s}.{ns:09} +- 0").as_bytes());
        (told_ns, before, Moment::now().unwrap(), host.compare())
    })
    .take(10)
    .find_map(|(told_ns, before, sent, offset)| Some((told_ns, before, sent, offset.ok()?)))
    .unwrap();
    // Exact but for when between the two it was sent.
    let low = told_ns as i64 - sent.realtime_ns as i64;
    let high = told_ns as i64 - before.realtime_ns as i64;
    assert!((low..=high).contains(&offset.offset_ns), "{offset:?} {low} {high}");
    // It is handed out once.
    let again = host.compare().unwrap_err();
    assert!(matches!(again, NoOffset::Silent { last_age_ms: Some(_), .. }), "{again}");
    drop(host);
    assert!(!path.exists());
}

#[test]
fn a_leftover_is_taken_over_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    drop(UnixDatagram::bind(&path).unwrap());
    let host = HostSocket::bind(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = HostSocket::bind(&path).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    drop(host);
    std::fs::write(&path, "a letter").unwrap();
    assert!(HostSocket::bind(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
}

#[test]
fn what_the_document_says_is_understood() {
    let document = include_str!("../../../../../docs/protocols/host-socket.md");
    let (_, rest) = document.split_once("```text\n").unwrap();
    let (examples, _) = rest.split_once("```").unwrap();
    assert_eq!(examples.lines().count(), 3);
    for line in examples.lines() {
        assert!(Message::parse(line.as_bytes()).is_ok(), "{line}");
    }
}
