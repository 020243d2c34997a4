//! Signals ignored for a while, and before the program started: in a process of
//! its own, as they are a process's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use linux::signals::{ignore, is_ignored};
use linux::wait::{Signals, WaitUntil, Wake};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGTSTP, SIGTTIN};

#[test]
fn what_stood_before_stands_again() {
    let _alone = crate::alone();
    let outer = ignore(&[SIGTSTP]);
    let handled = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTTIN, Arc::clone(&handled)).unwrap();
    let inner = ignore(&[SIGTSTP, SIGTTIN]);
    signal_hook::low_level::raise(SIGTTIN).unwrap();
    assert!(!handled.load(Ordering::SeqCst));
    drop(inner);
    assert!(is_ignored(SIGTSTP));
    signal_hook::low_level::raise(SIGTTIN).unwrap();
    assert!(handled.load(Ordering::SeqCst));
    drop(outer);
    assert!(!is_ignored(SIGTSTP));
}

/// As under `nohup`, where a terminal that closes must not end a run of hours.
#[test]
fn a_hang_up_that_is_ignored_at_the_start_ends_no_wait() {
    let _alone = crate::alone();
    let nohup = ignore(&[SIGHUP]);
    let wait = WaitUntil::new(Signals::ending().unwrap());
    signal_hook::low_level::raise(SIGHUP).unwrap();
    assert_eq!(wait.until(Instant::now()).unwrap(), Wake::Deadline);
    signal_hook::low_level::raise(SIGTERM).unwrap();
    assert_eq!(wait.until(Instant::now()).unwrap(), Wake::Signal);
    drop(nohup);
}
