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

/// Runs the guest to its end, and tells of each command as it comes.
pub(super) fn run(folder: &Path, guest: &Guest) -> Result<Vec<Record>, Stop> {
    let complaints = folder.join("qemu");
    for port in &guest.serial_ports {
        // What the last guest said is not this one's.
        let _ = fs::remove_file(port);
    }
    let said_at =
        |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let cannot = |error: std::io::Error| Stop::Failed(format!("{}: {error}", qemu::PROGRAM));
    let mut running = guest.start(&complaints).map_err(cannot)?;
    let mut told = 0;
    loop {
        let end = running.end().map_err(cannot)?;
        let bytes = fs::read(&guest.serial_ports[1]).unwrap_or_default();
        let (records, unread) = records::parse(&bytes);
        for record in &records[told..] {
            let Record { name, status, started_s, ended_s, .. } = record;
            println!("  {name:<14}{:7.1} s  exit code {status}", ended_s - started_s);
        }
        told = records.len();
        let what = match end {
            None => {
                thread::sleep(Duration::from_millis(100));
                continue;
            }
            Some(End::PoweredOff) => match unread {
                None => return Ok(records),
                Some(error) => format!("the guest's records: {error}"),
            },
            Some(End::TimedOut) => format!("the guest ran for {} s and was ended", guest.limit_s),
            Some(End::Failed(status)) => format!("{}: {status}", qemu::PROGRAM),
        };
        let console = said_at(&guest.serial_ports[0]);
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n");
        return Err(Stop::Failed(format!("{what}\n{}{last}", said_at(&complaints))));
    }
}
