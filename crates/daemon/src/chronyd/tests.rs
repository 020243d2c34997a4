use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use sources::chronyd_client::ChronydAddress;

use super::*;

/// Numbers of chronyd's protocol (candm.h).
const MAKESTEP: u8 = 43;
const RESET: u8 = 66;
const BURST: u8 = 3;
const DONE: u8 = 0;
const FAILED: u8 = 1;
const UNAUTHORISED: u8 = 2;
const INVALID: u8 = 3;

/// Replies to these commands by these statuses, one after the other.
fn daemon(path: &Path, replies: &[(u8, u8)]) -> JoinHandle<()> {
    let _ = std::fs::remove_file(path);
    let (socket, replies) = (UnixDatagram::bind(path).unwrap(), replies.to_vec());
    thread::spawn(move || {
        for (command, status) in replies {
            let mut request = [0; 200];
            let (_, client) = socket.recv_from(&mut request).unwrap();
            assert_eq!(request[5], command);
            let mut reply = [0; 28];
            reply[..2].copy_from_slice(&[6, 2]);
            reply[5] = command;
            reply[7] = 1;
            reply[9] = status;
            reply[16..20].copy_from_slice(&request[8..12]);
            socket.send_to_addr(&reply, &client).unwrap();
        }
    })
}

fn client() -> (tempfile::TempDir, PathBuf, ChronydCommands) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chronyd.sock");
    let makestep = Some(Some(ChronydAddress::Unix(path.clone())));
    let settings = ChronydSettings { makestep, ..ChronydSettings::default() };
    (folder, path, ChronydCommands::new(&settings).unwrap())
}

#[test]
fn who_cannot_be_told_is_reported_once_and_so_is_who_can_again() {
    let (_folder, path, mut client) = client();
    let why = client.finish_slew().unwrap().unwrap_err();
    assert!(why.starts_with("makestep: chronyd is unreachable: "), "{why}");
    assert!(why.contains("chronyd.sock: No such file") && why.ends_with(NOT_COMMANDED), "{why}");
    assert_eq!(client.measure_anew(), None);
    let replies = [(MAKESTEP, DONE), (BURST, DONE), (RESET, DONE), (BURST, DONE), (RESET, DONE)];
    let running = daemon(&path, &replies);
    assert_eq!(client.finish_slew(), None);
    assert_eq!(client.measure_anew(), Some(Ok(())));
    assert_eq!(client.measure_anew(), None);
    running.join().unwrap();
    let running = daemon(&path, &[(MAKESTEP, UNAUTHORISED), (BURST, UNAUTHORISED)]);
    let why = client.finish_slew().unwrap().unwrap_err();
    assert!(why.contains("refused: not authorised"), "{why}");
    assert_eq!(client.measure_anew(), None);
    running.join().unwrap();
}

#[test]
fn a_burst_that_is_refused_is_reported_and_shown() {
    let (_folder, path, mut client) = client();
    let running = daemon(&path, &[(BURST, UNAUTHORISED)]);
    let why = client.measure_anew().unwrap().unwrap_err();
    assert!(why.contains("refused: not authorised"), "{why}");
    assert_eq!(client.trouble(), Some(why.as_str()));
    running.join().unwrap();
    client.restart();
    let running = daemon(&path, &[(BURST, 4), (RESET, DONE), (MAKESTEP, DONE)]);
    assert!(client.step().is_ok());
    assert_eq!(client.trouble(), None);
    running.join().unwrap();
}

#[test]
fn one_that_obeys_from_the_start_is_not_reported() {
    let (_folder, path, mut client) = client();
    // It may not set the clock, and has reference clocks alone: those are not reset.
    let running = daemon(&path, &[(MAKESTEP, FAILED), (BURST, 4)]);
    assert_eq!((client.finish_slew(), client.measure_anew()), (None, None));
    running.join().unwrap();
}

/// chrony before 4.0 has `makestep` alone: that is told once, and not at each step.
#[test]
fn one_that_knows_one_command_alone_is_reported_once() {
    let (_folder, path, mut client) = client();
    let each = [(MAKESTEP, DONE), (BURST, DONE), (RESET, INVALID)];
    let running = daemon(&path, &[each, each].concat());
    assert_eq!(client.finish_slew(), None);
    let why = client.measure_anew().unwrap().unwrap_err();
    assert!(why.contains("it does not know this command"), "{why}");
    assert_eq!((client.finish_slew(), client.measure_anew()), (None, None));
    running.join().unwrap();
}
