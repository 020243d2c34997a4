#![cfg(not(miri))]

use std::time::Duration;

use wire::chronyd::ErrorBound;

use super::*;

const SECOND: u64 = INTERVAL_NS;

/// A daemon that the test plays, and a poll of it.
fn pair() -> (UdpSocket, ChronydPoll) {
    let daemon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    daemon.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let poll = ChronydPoll::new(daemon.local_addr().unwrap(), 7).unwrap();
    (daemon, poll)
}

/// Replies to the next request; returns its sender.
fn reply(daemon: &UdpSocket) -> SocketAddr {
    reply_by(daemon, &[0])
}

/// Replies to the next request once for each of `wrong`, which is what is
/// wrong with the reply's sequence number; returns its sender. On loopback a
/// datagram is there when it has been sent.
fn reply_by(daemon: &UdpSocket, wrong: &[u32]) -> SocketAddr {
    let mut request = [0; 200];
    let (length, from) = daemon.recv_from(&mut request).unwrap();
    assert_eq!(length, MAX_REPLY_BYTES);
    let sequence = u32::from_be_bytes(request[8..12].try_into().unwrap());
    let mut reply = [0; MAX_REPLY_BYTES];
    reply[..8].copy_from_slice(&[6, 2, 0, 0, 0, 33, 0, 5]);
    // A server of stratum 1, half a second away: 2^23 · 2^(1 − 25) s.
    reply[28] = 10;
    reply[53] = 1;
    reply[68..72].copy_from_slice(&(1 << 25 | 0x80_0000u32).to_be_bytes());
    for wrong in wrong {
        reply[16..20].copy_from_slice(&(sequence ^ wrong).to_be_bytes());
        daemon.send_to(&reply, from).unwrap();
    }
    from
}

/// What such a reply amounts to.
fn replied(requested_ns: u64) -> Option<ChronydBound> {
    let bound = ErrorBound { error_ns: Some(500_000_000), growth_ppb: 1_000, updated_ns: 0 };
    Some(ChronydBound::Replied { bound, requested_ns })
}

#[test]
fn one_round_sends_and_a_later_one_receives() {
    let (daemon, mut poll) = pair();
    assert_eq!(poll.advance(5), None);
    assert_eq!(poll.advance(6), None);
    reply(&daemon);
    assert_eq!(poll.advance(20), replied(5));
    assert_eq!(poll.advance(21), None);
    // A second later comes the next request, by another number.
    assert_eq!(poll.advance(5 + SECOND), None);
    reply(&daemon);
    assert!(matches!(poll.advance(6 + SECOND), Some(ChronydBound::Replied { .. })));
}

#[test]
fn another_requests_reply_is_ignored() {
    let (daemon, mut poll) = pair();
    poll.advance(0);
    reply_by(&daemon, &[1]);
    assert_eq!(poll.advance(1), None);
    poll.advance(SECOND);
    // Late ones, and the right one behind them.
    reply_by(&daemon, &[1, 2, 0]);
    assert_eq!(poll.advance(SECOND + 1), replied(SECOND));
}

#[test]
fn a_daemon_that_stops_replying_is_unreachable_until_it_replies_again() {
    let (daemon, mut poll) = pair();
    for round in 0..3 {
        assert_eq!(poll.advance(round * SECOND), None, "{round}");
    }
    assert_eq!(poll.advance(3 * SECOND), Some(ChronydBound::Unreachable));
    // The first three requests are old; the fourth gets its reply.
    for _ in 0..4 {
        reply(&daemon);
    }
    assert_eq!(poll.advance(3 * SECOND + 1), replied(3 * SECOND));
}

#[test]
fn a_daemon_that_refuses_is_unreachable_at_once() {
    let (daemon, mut poll) = pair();
    poll.advance(0);
    let mut request = [0; 200];
    let (_, from) = daemon.recv_from(&mut request).unwrap();
    let mut refusal = [0; 28];
    refusal[..10].copy_from_slice(&[6, 2, 0, 0, 0, 33, 0, 1, 0, 2]);
    refusal[16..20].copy_from_slice(&request[8..12]);
    daemon.send_to(&refusal, from).unwrap();
    assert_eq!(poll.advance(1), Some(ChronydBound::Unreachable));
}

#[test]
fn where_no_process_listens_the_kernel_reports_it() {
    let (daemon, mut poll) = pair();
    drop(daemon);
    assert_eq!(poll.advance(0), None);
    assert_eq!(poll.advance(1), Some(ChronydBound::Unreachable));
}

#[test]
fn a_child_polls_through_a_socket_of_its_own() {
    let (daemon, mut poll) = pair();
    poll.advance(0);
    let parents = reply(&daemon);
    // As in a child: another process opened the socket.
    poll.process ^= 1;
    assert_eq!(poll.advance(SECOND), None);
    assert_ne!(reply(&daemon), parents);
    assert!(matches!(poll.advance(SECOND + 1), Some(ChronydBound::Replied { .. })));
}
