use std::process::Command;

use rustix::fs::FlockOperation;

use super::*;

/// A folder as the kernel's, with `current` in use.
fn board(current: &str) -> (tempfile::TempDir, Switchboard) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("available_clocksource"), "tsc hpet\n").unwrap();
    std::fs::write(folder.path().join("current_clocksource"), current).unwrap();
    let board = Switchboard::in_folder(folder.path());
    (folder, board)
}

/// The guard's input from a program that switches to hpet meanwhile.
struct Switching<'a> {
    board: &'a Switchboard,
    sends: &'a [u8],
}

impl Read for Switching<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.board.switch_to("hpet").map_err(std::io::Error::other)?;
        self.sends.read(buffer)
    }
}

#[test]
fn what_was_abandoned_is_restored() {
    let (_folder, board) = board("tsc");
    let mut sent = Vec::new();
    let input = Switching { board: &board, sends: b"" };
    assert_eq!(guard(&board, "tsc", input, &mut sent).unwrap(), GuardOutcome::Abandoned);
    assert_eq!(board.current().unwrap(), "tsc");
    assert_eq!(sent, b"ready\n");
}

#[test]
fn what_was_done_is_checked_too() {
    let (_folder, board) = board("tsc");
    let input = Switching { board: &board, sends: b"." };
    assert_eq!(guard(&board, "tsc", input, Vec::new()).unwrap(), GuardOutcome::Done);
    assert_eq!(board.current().unwrap(), "tsc");
}

#[test]
fn another_programs_trial_is_not_taken_for_the_source_to_restore() {
    let (_folder, board) = board("hpet");
    let mut sent = Vec::new();
    assert_eq!(guard(&board, "tsc", &b""[..], &mut sent).unwrap(), GuardOutcome::Declined);
    assert_eq!(board.current().unwrap(), "hpet");
    let sent = String::from_utf8(sent).unwrap();
    assert_eq!(sent, "the clocksource has just been changed from tsc to hpet\n");
}

#[test]
fn a_second_guard_declines() {
    let (_folder, board) = board("tsc");
    let lock = board.lock().unwrap();
    let mut sent = Vec::new();
    assert_eq!(guard(&board, "tsc", &b""[..], &mut sent).unwrap(), GuardOutcome::Declined);
    assert!(String::from_utf8(sent).unwrap().contains("another program holds a lock"));
    // Not by closing it: until its exec a process that another test forks has
    // the file open, too.
    rustix::fs::flock(&lock, FlockOperation::Unlock).unwrap();
    assert_eq!(guard(&board, "tsc", &b""[..], Vec::new()).unwrap(), GuardOutcome::Abandoned);
}

/// System programs take the place of the guard.
fn program(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    shell
}

#[test]
fn a_guard_that_does_not_start_is_an_error() {
    let none = RestoreGuard::start(Command::new("/no/such/program"));
    assert!(matches!(none, Err(GuardError::Start(_))));
    let declined = RestoreGuard::start(program("echo no clocksource here"));
    assert!(
        matches!(&declined, Err(GuardError::Declined(why)) if why == "no clocksource here"),
        "{declined:?}"
    );
}

#[test]
fn the_guard_hears_whether_all_went_well() {
    let folder = tempfile::tempdir().unwrap();
    let received = folder.path().join("received");
    let script = format!("echo ready; cat > {}", received.display());
    RestoreGuard::start(program(&script)).unwrap().finish().unwrap();
    assert_eq!(std::fs::read(&received).unwrap(), [DONE]);
    drop(RestoreGuard::start(program(&script)).unwrap());
    assert_eq!(std::fs::read(&received).unwrap(), b"");
    let failed = RestoreGuard::start(program("echo ready; cat; exit 3")).unwrap().finish();
    assert!(matches!(failed, Err(GuardError::Failed(status)) if status.code() == Some(3)));
}
