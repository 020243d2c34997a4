//! What a hostile host sends, and when.

use pvclock::units::ClockPair;
use sources::wire::hosttime::{
    EARLIEST_NS, FRAME_BYTES, GuestExchange, Heard, HostTimeFrame, LONGEST_DELAY_NS,
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
