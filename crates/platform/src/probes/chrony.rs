//! chronyd's own view, asked through its client.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::fact::{Fact, Unknown};

/// chronyd answers in well under a millisecond, or not at all.
const PATIENCE: Duration = Duration::from_millis(500);

/// A tracking report is a line of about 200 bytes.
const LIMIT_BYTES: u64 = 4096;

const WHAT: &str = "chronyc -c -n tracking";

/// The line of `chronyc -c -n tracking`.
pub(crate) fn tracking() -> Fact<String> {
    // -c: comma-separated; -n: ask no name server.
    let child = Command::new("chronyc")
        .args(["-c", "-n", "tracking"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    match child {
        Ok(mut child) => {
            let answer = listen(&mut child);
            // Where it has ended by itself, this changes nothing.
            let _ = child.kill();
            let ended = child.wait();
            match (answer, ended) {
                (Ok(text), Ok(status)) if status.success() => Fact::Known(text),
                (Ok(text), Ok(_)) if !text.is_empty() => unreadable(text.trim()),
                (Err(error), _) | (_, Err(error)) => unreadable(&error.to_string()),
                (Ok(_), Ok(status)) => unreadable(&status.to_string()),
            }
        }
        Err(error) => Fact::Unknown(Unknown::from_io("chronyc", &error)),
    }
}

fn unreadable(error: &str) -> Fact<String> {
    Fact::Unknown(Unknown::Unreadable { what: WHAT.to_owned(), error: error.to_owned() })
}

/// What it writes, as long as patience lasts.
fn listen(child: &mut Child) -> std::io::Result<String> {
    let Some(mut output) = child.stdout.take() else { return Ok(String::new()) };
    let until = Instant::now() + PATIENCE;
    let mut text = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(std::io::Error::other)?;
        let mut waiting = [PollFd::new(&output, PollFlags::IN)];
        if rustix::event::poll(&mut waiting, Some(&timeout))? == 0 {
            let text = format!("no answer in {} ms", PATIENCE.as_millis());
            return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text));
        }
        let mut part = [0; 512];
        let length = output.read(&mut part)?;
        text.extend_from_slice(&part[..length]);
        if length == 0 || text.len() as u64 >= LIMIT_BYTES {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
    }
}
