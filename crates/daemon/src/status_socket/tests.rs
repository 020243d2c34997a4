use std::cell::Cell;
use std::net::Shutdown;
use std::time::Duration;

use super::*;

fn bound() -> (tempfile::TempDir, StatusSocket) {
    let folder = tempfile::tempdir().unwrap();
    let socket = StatusSocket::bind(&folder.path().join("run/status.sock")).unwrap();
    (folder, socket)
}

fn connected(socket: &mut StatusSocket) -> UnixStream {
    let client = UnixStream::connect(&socket.path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.serve(|| panic!("nobody asked"));
    client
}

fn reply(mut client: UnixStream) -> String {
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn many_ask_at_once_and_the_status_is_formed_once() {
    let (_folder, mut socket) = bound();
    let mut clients: Vec<_> = (0..MOST_CLIENTS).map(|_| connected(&mut socket)).collect();
    clients.iter_mut().for_each(|client| client.write_all(REQUEST).unwrap());
    let formed = Cell::new(0);
    let serve = |socket: &mut StatusSocket| {
        socket.serve(|| {
            formed.set(formed.get() + 1);
            "{}\n".into()
        })
    };
    assert_eq!(serve(&mut socket), None);
    for client in clients {
        assert_eq!(reply(client), "{}\n");
    }
    assert_eq!((formed.get(), socket.clients.len()), (1, 0));
    // Of those that need the clock to be right, the strictest.
    let clients = [Some(5_000_000), None, Some(1_000_000), Some(u64::MAX)]
        .map(|bound_ns| (connected(&mut socket), bound_ns));
    for (mut client, bound_ns) in clients {
        client.write_all(&request(bound_ns)).unwrap();
    }
    assert_eq!(serve(&mut socket), Some(1_000_000));
}

#[test]
fn anything_but_the_request_is_refused() {
    let (_folder, mut socket) = bound();
    let within: [&[u8]; 5] = [
        b"status within \n",
        b"status within 1\n",
        b"status within +1 ns\n",
        b"status within -1 ns\n",
        b"status within 18446744073709551616 ns\n",
    ];
    let others =
        [&b"stop\n"[..], b"status\nstop\n", b"status within 1 ns", b"stat", b"\0", &[b'x'; 60_000]];
    for sent in within.into_iter().chain(others) {
        let mut client = connected(&mut socket);
        client.write_all(sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        socket.serve(|| panic!("nobody asked"));
        let mut reply = [0; 64];
        let length = client.read(&mut reply).unwrap();
        assert!(reply[..length].starts_with(br#"{"error":"expected \"status\""#), "{sent:?}");
    }
    // One that goes without a word.
    drop(connected(&mut socket));
    socket.serve(|| panic!("nobody asked"));
    assert!(socket.clients.is_empty());
}

#[test]
fn who_connects_and_is_silent_or_does_not_read_holds_nothing_up() {
    let (_folder, mut socket) = bound();
    socket.left = u32::MAX;
    let silent: Vec<_> = (0..100).map(|_| connected(&mut socket)).collect();
    assert_eq!(socket.clients.len(), MOST_CLIENTS);
    let mut client = connected(&mut socket);
    client.write_all(REQUEST).unwrap();
    // More than any buffer takes; it returns all the same.
    socket.serve(|| "x".repeat(8 << 20));
    assert!(reply(client).len() < 8 << 20);
    assert_eq!(socket.clients.len(), MOST_CLIENTS - 1);
    drop(silent);
}

#[test]
fn a_flood_waits_for_the_next_sample() {
    let (_folder, mut socket) = bound();
    let mut clients = 0;
    while !socket.is_exhausted() {
        drop(UnixStream::connect(&socket.path).unwrap());
        socket.serve(|| panic!("nobody asked"));
        clients += 1;
    }
    // Each costs its connection, and mostly its end.
    let range = MOST_BETWEEN_SAMPLES / 4..=MOST_BETWEEN_SAMPLES;
    assert!(range.contains(&clients), "{clients}");
    socket.begin_sample();
    assert!(!socket.is_exhausted());
}

#[test]
fn a_socket_is_taken_over_only_where_nobody_listens() {
    let (folder, socket) = bound();
    let path = socket.path.clone();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    assert_eq!(StatusSocket::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    drop(socket);
    assert!(!path.exists());
    drop(UnixListener::bind(&path).unwrap());
    drop(StatusSocket::bind(&path).unwrap());
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    assert!(StatusSocket::bind(&file).is_err());
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    assert_eq!(ask(&path, None).unwrap_err().kind(), ErrorKind::NotFound);
}
