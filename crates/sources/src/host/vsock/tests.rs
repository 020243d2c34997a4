use std::io::Write;
use std::os::unix::net::UnixStream;

use hosttime::{FRAME_BYTES, Frame, Reason};
use nix::sys::socket::connect;

use super::*;

/// A listener that nothing can connect to: the test hands it connections.
fn vsock() -> Vsock {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    Vsock { listener: listener.into(), connection: None }
}

fn notified() -> (OwnedFd, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.write_all(&Frame::Notice(Reason::Resumed).encode()).unwrap();
    (ours.into(), theirs)
}

#[test]
fn only_the_host_is_heard_and_its_newest_connection_counts() {
    let (mut vsock, mut told) = (vsock(), Told::default());
    let mut added = 0;
    let mut connected = |vsock: &mut Vsock, told: &mut Told, ours, cid| {
        let mut add = |_: BorrowedFd<'_>| {
            added += 1;
            Ok(())
        };
        vsock.connected(ours, cid, told, &mut add).unwrap();
        vsock.receive(told, |_| Ok(())).unwrap();
    };
    for stranger in [libc::VMADDR_CID_LOCAL, libc::VMADDR_CID_ANY, 0, 3] {
        let (ours, _theirs) = notified();
        connected(&mut vsock, &mut told, ours, stranger);
        assert!(vsock.connection.is_none() && !told.resumed);
    }
    assert_eq!(told.take_rejected(0), Some(Rejected::Peer { cid: 3 }));
    let (ours, hanging) = notified();
    connected(&mut vsock, &mut told, ours, HOST_CID);
    assert!(std::mem::take(&mut told.resumed));
    let (ours, mut newer) = notified();
    connected(&mut vsock, &mut told, ours, HOST_CID);
    assert!(std::mem::take(&mut told.resumed));
    assert_eq!(added, 2);
    drop(hanging);
    let mut request = [0; FRAME_BYTES];
    std::io::Read::read_exact(&mut newer, &mut request).unwrap();
    assert!(matches!(Frame::parse(&request), Ok(Frame::Request { .. })));
    drop(newer);
    vsock.receive(&mut told, |_| Ok(())).unwrap();
    assert!(vsock.connection.is_none());
}

/// The real thing, as far as this kernel goes: its loopback is CID 1.
#[test]
fn this_machine_itself_is_not_the_host() {
    let skipped = |why: String| println!("skipped: no AF_VSOCK loopback: {why}");
    let mut vsock = match Vsock::listen(PORT) {
        Ok(vsock) => vsock,
        Err(why) => return skipped(why.to_string()),
    };
    let client = socket(AddressFamily::Vsock, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let client = client.unwrap();
    let to = VsockAddr::new(libc::VMADDR_CID_LOCAL, PORT);
    if let Err(why) = connect(client.as_raw_fd(), &to) {
        return skipped(why.to_string());
    }
    let mut told = Told::default();
    vsock.receive(&mut told, |_| Ok(())).unwrap();
    assert_eq!(told.take_rejected(0), Some(Rejected::Peer { cid: libc::VMADDR_CID_LOCAL }));
}
