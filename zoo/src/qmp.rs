//! QEMU's machine protocol: JSON objects over a Unix socket, one a line
//! (QEMU: docs/interop/qmp-spec.txt). Every wait has a limit, and an
//! error carries the request and the reply. docs/decisions/0019 has the reason
//! why this is no library.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thiserror::Error;

/// The limit of a command that starts no background work.
const REPLY: Duration = Duration::from_secs(10);

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum QmpError {
    #[error("QMP at {path}: {error}")]
    NoConnection { path: String, error: io::Error },
    #[error("QMP: waiting for {awaited}: {error}")]
    Broken { awaited: String, error: io::Error },
    #[error("QMP: waiting for {awaited}: QEMU closed the connection")]
    Closed { awaited: String },
    #[error("QMP: no {awaited} within {limit_s} s")]
    TimedOut { awaited: String, limit_s: f64 },
    #[error("QMP: waiting for {awaited}: not a JSON object: {line:?}")]
    Garbled { awaited: String, line: String },
    #[error("QMP: {command}: {reply}")]
    Refused { command: String, reply: String },
    #[error("QMP: job {command}: {error}")]
    JobFailed { command: String, error: String },
}

/// A connection to one QEMU.
#[derive(Debug)]
pub(crate) struct Qmp {
    stream: UnixStream,
    /// The bytes of an incomplete line.
    partial: Vec<u8>,
    /// Events not yet consumed, oldest first.
    events: VecDeque<Value>,
    jobs: u32,
}

impl Qmp {
    /// Connects to a QEMU that was just started, and negotiates capabilities.
    pub(crate) fn connect(path: &Path) -> Result<Self, QmpError> {
        let start = Instant::now();
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) if start.elapsed() >= REPLY => {
                    return Err(QmpError::NoConnection { path: path.display().to_string(), error });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        Self::over(stream)
    }

    fn over(stream: UnixStream) -> Result<Self, QmpError> {
        let mut qmp = Self { stream, partial: Vec::new(), events: VecDeque::new(), jobs: 0 };
        let greeting = qmp.object("the greeting", Instant::now(), REPLY)?;
        if greeting.get("QMP").is_none() {
            let (awaited, line) = ("the greeting".to_owned(), greeting.to_string());
            return Err(QmpError::Garbled { awaited, line });
        }
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Executes a command, and returns its result.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let start = Instant::now();
        let request = json!({ "execute": command, "arguments": arguments });
        self.stream
            .write_all(format!("{request}\n").as_bytes())
            .map_err(|error| QmpError::Broken { awaited: command.to_owned(), error })?;
        loop {
            let mut reply = self.object(command, start, REPLY)?;
            if reply.get("event").is_some() {
                self.events.push_back(reply);
            } else if let Some(returned) = reply.get_mut("return") {
                return Ok(returned.take());
            } else {
                let reply = reply.get("error").unwrap_or(&reply).to_string();
                return Err(QmpError::Refused { command: command.to_owned(), reply });
            }
        }
    }

    /// The next event of a name; those before it of other names are dropped.
    pub(crate) fn event(&mut self, name: &str, limit: Duration) -> Result<Value, QmpError> {
        self.event_where(name, limit, |_| true)
    }

    fn event_where(
        &mut self,
        name: &str,
        limit: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, QmpError> {
        let start = Instant::now();
        loop {
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => self.object(name, start, limit)?,
            };
            if event.get("event").and_then(Value::as_str) == Some(name) && is_it(&event) {
                return Ok(event);
            }
        }
    }

    /// Stops the guest.
    pub(crate) fn stop(&mut self) -> Result<(), QmpError> {
        self.execute("stop", json!({}))?;
        self.event("STOP", REPLY).map(drop)
    }

    /// Resumes the guest.
    pub(crate) fn cont(&mut self) -> Result<(), QmpError> {
        self.execute("cont", json!({}))?;
        self.event("RESUME", REPLY).map(drop)
    }

    /// Writes the state of a stopped guest to `to`, completely; the guest stays.
    pub(crate) fn migrate(&mut self, to: &str, limit: Duration) -> Result<(), QmpError> {
        self.execute("migrate", json!({ "uri": to }))?;
        self.until("query-migrate", &["completed", "failed"], limit).and_then(|state| {
            let reply = state.to_string();
            if state["status"] == "completed" {
                Ok(())
            } else {
                Err(QmpError::Refused { command: "migrate".to_owned(), reply })
            }
        })
    }

    /// Waits until a QEMU that was started with `-incoming` has loaded the
    /// whole of a stopped guest.
    pub(crate) fn loaded(&mut self, limit: Duration) -> Result<(), QmpError> {
        self.until("query-status", &["paused", "postmigrate"], limit).map(drop)
    }

    /// Polls until the status is one of these.
    fn until(
        &mut self,
        query: &str,
        statuses: &[&str],
        limit: Duration,
    ) -> Result<Value, QmpError> {
        let start = Instant::now();
        loop {
            let state = self.execute(query, json!({}))?;
            let status = state.get("status").and_then(Value::as_str);
            if status.is_some_and(|status| statuses.contains(&status)) {
                return Ok(state);
            }
            if start.elapsed() >= limit {
                let awaited = format!("{query}: {} after {state}", statuses.join(" or "));
                return Err(QmpError::TimedOut { awaited, limit_s: limit.as_secs_f64() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a command that starts a background job, until the job has ended.
    pub(crate) fn job(
        &mut self,
        command: &str,
        mut arguments: Value,
        limit: Duration,
    ) -> Result<(), QmpError> {
        self.jobs += 1;
        let id = format!("job{}", self.jobs);
        arguments["job-id"] = json!(id);
        self.execute(command, arguments)?;
        self.event_where("JOB_STATUS_CHANGE", limit, |event| {
            let word = |path| event.pointer(path).and_then(Value::as_str);
            word("/data/id") == Some(&id) && word("/data/status") == Some("concluded")
        })?;
        let jobs = self.execute("query-jobs", json!({}))?;
        let is_it = |job: &&Value| job.get("id").and_then(Value::as_str) == Some(&id);
        let job = jobs.as_array().into_iter().flatten().find(is_it);
        let error = job.and_then(|job| job.get("error")).map(Value::to_string);
        self.execute("job-dismiss", json!({ "id": id }))?;
        match error {
            Some(error) => Err(QmpError::JobFailed { command: command.to_owned(), error }),
            None => Ok(()),
        }
    }

    /// The next object, within the limit counted from `start`.
    fn object(
        &mut self,
        awaited: &str,
        start: Instant,
        limit: Duration,
    ) -> Result<Value, QmpError> {
        let awaited = || awaited.to_owned();
        loop {
            if let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                return serde_json::from_slice(&line).ok().filter(Value::is_object).ok_or_else(
                    || {
                        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                        QmpError::Garbled { awaited: awaited(), line }
                    },
                );
            }
            let left = limit.saturating_sub(start.elapsed());
            let timed_out =
                || QmpError::TimedOut { awaited: awaited(), limit_s: limit.as_secs_f64() };
            if left.is_zero() {
                return Err(timed_out());
            }
            let broken = |error| QmpError::Broken { awaited: awaited(), error };
            self.stream.set_read_timeout(Some(left)).map_err(broken)?;
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(QmpError::Closed { awaited: awaited() }),
                Ok(length) => self.partial.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(timed_out()),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
