//! The guard of the clock source, and the signals that it has ignored meanwhile:
//! in a process of its own, as they are a process's.

use std::process::Command;

use inspect::restore_guard::RestoreGuard;
use linux::signals::{ignore, is_ignored};
use signal_hook::consts::SIGTSTP;

#[test]
fn a_signal_ignored_before_the_guard_is_ignored_after_it() {
    let guard = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; cat >/dev/null"]);
        RestoreGuard::start(shell).unwrap()
    };
    let before = ignore(&[SIGTSTP]);
    guard().finish().unwrap();
    assert!(is_ignored(SIGTSTP), "after finish");
    drop(guard());
    assert!(is_ignored(SIGTSTP), "after a drop");
    drop(before);
    assert!(!is_ignored(SIGTSTP));
}
