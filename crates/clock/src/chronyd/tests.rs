#![cfg(not(miri))]

use std::time::Duration;

use super::*;
use crate::timeline::chronyd::Tracking;

const SECOND: u64 = PAUSE_NS;

/// A daemon that the test plays, and an asker of it.
fn pair() -> (UdpSocket, Asker) {
    let daemon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    daemon.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let asker = Asker::new(daemon.local_addr().unwrap(), 7).unwrap();
    (daemon, asker)
}

/// Answers the next request; says whose it was.
fn answer(daemon: &UdpSocket) -> SocketAddr {
    answer_by(daemon, &[0])
}

/// Answers the next request once for each of `wrong`, which is what is wrong
/// with the answer's sequence number; says whose it was. On loopback a
/// datagram is there when it has been sent.
fn answer_by(daemon: &UdpSocket, wrong: &[u32]) -> SocketAddr {
    let mut asked = [0; 200];
    let (length, from) = daemon.recv_from(&mut asked).unwrap();
    assert_eq!(length, BYTES);
    let sequence = u32::from_be_bytes(asked[8..12].try_into().unwrap());
    let mut reply = [0; BYTES];
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

const SAID: Tracking = Tracking { error_ns: Some(500_000_000), growth_ppb: 1_000, updated_ns: 0 };

#[test]
fn a_round_asks_and_a_later_one_hears() {
    let (daemon, mut asker) = pair();
    assert_eq!(asker.look(5), None);
    assert_eq!(asker.look(6), None);
    answer(&daemon);
    let heard = Chronyd::Answered { tracking: SAID, asked_ns: 5 };
    assert_eq!(asker.look(20), Some(heard));
    assert_eq!(asker.look(21), None);
    // A second later it asks anew, by another number.
    assert_eq!(asker.look(5 + SECOND), None);
    answer(&daemon);
    assert!(matches!(asker.look(6 + SECOND), Some(Chronyd::Answered { .. })));
}

#[test]
fn another_requests_answer_is_passed_over() {
    let (daemon, mut asker) = pair();
    asker.look(0);
    answer_by(&daemon, &[1]);
    assert_eq!(asker.look(1), None);
    asker.look(SECOND);
    // Late ones, and the right one behind them.
    answer_by(&daemon, &[1, 2, 0]);
    let heard = Chronyd::Answered { tracking: SAID, asked_ns: SECOND };
    assert_eq!(asker.look(SECOND + 1), Some(heard));
}

#[test]
fn a_daemon_that_stays_silent_is_given_up_and_heard_again() {
    let (daemon, mut asker) = pair();
    for round in 0..3 {
        assert_eq!(asker.look(round * SECOND), None, "{round}");
    }
    assert_eq!(asker.look(3 * SECOND), Some(Chronyd::Silent));
    // The first three requests are old; the fourth is answered.
    for _ in 0..4 {
        answer(&daemon);
    }
    let heard = Chronyd::Answered { tracking: SAID, asked_ns: 3 * SECOND };
    assert_eq!(asker.look(3 * SECOND + 1), Some(heard));
}

#[test]
fn where_nobody_listens_the_kernel_says_so() {
    let (daemon, mut asker) = pair();
    drop(daemon);
    assert_eq!(asker.look(0), None);
    assert_eq!(asker.look(1), Some(Chronyd::Silent));
}

#[test]
fn a_child_asks_through_a_socket_of_its_own() {
    let (daemon, mut asker) = pair();
    asker.look(0);
    let parents = answer(&daemon);
    // As it stands in a child: the socket is another process's.
    asker.process ^= 1;
    assert_eq!(asker.look(SECOND), None);
    assert_ne!(answer(&daemon), parents);
    assert!(matches!(asker.look(SECOND + 1), Some(Chronyd::Answered { .. })));
}
