use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::wire::hosttime::{
    EARLIEST_NS, FrameLeap, FrameScale, HostClock, HostTimeFrame, MIN_INTERVAL_NS, ROUNDS, Reason,
    Refused, TimeAnswer,
};
use linux::clock::LinuxClock;
use proptest::prelude::*;

use super::*;

const UTC: HostClock = HostClock {
    bound_ns: Some(1_000),
    scale: FrameScale::Utc,
    leap: FrameLeap::None,
    is_smeared: false,
    tai_offset_s: None,
};

/// The guest's end, what it was told, and the host's end.
fn pair() -> (HostStream, ReportedTime, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    for end in [&ours, &theirs] {
        end.set_nonblocking(true).unwrap();
    }
    (HostStream::new(ours.into()), ReportedTime::default(), theirs)
}

fn host_ns() -> u64 {
    EARLIEST_NS + LinuxClock::Monotonic.read_ns().unwrap()
}

/// The answer to the request that waits, if one does.
fn answer(host: &mut UnixStream) -> Option<[u8; FRAME_BYTES]> {
    let mut bytes = [0; FRAME_BYTES];
    host.read_exact(&mut bytes).ok()?;
    let HostTimeFrame::Request { nonce, sent_ns } = HostTimeFrame::parse(&bytes).unwrap() else {
        panic!()
    };
    let times = (host_ns(), host_ns());
    Some(
        HostTimeFrame::Answer(TimeAnswer::new((nonce, sent_ns), Reason::Restored, times, UTC))
            .encode(),
    )
}

#[test]
fn an_exchange_gives_the_hosts_time_however_its_bytes_are_cut() {
    let (mut stream, mut told, mut host) = pair();
    host.write_all(&HostTimeFrame::Notice(Reason::Restored).encode()).unwrap();
    assert_eq!(stream.receive(&mut told).unwrap(), Left::Open);
    assert!(told.resumed);
    for round in 0..ROUNDS as usize {
        let bytes = answer(&mut host).expect("it asks");
        let (first, rest) = bytes.split_at(round * 18 + 1);
        host.write_all(first).unwrap();
        assert_eq!(stream.receive(&mut told).unwrap(), Left::Open);
        assert_eq!(told.offset, None);
        host.write_all(rest).unwrap();
        assert_eq!(stream.receive(&mut told).unwrap(), Left::Open);
    }
    assert_eq!(answer(&mut host), None);
    let offset = told.offset.unwrap();
    let pair = linux::clock::pair().unwrap();
    let truth = i128::from(EARLIEST_NS + pair.monotonic_ns) - i128::from(pair.realtime_ns);
    let wrong_ns = (i128::from(offset.offset_ns) - truth).unsigned_abs();
    assert!(wrong_ns <= u128::from(offset.bound_ns) + 1_000_000, "{wrong_ns} {offset:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What a host sends means the same in whatever pieces it is read.
    #[test]
    fn what_it_was_told_does_not_depend_on_the_pieces(
        notices in 0..4_usize,
        rest in prop::collection::vec(any::<u8>(), 0..2 * FRAME_BYTES),
        lengths in prop::collection::vec(1..2 * FRAME_BYTES, 1..8),
    ) {
        let mut sent = HostTimeFrame::Notice(Reason::Restored).encode().repeat(notices);
        sent.extend_from_slice(&rest);
        let in_pieces_of = |lengths: &[usize]| {
            let (mut stream, mut told, mut host) = pair();
            let mut lengths = lengths.iter().cycle();
            let mut sent = &sent[..];
            let mut left = Left::Open;
            while !sent.is_empty() && left == Left::Open {
                let (piece, later) = sent.split_at(sent.len().min(*lengths.next().unwrap()));
                host.write_all(piece).unwrap();
                left = stream.receive(&mut told).unwrap();
                sent = later;
            }
            let is_frame = told.take_rejected(0).is_none();
            (left, told.resumed, is_frame)
        };
        let whole = in_pieces_of(&[usize::MAX]);
        prop_assert_eq!(in_pieces_of(&lengths), whole);
        prop_assert_eq!(in_pieces_of(&[1]), whole);
        prop_assert_eq!(whole.1, notices > 0);
    }
}

#[test]
fn a_host_that_dies_while_it_answers_or_answers_nonsense_tells_nothing() {
    for (sent, left) in [(&b"PCHT\x01\x03"[..], Left::Ended), (b"GET / HTTP/1.1", Left::Broken)] {
        let (mut stream, mut told, mut host) = pair();
        host.write_all(&HostTimeFrame::Notice(Reason::Periodic).encode()).unwrap();
        stream.receive(&mut told).unwrap();
        host.write_all(sent).unwrap();
        drop(host);
        assert_eq!(stream.receive(&mut told).unwrap(), left);
        assert_eq!((told.offset, told.resumed), (None, false));
    }
}

#[test]
fn a_host_that_does_not_read_is_left() {
    let (mut stream, mut told, mut host) = pair();
    let full = [0; 4096];
    while rustix::io::write(&stream, &full).is_ok() {}
    host.write_all(&HostTimeFrame::Notice(Reason::Periodic).encode()).unwrap();
    assert_eq!(stream.receive(&mut told).unwrap(), Left::Broken);
    assert!(matches!(told.take_rejected(0), Some(Rejected::NotAsked { .. })));
}

#[test]
fn a_flood_is_read_in_parts_and_a_hang_is_given_up() {
    let (mut stream, mut told, mut host) = pair();
    let notice = HostTimeFrame::Notice(Reason::Resumed).encode();
    let mut sent = 0;
    while sent < 200 && host.write_all(&notice).is_ok() {
        sent += 1;
    }
    assert!(sent > 2 * MOST_AT_ONCE, "{sent}");
    for _ in 0..4 {
        assert_eq!(stream.receive(&mut told).unwrap(), Left::Open);
    }
    assert!(answer(&mut host).is_some() && answer(&mut host).is_none());
    std::thread::sleep(std::time::Duration::from_nanos(
        crate::wire::hosttime::TIMEOUT_NS + MIN_INTERVAL_NS,
    ));
    assert_eq!(stream.receive(&mut told).unwrap(), Left::Open);
    let why = told.take_rejected(0);
    assert!(matches!(why, Some(Rejected::Exchange(Refused::NoAnswer { .. }))), "{why:?}");
    assert_eq!(told.offset, None);
}
