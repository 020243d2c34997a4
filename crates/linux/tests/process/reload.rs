//! SIGHUP of a daemon: in a process of its own, as elsewhere it ends one.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use linux::wait::{Signals, WaitUntil, Wake};
use signal_hook::consts::SIGHUP;

#[test]
fn a_hang_up_has_a_daemon_reload_once_and_what_is_muted_does_not_wake_it() {
    let _alone = crate::alone();
    let mut wait = WaitUntil::new(Signals::of_a_daemon().unwrap());
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let token = wait.add(&ours).unwrap();
    theirs.write_all(b"x").unwrap();
    signal_hook::low_level::raise(SIGHUP).unwrap();
    signal_hook::low_level::raise(SIGHUP).unwrap();
    let far = Instant::now() + Duration::from_secs(3600);
    assert_eq!(wait.until(far).unwrap(), Wake::Reload);
    assert_eq!(wait.until(far).unwrap(), Wake::Readable(token));
    wait.mute(Some(token));
    assert_eq!(wait.until(Instant::now()).unwrap(), Wake::Deadline);
    wait.mute(None);
    assert_eq!(wait.until(far).unwrap(), Wake::Readable(token));
}
