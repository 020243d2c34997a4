//! The NTP server of the machines (`validation/machines/src/bin/ntp-server.rs`).

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::base::Workshop;

/// The NTP server on the host, with this machine's time. It ends when its
/// standard input is closed.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Its port on the guest's 10.0.2.2.
    pub(crate) port: u16,
}

impl Server {
    /// Two that are right: one alone may correct a second at most.
    pub(crate) fn two(workshop: &Workshop) -> Result<[Self; 2], String> {
        let program = workshop.programs.join("ntp-server");
        Ok([Self::start(&program)?, Self::start(&program)?])
    }

    /// One whose time is this machine's.
    pub(crate) fn start(program: &Path) -> Result<Self, String> {
        Self::with(program, &[])
    }

    /// One with faults: the words that it takes.
    pub(crate) fn with(program: &Path, words: &[&str]) -> Result<Self, String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| cannot(&error))?;
        let mut line = String::new();
        let out = child.stdout.as_mut().map(BufReader::new);
        let read = out.map(|mut out| out.read_line(&mut line)).transpose();
        read.map_err(|error| cannot(&error))?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Self { child, port: port.ok_or_else(|| cannot(&format!("no port in {line:?}")))? })
    }

    /// Steps its clock.
    pub(crate) fn step(&mut self, by_s: f64) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("the NTP server has ended")?;
        writeln!(input, "{by_s}").map_err(|error| format!("the NTP server: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Its exit code does not matter.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_prints_no_port_is_an_error() {
        let error = Server::start(Path::new("/bin/true")).err().unwrap();
        assert_eq!(error, "/bin/true: no port in \"\"");
        let missing = Server::start(Path::new("/no/such/program")).err().unwrap();
        assert!(missing.starts_with("/no/such/program: "), "{missing}");
    }
}
