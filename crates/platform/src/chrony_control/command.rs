//! Commands to chronyd, through chronyc.
//!
//! chronyd takes commands that change something from its Unix socket alone,
//! which root and its own user can reach; over the network it answers
//! questions and refuses these (`man 5 chrony.conf`, `bindcmdaddress`).

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::probes::chrony::{Said, run};

/// A command is given up after this: chronyd answers in milliseconds, and
/// whoever keeps a clock has more to do than to wait for one that hangs.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Where a chronyd takes commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandAddress {
    /// A Unix socket: `/run/chrony/chronyd.sock`.
    Unix(PathBuf),
    /// A UDP port: for questions alone.
    Udp(SocketAddr),
}

impl CommandAddress {
    /// What chronyc is to be told of it.
    pub(crate) fn options(&self) -> Vec<OsString> {
        match self {
            Self::Unix(path) => vec!["-h".into(), path.into()],
            Self::Udp(address) => {
                let (host, port) = (address.ip().to_string(), address.port().to_string());
                vec!["-h".into(), host.into(), "-p".into(), port.into()]
            }
        }
    }
}

/// Who gives a chronyd commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commander {
    /// Where; chronyc's own idea of it where none is given.
    pub address: Option<CommandAddress>,
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no chronyc to be run.
    #[error("chronyc {command}: cannot run chronyc: {error}")]
    NoClient {
        /// The command.
        command: &'static str,
        /// The system's own words.
        error: String,
    },
    /// No chronyd answers, or this user may not open its socket.
    #[error("chronyc {command}: no chronyd answers: {said}")]
    NobodyThere {
        /// The command.
        command: &'static str,
        /// The client's words.
        said: String,
    },
    /// It answers, and takes no command on this way.
    #[error("chronyc {command}: chronyd refuses it here: {said}")]
    NotAuthorised {
        /// The command.
        command: &'static str,
        /// Its words.
        said: String,
    },
    /// It took the command, and could not do it.
    #[error("chronyc {command}: chronyd could not: {said}")]
    Failed {
        /// The command.
        command: &'static str,
        /// Its words.
        said: String,
    },
}

impl Commander {
    /// Has chronyd correct at once, by a step, what it is still slewing: what
    /// its own sources have told it, no more.
    ///
    /// # Errors
    /// It is not there, refuses, or cannot set the clock.
    pub fn makestep(&self) -> Result<(), CommandError> {
        self.order("makestep", &["makestep"])
    }

    /// Has chronyd drop all that it measured: of no use after a disruption
    /// that it did not notice itself (chrony 4.0 and later).
    ///
    /// # Errors
    /// It is not there, refuses, or does not know the command.
    pub fn reset_sources(&self) -> Result<(), CommandError> {
        self.order("reset sources", &["reset", "sources"])
    }

    /// Has chronyd ask its servers `good` times soon, `most` times at most,
    /// rather than at its next poll, which may be a quarter of an hour away.
    ///
    /// # Errors
    /// It is not there, refuses, or has no server.
    pub fn burst(&self, good: u8, most: u8) -> Result<(), CommandError> {
        self.order("burst", &["burst", &format!("{good}/{most}")])
    }

    fn order(&self, command: &'static str, words: &[&str]) -> Result<(), CommandError> {
        let mut program = Command::new("chronyc");
        // -n: ask no name server.
        program.arg("-n").args(self.options()).args(words);
        let said = answer(&mut program, PATIENCE)
            .map_err(|error| CommandError::NoClient { command, error: error.to_string() })?;
        judge(command, &said)
    }

    fn options(&self) -> Vec<OsString> {
        self.address.as_ref().map(CommandAddress::options).unwrap_or_default()
    }
}

/// What the client says on either stream: an answer goes to the one, that it
/// could not ask to the other.
fn answer(program: &mut Command, patience: Duration) -> std::io::Result<Said> {
    let (mut errors, writer) = std::io::pipe()?;
    let mut said = run(program.stderr(Stdio::from(writer)), patience)?;
    // The program holds the writing end open, and may have been ended.
    rustix::io::ioctl_fionbio(&errors, true)?;
    let mut text = [0; 512];
    if let Ok(length) = std::io::Read::read(&mut errors, &mut text) {
        said.text.push_str(&String::from_utf8_lossy(&text[..length]));
    }
    Ok(said)
}

/// What an answer comes to. Its number tells (`client.c`, `process_line`):
/// 200 done, 501 not authorised, 506 nobody there, others that it failed;
/// without a number the client did not get as far as asking.
fn judge(command: &'static str, said: &Said) -> Result<(), CommandError> {
    let lines = || said.text.lines().map(str::trim);
    let number = |line: &str| line.split_once(' ')?.0.parse::<u16>().ok();
    // What comes before tells of a name server, or of a terminal.
    let last = lines().rev().find(|line| number(line).is_some());
    match last.and_then(number) {
        Some(200) if said.succeeded => Ok(()),
        Some(501) => Err(CommandError::NotAuthorised { command, said: words(said, last) }),
        Some(506) | None => Err(CommandError::NobodyThere { command, said: words(said, last) }),
        Some(_) => Err(CommandError::Failed { command, said: words(said, last) }),
    }
}

fn words(said: &Said, line: Option<&str>) -> String {
    let first = said.text.lines().map(str::trim).find(|line| !line.is_empty());
    line.or(first).unwrap_or(&said.ending).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str, succeeded: bool) -> Result<(), CommandError> {
        let ending = "exit status: 1".to_owned();
        judge("makestep", &Said { text: text.to_owned(), succeeded, ending })
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(judged("200 OK\n", true), Ok(()));
        let error = |text| judged(text, false).unwrap_err().to_string();
        let expected = "chronyc makestep: chronyd refuses it here: 501 Not authorised";
        assert_eq!(error("501 Not authorised\n"), expected);
        let expected = "chronyc makestep: no chronyd answers: 506 Cannot talk to daemon";
        assert_eq!(error("506 Cannot talk to daemon\n"), expected);
        let expected = "chronyc makestep: chronyd could not: 500 Failure";
        assert_eq!(error("500 Failure\n"), expected);
        let expected = "chronyc makestep: no chronyd answers: Could not open connection to daemon";
        assert_eq!(error("Could not open connection to daemon\n"), expected);
        assert_eq!(error(""), "chronyc makestep: no chronyd answers: exit status: 1");
        // Told to be done by a client that says it failed.
        assert!(matches!(judged("200 OK\n", false), Err(CommandError::Failed { .. })));
    }

    #[test]
    fn an_address_becomes_options() {
        let options = |address| Commander { address }.options();
        assert!(options(None).is_empty());
        let unix = options(Some(CommandAddress::Unix("/run/c.sock".into())));
        assert_eq!(unix, ["-h", "/run/c.sock"]);
        let udp = options(Some(CommandAddress::Udp(([127, 0, 0, 1], 323).into())));
        assert_eq!(udp, ["-h", "127.0.0.1", "-p", "323"]);
    }

    #[test]
    fn both_streams_are_heard() {
        let ages = Duration::from_secs(600);
        let said = answer(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 1"]), ages);
        let said = said.unwrap();
        assert_eq!((said.text.as_str(), said.succeeded), ("out\nerr\n", false));
        assert!(answer(&mut Command::new("/no/such/program"), ages).is_err());
    }
}
