use std::os::unix::net::UnixDatagram;
use std::thread;

use super::*;

/// Longer than any test takes.
const AGES: Duration = Duration::from_secs(600);

/// Replies to each request as `reply` has it: status, and how often it stays
/// silent first.
fn answer(request: &[u8], status: u8) -> Vec<u8> {
    let mut reply = vec![0; 28];
    reply[..2].copy_from_slice(&[6, 2]);
    reply[4..6].copy_from_slice(&request[4..6]);
    reply[7] = 1;
    reply[9] = status;
    reply[16..20].copy_from_slice(&request[8..12]);
    reply
}

/// A daemon on a Unix socket that ignores so many requests, sends one reply
/// with another sequence number, and then the right one.
fn daemon(path: &std::path::Path, ignored: usize, status: u8) -> thread::JoinHandle<()> {
    let socket = UnixDatagram::bind(path).unwrap();
    thread::spawn(move || {
        let mut request = [0; 200];
        for _ in 0..ignored {
            socket.recv(&mut request).unwrap();
        }
        let (length, client) = socket.recv_from(&mut request).unwrap();
        let right = answer(&request[..length], status);
        let mut other = right.clone();
        other[16] ^= 1;
        for reply in [other, right] {
            socket.send_to_addr(&reply, &client).unwrap();
        }
    })
}

fn client(path: &std::path::Path) -> ChronydClient {
    ChronydClient {
        timeout: AGES,
        ..ChronydClient::at_address(ChronydAddress::Unix(path.to_owned()))
    }
}

#[test]
fn a_lost_datagram_is_sent_again_and_a_foreign_reply_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chronyd.sock");
    let running = daemon(&path, 2, 0);
    client(&path).makestep().unwrap();
    running.join().unwrap();
    // Its own socket is gone again.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_refusal_has_command_address_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chronyd.sock");
    for (status, reason) in [(1, "it failed"), (2, "not authorised"), (4, "no such source")] {
        let running = daemon(&path, 0, status);
        let error = client(&path).burst(3, 5).unwrap_err().to_string();
        assert_eq!(error, format!("burst: chronyd at {} refused: {reason}", path.display()));
        running.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn each_unreachable_address_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chronyd.sock");
    // Nobody listens any more at either.
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses = vec![ChronydAddress::Unix(path.clone()), ChronydAddress::Udp(udp)];
    let client = ChronydClient { addresses, timeout: AGES };
    let error = client.tracking().unwrap_err().to_string();
    let expected = format!(
        "tracking: chronyd is unreachable: {}: No such file or directory (os error 2); {udp}: \
         Connection refused (os error 111)",
        path.display()
    );
    assert_eq!(error, expected);
    // Over UDP it would refuse: what is told is why it cannot be commanded.
    let error = client.reset_sources().unwrap_err().to_string();
    let expected = format!(
        "reset sources: chronyd is unreachable: {}: No such file or directory (os error 2)",
        path.display()
    );
    assert_eq!(error, expected);
}

#[test]
fn a_daemon_that_hangs_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chronyd.sock");
    let _hangs = UnixDatagram::bind(&path).unwrap();
    let client = ChronydClient { timeout: Duration::from_millis(20), ..client(&path) };
    let error = client.tracking().unwrap_err().to_string();
    assert!(error.ends_with("chronyd.sock: no reply in 20 ms"), "{error}");
}
