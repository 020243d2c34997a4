//! chronyd's own view, asked through its client.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use facts::{Fact, Unknown};

/// chronyd answers in well under a millisecond, or not at all.
const PATIENCE: Duration = Duration::from_millis(500);

/// A tracking report is a line of about 200 bytes.
const LIMIT_BYTES: usize = 4096;

const WHAT: &str = "chronyc -c -n tracking";

/// The line of `chronyc -c -n tracking`.
pub(crate) fn tracking() -> Fact<String> {
    tracking_of(&[])
}

/// The same of the chronyd that `server` says, as options of chronyc.
pub(crate) fn tracking_of(server: &[OsString]) -> Fact<String> {
    // -c: comma-separated; -n: ask no name server.
    ask(Command::new("chronyc").args(["-c", "-n"]).args(server).arg("tracking"), PATIENCE)
}

/// What a program answers, as long as patience lasts.
fn ask(program: &mut Command, patience: Duration) -> Fact<String> {
    match run(program.stderr(Stdio::null()), patience) {
        Ok(Said { text, succeeded: true, .. }) => Fact::Known(text),
        Ok(Said { text, .. }) if !text.trim().is_empty() => unreadable(text.trim()),
        Ok(Said { ending, .. }) => unreadable(&ending),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            Fact::Unknown(crate::privilege::why("chronyc", &error))
        }
        Err(error) => unreadable(&error.to_string()),
    }
}

/// What a program said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Its standard output, and what else was led there.
    pub(crate) text: String,
    /// It ended with 0.
    pub(crate) succeeded: bool,
    /// How it ended: `exit status: 1`.
    pub(crate) ending: String,
}

/// Runs a program, which is ended when patience is.
pub(crate) fn run(program: &mut Command, patience: Duration) -> std::io::Result<Said> {
    let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let answer = listen(&mut child, patience);
    if answer.is_err() {
        // It may have ended meanwhile, which is as good.
        let _ = child.kill();
    }
    let status = child.wait()?;
    Ok(Said { text: answer?, succeeded: status.success(), ending: status.to_string() })
}

fn unreadable(error: &str) -> Fact<String> {
    Fact::Unknown(Unknown::Unreadable { what: WHAT.to_owned(), error: error.to_owned() })
}

fn listen(child: &mut Child, patience: Duration) -> std::io::Result<String> {
    let Some(mut output) = child.stdout.take() else { return Ok(String::new()) };
    let until = Instant::now() + patience;
    let mut text = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(std::io::Error::other)?;
        let mut waiting = [PollFd::new(&output, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut waiting, Some(&timeout)));
        if ready? == 0 {
            let text = format!("no answer in {} ms", patience.as_millis());
            return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text));
        }
        let mut part = [0; 512];
        let length = output.read(&mut part)?;
        text.extend_from_slice(&part[..length]);
        if length == 0 {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        if text.len() > LIMIT_BYTES {
            return Err(std::io::Error::other(format!("more than {LIMIT_BYTES} bytes")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any test: only what should hang is let run into it.
    const AGES: Duration = Duration::from_secs(600);

    fn sh(script: &str, patience: Duration) -> Fact<String> {
        ask(Command::new("/bin/sh").args(["-c", script]), patience)
    }

    fn why(fact: &Fact<String>) -> String {
        fact.unknown().unwrap().to_string()
    }

    #[test]
    fn an_answer_is_taken_whole() {
        assert_eq!(sh("printf 'a,'; printf 'b\\n'", AGES), Fact::Known("a,b\n".into()));
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let fact = sh("echo '506 Cannot talk to daemon'; exit 1", AGES);
        assert_eq!(why(&fact), "not readable: chronyc -c -n tracking: 506 Cannot talk to daemon");
        assert_eq!(
            why(&sh("exit 3", AGES)),
            "not readable: chronyc -c -n tracking: exit status: 3"
        );
    }

    #[test]
    fn a_program_that_hangs_or_babbles_is_ended() {
        let fact = sh("exec sleep 600", Duration::from_millis(20));
        assert_eq!(why(&fact), "not readable: chronyc -c -n tracking: no answer in 20 ms");
        let fact = sh("exec yes", AGES);
        assert_eq!(why(&fact), "not readable: chronyc -c -n tracking: more than 4096 bytes");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_there() {
        let fact = ask(&mut Command::new("/no/such/program"), AGES);
        assert_eq!(why(&fact), "not there: chronyc");
    }
}
