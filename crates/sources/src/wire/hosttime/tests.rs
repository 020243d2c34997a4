use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::wire::hosttime::frame::Reason;

/// What comes of a stream that is read in pieces of these lengths, over and over: its
/// frames, how it ended, and after how many bytes.
fn cut(stream: &[u8], lengths: &[usize]) -> (Vec<HostTimeFrame>, Option<Malformed>, usize) {
    let (mut incoming, mut frames, mut read) = (Incoming::default(), Vec::new(), 0);
    let mut lengths = lengths.iter().cycle();
    while read < stream.len() {
        let space = incoming.space();
        assert!(!space.is_empty());
        let length = (*lengths.next().unwrap()).clamp(1, space.len()).min(stream.len() - read);
        space[..length].copy_from_slice(&stream[read..read + length]);
        read += length;
        match incoming.filled(length) {
            Ok(frame) => frames.extend(frame),
            Err(why) => return (frames, Some(why), read),
        }
    }
    (frames, None, read)
}

fn frame() -> impl Strategy<Value = HostTimeFrame> {
    let notice = prop::sample::select(&[Reason::Periodic, Reason::Restored, Reason::ColdBoot][..]);
    let request = any::<[u64; 2]>();
    prop_oneof![
        notice.prop_map(HostTimeFrame::Notice),
        request.prop_map(|[nonce, sent_ns]| HostTimeFrame::Request { nonce, sent_ns }),
    ]
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..2 * FRAME_BYTES, 1..20)
}

proptest! {
    #[test]
    fn frames_are_the_same_however_they_are_cut(
        sent in prop::collection::vec(frame(), 0..8),
        rest in 0..FRAME_BYTES,
        lengths in lengths(),
    ) {
        let mut stream: Vec<u8> = sent.iter().flat_map(HostTimeFrame::encode).collect();
        // A last one that stays incomplete is neither a frame nor an error.
        stream.extend_from_slice(&HostTimeFrame::Notice(Reason::Resumed).encode()[..rest]);
        let (frames, why, _) = cut(&stream, &lengths);
        prop_assert_eq!((frames, why), (sent, None));
    }

    /// What is no frame ends the stream at the same frame, with the same words but for
    /// bytes that had not come yet; and no later than where it was whole.
    #[test]
    fn what_is_no_frame_is_found_however_it_is_cut(
        sent in prop::collection::vec(frame(), 0..4),
        broken in frame(),
        at in 0..FRAME_BYTES,
        flip in 1..=255_u8,
        lengths in lengths(),
    ) {
        let mut bytes = broken.encode();
        bytes[at] ^= flip;
        prop_assume!(HostTimeFrame::parse(&bytes).is_err());
        let before = sent.len() * FRAME_BYTES;
        let mut stream: Vec<u8> = sent.iter().flat_map(HostTimeFrame::encode).collect();
        stream.extend_from_slice(&bytes);
        stream.extend_from_slice(&HostTimeFrame::Notice(Reason::Restored).encode());
        let (frames, why, read) = cut(&stream, &lengths);
        prop_assert_eq!(frames, sent);
        let why = why.expect("it is no frame");
        prop_assert_eq!(why.field, HostTimeFrame::parse(&bytes).unwrap_err().field);
        prop_assert!(read > before + at.min(MAGIC.len() - 1) && read <= before + FRAME_BYTES);
        // Byte by byte, it is known as soon as a byte shows it.
        if at < MAGIC.len() {
            prop_assert_eq!(cut(&stream, &[1]).2, before + at + 1);
        }
    }
}

#[test]
fn an_error_states_nothing_of_the_frame_before() {
    let mut stream = Vec::from(HostTimeFrame::Notice(Reason::Resumed).encode());
    stream.push(b'X');
    let (frames, why, _) = cut(&stream, &[FRAME_BYTES]);
    assert_eq!(frames, [HostTimeFrame::Notice(Reason::Resumed)]);
    assert_eq!(why.unwrap().found, u64::from(b'X') << 24);
}
