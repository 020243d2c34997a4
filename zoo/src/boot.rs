//! Runs a guest to its end and reads its records.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::outcome::Failure;
use crate::qemu::{self, Guest};
use crate::records::{self, Record};

/// Lines of the console printed after a failure.
const CONSOLE_LINES: usize = 25;

/// QEMU prints this for each CPU feature that it cannot emulate, once per vCPU.
const NOT_EMULATED: &str = "TCG doesn't support requested feature";

/// Runs the guest to its end, and prints a line for each command that ended.
pub(crate) fn run_commands(folder: &Path, guest: &Guest) -> Result<Vec<Record>, Failure> {
    let read = || records::parse(&fs::read(&guest.serial_ports[1]).unwrap_or_default());
    let mut printed = 0;
    until_power_off(folder, guest, || {
        let (records, _) = read();
        for record in &records[printed..] {
            let Record { name, status, started_s, ended_s, .. } = record;
            println!("  {name:<14}{:7.1} s  exit code {status}", ended_s - started_s);
        }
        printed = records.len();
    })?;
    match read() {
        (records, None) => Ok(records),
        (_, Some(error)) => Err(Failure::Failed(format!("the guest's records: {error}"))),
    }
}

/// Runs a guest until it powers off; calls `poll` every 100 ms, and once more
/// after the end.
pub(crate) fn until_power_off(
    folder: &Path,
    guest: &Guest,
    mut poll: impl FnMut(),
) -> Result<(), Failure> {
    let qemu_errors = folder.join("qemu");
    for port in &guest.serial_ports {
        // The output of an earlier guest.
        let _ = fs::remove_file(port);
    }
    let cannot =
        |error: std::io::Error| Failure::Failed(format!("timeout {}: {error}", qemu::PROGRAM));
    let mut running = guest.start(&qemu_errors).map_err(cannot)?;
    let end = loop {
        let end = running.end().map_err(cannot)?;
        poll();
        match end {
            Some(end) => break end,
            None => thread::sleep(Duration::from_millis(100)),
        }
    };
    let Err(what) = end else { return Ok(()) };
    let text = |path| readable(&fs::read(path).unwrap_or_default());
    Err(Failure::Failed(failure(&what, &text(&qemu_errors), &text(&guest.serial_ports[0]))))
}

/// What happened, QEMU's own errors, and the end of the guest's console.
pub(crate) fn failure(what: &str, qemu_errors: &str, console: &str) -> String {
    let errors = qemu_errors.lines().filter(|line| !line.contains(NOT_EMULATED));
    let lines: Vec<&str> = console.lines().filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
    let heading = format!("the last {} lines of its console:", last.len());
    let all = [what].into_iter().chain(errors).chain([heading.as_str()]);
    all.chain(last.iter().copied()).collect::<Vec<_>>().join("\n")
}

/// Text without what would move a terminal's cursor.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|&letter| letter == '\n' || !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_end_of_the_console_and_qemus_errors() {
        let console: String = (1..=40).map(|line| format!("line {line}\r\n\r\n")).collect();
        let message = failure(
            "it hung",
            "warning: TCG doesn't support requested feature: x\nterminating on signal 15\n",
            &readable(console.as_bytes()),
        );
        let lines: Vec<&str> = message.lines().collect();
        let start = "it hung|terminating on signal 15|the last 25 lines of its console:|line 16";
        assert_eq!(lines[..4].join("|"), start);
        assert_eq!((lines.len(), lines[27]), (28, "line 40"));
    }

    #[test]
    fn a_console_cannot_reset_the_terminal() {
        assert_eq!(readable(b"\x1bc\x1b[2Jboot\xff\r\n"), "c[2Jboot\u{fffd}\n");
    }
}
