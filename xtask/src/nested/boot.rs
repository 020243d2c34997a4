//! Runs the guest and gathers its records.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::nested::Stop;
use crate::nested::qemu::{self, End, Guest};
use crate::nested::records::{self, Record};

/// Lines of the console shown after a failure.
const CONSOLE_LINES: usize = 25;

/// What QEMU says of each feature of the processor that it cannot emulate,
/// once a vCPU.
const NOT_EMULATED: &str = "TCG doesn't support requested feature";

/// Runs the guest to its end, and tells of each command as it comes.
pub(super) fn run(folder: &Path, guest: &Guest) -> Result<Vec<Record>, Stop> {
    let read = || records::parse(&fs::read(&guest.serial_ports[1]).unwrap_or_default());
    let mut told = 0;
    to_its_end(folder, guest, || {
        let (records, _) = read();
        for record in &records[told..] {
            let Record { name, status, started_s, ended_s, .. } = record;
            println!("  {name:<14}{:7.1} s  exit code {status}", ended_s - started_s);
        }
        told = records.len();
    })?;
    match read() {
        (records, None) => Ok(records),
        (_, Some(error)) => Err(Stop::Failed(format!("the guest's records: {error}"))),
    }
}

/// Runs a guest until it switches itself off; looks in now and then, and once
/// more at its end.
pub(super) fn to_its_end(folder: &Path, guest: &Guest, mut look: impl FnMut()) -> Result<(), Stop> {
    let complaints = folder.join("qemu");
    for port in &guest.serial_ports {
        // What the last guest said is not this one's.
        let _ = fs::remove_file(port);
    }
    let cannot =
        |error: std::io::Error| Stop::Failed(format!("timeout {}: {error}", qemu::PROGRAM));
    let mut running = guest.start(&complaints).map_err(cannot)?;
    let end = loop {
        let end = running.end().map_err(cannot)?;
        look();
        match end {
            Some(end) => break end,
            None => thread::sleep(Duration::from_millis(100)),
        }
    };
    let what = match end {
        End::PoweredOff => return Ok(()),
        End::TimedOut => format!("the guest ran for {} s and was ended", guest.limit_s),
        End::Failed(status) => format!("{}: {status}", qemu::PROGRAM),
    };
    let said = |path| readable(&fs::read(path).unwrap_or_default());
    Err(Stop::Failed(failure(&what, &said(&complaints), &said(&guest.serial_ports[0]))))
}

/// What happened, what QEMU said, and the last of what the guest said.
pub(super) fn failure(what: &str, complaints: &str, console: &str) -> String {
    let complaints = complaints.lines().filter(|line| !line.contains(NOT_EMULATED));
    let lines: Vec<&str> = console.lines().filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
    let heading = format!("the last {} lines of its console:", last.len());
    let all = [what].into_iter().chain(complaints).chain([heading.as_str()]);
    all.chain(last.iter().copied()).collect::<Vec<_>>().join("\n")
}

/// Text without what would move a terminal's cursor.
pub(super) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|&letter| letter == '\n' || !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_consoles_end_and_qemus_own_words() {
        let console: String = (1..=40).map(|line| format!("line {line}\r\n\r\n")).collect();
        let said = failure(
            "it hung",
            "warning: TCG doesn't support requested feature: x\nterminating on signal 15\n",
            &readable(console.as_bytes()),
        );
        let lines: Vec<&str> = said.lines().collect();
        let start = "it hung|terminating on signal 15|the last 25 lines of its console:|line 16";
        assert_eq!(lines[..4].join("|"), start);
        assert_eq!((lines.len(), lines[27]), (28, "line 40"));
    }

    #[test]
    fn a_console_cannot_reset_the_terminal() {
        assert_eq!(readable(b"\x1bc\x1b[2Jboot\xff\r\n"), "c[2Jboot\u{fffd}\n");
    }
}
