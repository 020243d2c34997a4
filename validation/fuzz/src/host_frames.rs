//! What a hostile host sends, and when.

use pvclock::units::ClockPair;
use sources::wire::hosttime::{
    EARLIEST_NS, FRAME_BYTES, GuestExchange, Heard, HostTimeFrame, Incoming, LONGEST_DELAY_NS,
    MAGIC,
};

/// Frames, each after so many milliseconds, in two bytes; one that answers has
/// the nonce and time of the request filled in where its nonce is even. What a
/// guest makes of them is bounded: no request without a notice, and no offset
/// whose bound is below what the host states.
pub(crate) fn host_frames(data: &[u8]) {
    let mut guest = GuestExchange::default();
    let (mut elapsed_ns, mut nonce, mut asked, mut is_noticed) = (0, 0, None, false);
    for chunk in data.chunks_exact(2 + FRAME_BYTES) {
        let (wait_ms, bytes) = chunk.split_at(2);
        let wait_ms = u64::from(u16::from_be_bytes([wait_ms[0], wait_ms[1]]));
        elapsed_ns += wait_ms * 1_000_000;
        let now = ClockPair {
            monotonic_ns: 1_000_000_000 + elapsed_ns,
            realtime_ns: EARLIEST_NS + elapsed_ns,
        };
        let bytes: &[u8; FRAME_BYTES] = bytes.try_into().expect("as long as a frame");
        if let Ok(mut frame) = HostTimeFrame::parse(bytes) {
            assert_eq!(frame.encode(), *bytes);
            let mut stated_ns = u64::MAX;
            if let (HostTimeFrame::Answer(answer), Some((nonce, sent_ns))) = (&mut frame, asked)
                && answer.nonce.is_multiple_of(2)
            {
                (answer.nonce, answer.request_sent_ns) = (nonce, sent_ns);
                stated_ns = answer.clock.bound_ns.unwrap_or(u64::MAX);
            }
            is_noticed |= matches!(frame, HostTimeFrame::Notice(_));
            if let Ok(Heard::Offset(offset)) = guest.receive(&frame, now) {
                assert!(is_noticed);
                assert!(offset.bound_ns >= 1 || stated_ns == 0);
                assert!(now.monotonic_ns - offset.at_monotonic_ns <= 4 * LONGEST_DELAY_NS);
            }
        }
        nonce += 1;
        if let Ok(Some(HostTimeFrame::Request { nonce, sent_ns })) = guest.next(now, || nonce) {
            assert!(is_noticed, "it asks a host that said nothing");
            asked = Some((nonce, sent_ns));
        }
    }
}

// Bytes of a stream whose other end is a hostile host, as AF_VSOCK or a virtio-serial port
// may hand them out: in any pieces.

/// The first byte says how many of the next are lengths of pieces, which come over and
/// over; the rest is the stream. Its frames are those that it has in a row from its first
/// byte, however it is cut, up to the first that is none.
pub(crate) fn host_stream(data: &[u8]) {
    let Some((&count, data)) = data.split_first() else { return };
    let (lengths, stream) = data.split_at(data.len().min(1 + usize::from(count % 32)));
    let lengths: Vec<usize> = lengths.iter().map(|length| 1 + usize::from(*length)).collect();
    let (frames, read, is_broken) = cut(stream, &lengths);
    let sound = stream.chunks_exact(FRAME_BYTES).map_while(|bytes| {
        let bytes: &[u8; FRAME_BYTES] = bytes.try_into().expect("as long as a frame");
        HostTimeFrame::parse(bytes).ok()
    });
    assert_eq!(frames, sound.collect::<Vec<_>>());
    // What was taken is what those frames are, and no more than one that is none.
    let encoded: Vec<u8> = frames.iter().flat_map(HostTimeFrame::encode).collect();
    assert_eq!(stream[..encoded.len()], encoded);
    let rest = &stream[encoded.len()..];
    if is_broken {
        assert!(read > encoded.len() && read - encoded.len() <= FRAME_BYTES);
    } else {
        assert!(read == stream.len() && rest.len() < FRAME_BYTES);
        let begun = rest.len().min(MAGIC.len());
        assert_eq!(rest[..begun], MAGIC[..begun], "what is no frame was not found");
    }
}

/// The frames of a stream in these pieces, the bytes that were read, and whether the last
/// of them were no frame's.
fn cut(stream: &[u8], lengths: &[usize]) -> (Vec<HostTimeFrame>, usize, bool) {
    let (mut incoming, mut frames, mut read) = (Incoming::default(), Vec::new(), 0);
    let mut lengths = lengths.iter().copied().cycle();
    while read < stream.len() {
        let space = incoming.space();
        assert!(!space.is_empty(), "a read of no bytes looks like the stream's end");
        let length = lengths.next().unwrap_or(1).min(space.len()).min(stream.len() - read);
        space[..length].copy_from_slice(&stream[read..read + length]);
        read += length;
        match incoming.filled(length) {
            Ok(frame) => frames.extend(frame),
            Err(why) => {
                assert!(!why.to_string().is_empty());
                return (frames, read, true);
            }
        }
    }
    (frames, read, false)
}
