//! `parachron keep` in a guest: whether it runs, and its events.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What there is of it since the last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeepOutput {
    /// How it ended, if it did.
    pub(super) ended: Option<String>,
    /// Its events, such as `corrected step`.
    pub(super) events: Vec<String>,
}

/// The program, inside.
pub(super) struct Keep {
    process: Child,
    events: Receiver<String>,
}

impl Keep {
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["keep", "--format", "json"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let (sender, events) = channel();
        if let Some(output) = process.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.map(|line| event(&line)).try_for_each(|event| sender.send(event))
            });
        }
        Ok(Self { process, events })
    }

    pub(super) fn collect(&mut self) -> KeepOutput {
        let ended = match self.process.try_wait() {
            Ok(status) => status.map(|status| status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        KeepOutput { ended, events: self.events.try_iter().collect() }
    }
}

/// A line of its log: the event, and `how` where the line has it.
fn event(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    let words = ["event", "how"].map(|key| line[key].as_str().unwrap_or_default());
    words.join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_its_name_and_how() {
        let step = r#"{"at_unix_ns":1,"event":"corrected","how":"step","by_ns":5}"#;
        let found = [step, r#"{"event":"started"}"#, "?"].map(event);
        assert_eq!(found, ["corrected step", "started", ""]);
    }
}
