//! `tell`, with guests behind sockets of this machine.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use crate::program::shared;
use pvclock::units::ClockPair;
use serde_json::Value;
use sources::wire::hosttime::{FRAME_BYTES, GuestExchange, Heard, HostTimeFrame};

use crate::formats::keeps_to;

/// A guest 5 s behind: how far off it thinks it is.
fn ask(mut stream: UnixStream) -> i64 {
    let behind = |now: ClockPair| ClockPair { realtime_ns: now.realtime_ns - 5_000_000_000, ..now };
    let clocks = || behind(linux::clock::pair().unwrap());
    let (mut guest, mut nonce) = (GuestExchange::default(), 0);
    loop {
        let mut bytes = [0; FRAME_BYTES];
        stream.read_exact(&mut bytes).unwrap();
        let heard = guest.receive(&HostTimeFrame::parse(&bytes).unwrap(), clocks()).unwrap();
        if let Heard::Offset(offset) = heard {
            assert!((offset.offset_ns - 5_000_000_000).unsigned_abs() <= offset.bound_ns);
            return offset.offset_ns;
        }
        nonce += 1;
        if let Some(request) = guest.next(clocks(), || nonce).unwrap() {
            stream.write_all(&request.encode()).unwrap();
        }
    }
}

#[test]
fn guests_are_told_though_one_hangs_and_one_is_not_there() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let [asks, hangs, none] =
        ["asks", "hangs", "none"].map(|name| folder.path().join(name).display().to_string());
    let listener = UnixListener::bind(&asks).unwrap();
    let _hangs = UnixListener::bind(&hangs).unwrap();
    let guest = std::thread::spawn(move || ask(listener.accept().unwrap().0));
    let guests = [&hangs, &asks, &none].map(|path| format!("port:{path}"));
    let begun = Instant::now();
    let mut arguments = vec!["tell", "--error", "1ms", "--timeout", "1s", "--format", "json"];
    arguments.extend(guests.iter().map(String::as_str));
    let said = program.run(&arguments);
    assert_eq!((said.code, said.err.as_str()), (Some(2), ""));
    assert!(begun.elapsed().as_secs() < 5, "one that hangs holds up none");
    keeps_to(program, "tell", &said.out);
    let lines: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [hung, told, absent] = &lines[..] else { panic!("{}", said.out) };
    let off_ns = told["told"]["offset_ns"].as_i64().unwrap();
    let bound_ns = told["told"]["bound_ns"].as_u64().unwrap();
    assert!((off_ns + 5_000_000_000).unsigned_abs() <= bound_ns, "{told}");
    assert!(guest.join().unwrap() > 0);
    assert_eq!(hung["why"], "no request from the guest within 1.0 s");
    assert!(absent["why"].as_str().unwrap().starts_with("cannot connect: "), "{absent}");
}
