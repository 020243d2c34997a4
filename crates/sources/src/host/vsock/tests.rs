use std::io::Write;
use std::os::unix::net::UnixStream;

use crate::wire::hosttime::{FRAME_BYTES, HostTimeFrame, Reason, VSOCK_PORT};
use nix::sys::socket::connect;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

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
    theirs.write_all(&HostTimeFrame::Notice(Reason::Resumed).encode()).unwrap();
    (ours.into(), theirs)
}

#[test]
fn only_the_host_is_heard_and_its_newest_connection_counts() {
    let (mut vsock, mut told) = (vsock(), ReportedTime::default());
    let mut added = 0;
    let mut connected = |vsock: &mut Vsock, told: &mut ReportedTime, ours, cid| {
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
    assert!(matches!(HostTimeFrame::parse(&request), Ok(HostTimeFrame::Request { .. })));
    drop(newer);
    vsock.receive(&mut told, |_| Ok(())).unwrap();
    assert!(vsock.connection.is_none());
}

fn skipped(why: impl std::fmt::Display) {
    writeln!(std::io::stderr(), "skipped: no AF_VSOCK, or no loopback: {why}").unwrap();
}

/// The real thing, as far as this kernel goes: its loopback is CID 1, whatever CID of
/// this machine the other end has, the host's among them where it has guests of its own
/// (`vsock_find_cid`, net/vmw_vsock/af_vsock.c, lets anybody bind to them).
#[test]
fn this_machine_itself_is_not_the_host() {
    let port = 1024 + std::process::id();
    let mut vsock = match Vsock::listen(port) {
        Ok(vsock) => vsock,
        Err(why) => return skipped(why),
    };
    for from in [None, Some(libc::VMADDR_CID_LOCAL), Some(HOST_CID)] {
        let client = socket(AddressFamily::Vsock, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        let client = client.unwrap();
        let bound =
            from.map(|cid| bind(client.as_raw_fd(), &VsockAddr::new(cid, libc::VMADDR_PORT_ANY)));
        if let Some(Err(why)) = bound {
            skipped(why);
            continue;
        }
        let to = VsockAddr::new(libc::VMADDR_CID_LOCAL, port);
        if let Err(why) = connect(client.as_raw_fd(), &to) {
            return skipped(why);
        }
        let mut told = ReportedTime::default();
        vsock.receive(&mut told, |_| Ok(())).unwrap();
        assert_eq!(told.take_rejected(0), Some(Rejected::Peer { cid: libc::VMADDR_CID_LOCAL }));
    }
}

/// Else any user's process could have it before the daemon.
#[test]
fn the_port_takes_a_right_that_users_lack() {
    let have = capabilities(None).unwrap();
    let effective = have.effective - CapabilitySet::NET_BIND_SERVICE;
    set_capabilities(None, CapabilitySets { effective, ..have }).unwrap();
    let refused = Vsock::listen(VSOCK_PORT).map(|_| ()).map_err(|why| why.raw_os_error());
    set_capabilities(None, have).unwrap();
    if refused == Err(Some(libc::EAFNOSUPPORT)) {
        return skipped("EAFNOSUPPORT");
    }
    assert_eq!(refused, Err(Some(libc::EACCES)));
}
