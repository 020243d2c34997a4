use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, VsockAddr, bind, listen, socket,
};

use super::*;

fn at(path: &Path) -> HostChannel {
    HostChannel::Socket(path.to_owned())
}

/// So long that it is tried again.
fn later() -> Instant {
    Instant::now() + AGAIN
}

#[test]
fn a_socket_that_another_process_has_is_taken_once_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let other = UnixDatagram::bind(&path).unwrap();
    let mut host = HostSource::open(&[at(&path)]).unwrap();
    assert_eq!(host.name(), path.display().to_string());
    let told = host.offset().unwrap_err().to_string();
    assert!(told.starts_with(host.name()) && told.ends_with("retrying every 10 s"), "{told}");
    assert_eq!(host.awaited().map(|(channel, _)| channel.clone()).collect::<Vec<_>>(), [at(&path)]);
    host.retry(later());
    assert_eq!(host.awaited().count(), 1);
    drop(other);
    host.retry(Instant::now());
    assert_eq!(host.awaited().count(), 1, "not before it is due");
    // The failed try counts.
    host.retry(later() + AGAIN);
    assert_eq!(host.awaited().count(), 0);
    UnixDatagram::unbound().unwrap().send_to(b"resumed", &path).unwrap();
    host.receive_all().unwrap();
    assert!(host.take_resumed());
}

/// Any user may have a port beyond 1023.
#[test]
fn a_port_that_another_process_has_is_taken_once_it_is_free() {
    let port = 70_000 + std::process::id();
    let flags = SockFlag::SOCK_CLOEXEC;
    let held = socket(AddressFamily::Vsock, SockType::Stream, flags, None).and_then(|other| {
        use std::os::fd::AsRawFd as _;
        bind(other.as_raw_fd(), &VsockAddr::new(libc::VMADDR_CID_ANY, port))?;
        listen(&other, Backlog::new(1)?)?;
        Ok(other)
    });
    let other = match held {
        Ok(other) => other,
        Err(why) => return writeln!(std::io::stderr(), "skipped: no AF_VSOCK: {why}").unwrap(),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let mut host = HostSource::open(&[at(&path), HostChannel::Vsock(port)]).unwrap();
    assert_eq!(host.name(), format!("{},vsock:{port}", path.display()));
    // The other channel is heard.
    UnixDatagram::unbound().unwrap().send_to(b"resumed", &path).unwrap();
    host.receive_all().unwrap();
    assert!(host.take_resumed());
    let told = host.offset().unwrap_err().to_string();
    assert!(told.starts_with(&format!("vsock:{port}: ")), "{told}");
    drop(other);
    host.retry(later());
    assert_eq!(host.awaited().count(), 0);
    let second = HostSource::open(&[HostChannel::Vsock(port)]).unwrap();
    assert_eq!(second.awaited().count(), 1, "the port is held");
}

/// In a folder that all may write anybody may leave anything: it is named.
#[test]
fn what_is_in_the_way_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    std::fs::write(&path, "").unwrap();
    let mut host = HostSource::open(&[at(&path)]).unwrap();
    let why = |host: &HostSource| host.awaited().map(|(_, why)| why.to_owned()).collect::<String>();
    assert!(why(&host).contains("the existing file is not a socket"), "{}", why(&host));
    std::fs::remove_file(&path).unwrap();
    let other = UnixDatagram::bind(&path).unwrap();
    host.retry(later());
    assert!(why(&host).contains("it is in use"), "{}", why(&host));
    drop(other);
}

/// A daemon that takes new settings has a channel itself until they are in force.
#[test]
fn a_channel_is_tried_again_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let before = HostSource::open(&[at(&path)]).unwrap();
    let mut host = HostSource::open(&[at(&path)]).unwrap();
    drop(before);
    host.receive_all().unwrap();
    assert_eq!(host.awaited().count(), 0);
}

#[test]
fn a_mistake_in_the_configuration_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no/such/host.sock");
    for channel in [at(&nowhere), HostChannel::Port(nowhere.clone())] {
        let (found, why) = HostSource::open(std::slice::from_ref(&channel)).unwrap_err();
        assert_eq!((found, why.kind()), (channel, ErrorKind::NotFound));
    }
    // A port below 1024 without the right to it, and what root has forbidden.
    let denied = io::Error::from(ErrorKind::PermissionDenied);
    assert!(!is_anothers(&HostChannel::Vsock(123), &denied));
    assert!(!is_anothers(&at(&nowhere), &denied));
    // /tmp/host.sock, a dead socket of another user's.
    assert!(is_anothers(&at(folder.path()), &denied));
}
