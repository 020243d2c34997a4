//! QEMU's machine protocol: JSON objects over a Unix socket, one a line
//! (QEMU: docs/interop/qmp-spec.txt). Every wait has a limit, and an
//! error carries the request and the reply. docs/decisions/structure.md has the reason
//! why this is no library.

use std::collections::VecDeque;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::{Wire, connect};

/// The limit of a command that starts no background work.
const REPLY: Duration = Duration::from_secs(10);

/// The limit of the greeting: a QEMU in an emulated host greets when that has
/// booted, on a busy system.
const GREETING: Duration = Duration::from_secs(150);

/// A connection to one QEMU.
#[derive(Debug)]
pub(crate) struct Qmp {
    wire: Wire,
    /// Events not yet consumed, oldest first.
    events: VecDeque<Value>,
    /// When the guest was stopped, and when it ran on, by QEMU's clock, s.
    stops: Vec<(f64, Option<f64>)>,
    jobs: u32,
}

impl Qmp {
    /// Connects to a QEMU that was just started, and negotiates capabilities.
    pub(crate) fn connect(path: &Path) -> Result<Self, String> {
        Self::over(connect(path)?.into())
    }

    fn over(wire: Wire) -> Result<Self, String> {
        let mut qmp = Self { wire, events: VecDeque::new(), stops: Vec::new(), jobs: 0 };
        let greeting = qmp.object("the greeting", Instant::now(), GREETING)?;
        if greeting.get("QMP").is_none() {
            return Err(format!("QMP: not a greeting: {greeting}"));
        }
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Executes a command, and returns its result.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        self.execute_within(REPLY, command, arguments)
    }

    fn execute_within(
        &mut self,
        limit: Duration,
        command: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        let start = Instant::now();
        let request = json!({ "execute": command, "arguments": arguments });
        self.wire.send(command, format!("{request}\n"))?;
        loop {
            let mut reply = self.object(command, start, limit)?;
            if reply.get("event").is_some() {
                self.events.push_back(reply);
            } else if let Some(returned) = reply.get_mut("return") {
                return Ok(returned.take());
            } else {
                return Err(format!("QMP: {command}: {}", reply.get("error").unwrap_or(&reply)));
            }
        }
    }

    /// The next event of a name; those before it of other names are dropped.
    pub(crate) fn event(&mut self, name: &str, limit: Duration) -> Result<Value, String> {
        self.event_where(name, limit, |_| true)
    }

    fn event_where(
        &mut self,
        name: &str,
        limit: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
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

    /// Has the monitor for people carry out a line, for what QMP has no command; what it says.
    pub(crate) fn monitor(&mut self, line: &str) -> Result<Value, String> {
        self.execute("human-monitor-command", json!({ "command-line": line }))
    }

    /// Stops the guest.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.execute("stop", json!({}))?;
        self.event("STOP", REPLY).map(drop)
    }

    /// Resumes the guest.
    pub(crate) fn cont(&mut self) -> Result<(), String> {
        self.execute("cont", json!({}))?;
        self.event("RESUME", REPLY).map(drop)
    }

    /// From when to when the guest was stopped, by QEMU's clock, s, since this was last asked:
    /// by [`Self::stop`], and while QEMU saves and loads it.
    pub(crate) fn stops(&mut self) -> Vec<(f64, f64)> {
        let stops = std::mem::take(&mut self.stops).into_iter();
        stops.filter_map(|(from_s, to_s)| Some((from_s, to_s?))).collect()
    }

    /// Notes when the guest was stopped and ran on, whoever waits for the event.
    fn note(&mut self, object: &Value) {
        let Some(at_s) = at_s(object) else { return };
        match object.get("event").and_then(Value::as_str) {
            Some("STOP") => self.stops.push((at_s, None)),
            Some("RESUME") => {
                if let Some((_, to_s @ None)) = self.stops.last_mut() {
                    *to_s = Some(at_s);
                }
            }
            _ => {}
        }
    }

    /// Writes the state of a guest to `to`, completely: a stopped one stays.
    pub(crate) fn migrate(&mut self, to: &str, limit: Duration) -> Result<(), String> {
        self.execute("migrate", json!({ "uri": to }))?;
        let state = self.until("query-migrate", &["completed", "failed"], limit)?;
        if state["status"] == "completed" { Ok(()) } else { Err(format!("QMP: migrate: {state}")) }
    }

    /// Polls until the status is one of these.
    fn until(&mut self, query: &str, statuses: &[&str], limit: Duration) -> Result<Value, String> {
        let start = Instant::now();
        loop {
            let state = self.execute(query, json!({}))?;
            let status = state.get("status").and_then(Value::as_str);
            if status.is_some_and(|status| statuses.contains(&status)) {
                return Ok(state);
            }
            if start.elapsed() >= limit {
                let (awaited, limit_s) = (statuses.join(" or "), limit.as_secs_f64());
                return Err(format!("QMP: {query}: no {awaited} within {limit_s} s, only {state}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a command that starts a background job, until the job has ended.
    pub(crate) fn job(
        &mut self,
        command: &str,
        mut arguments: Value,
        limit: Duration,
    ) -> Result<(), String> {
        self.jobs += 1;
        let id = format!("job{}", self.jobs);
        arguments["job-id"] = json!(id);
        // QEMU replies to nothing while it saves or loads.
        self.execute_within(limit, command, arguments)?;
        self.event_where("JOB_STATUS_CHANGE", limit, |event| {
            let word = |path| event.pointer(path).and_then(Value::as_str);
            word("/data/id") == Some(&id) && word("/data/status") == Some("concluded")
        })?;
        let jobs = self.execute("query-jobs", json!({}))?;
        let is_it = |job: &&Value| job.get("id").and_then(Value::as_str) == Some(&id);
        let job = jobs.as_array().into_iter().flatten().find(is_it);
        let error = job.and_then(|job| job.get("error")).cloned();
        self.execute("job-dismiss", json!({ "id": id }))?;
        error.map_or(Ok(()), |error| Err(format!("QMP: job {command}: {error}")))
    }

    /// The next object, within the limit counted from `start`.
    fn object(&mut self, awaited: &str, start: Instant, limit: Duration) -> Result<Value, String> {
        loop {
            if let Some(end) = self.wire.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.wire.received.drain(..=end).collect();
                let object = serde_json::from_slice(&line).ok().filter(Value::is_object);
                object.iter().for_each(|object| self.note(object));
                return object.ok_or_else(|| {
                    let line = String::from_utf8_lossy(&line);
                    format!("QMP: waiting for {awaited}: not a JSON object: {:?}", line.trim_end())
                });
            }
            let received = self.wire.receive(awaited, start, limit);
            received.map_err(|why| format!("QMP: {why}"))?;
        }
    }
}

/// When an event was sent, by QEMU's clock, s since 1970.
pub(crate) fn at_s(event: &Value) -> Option<f64> {
    let part = |key: &str| event.pointer(&format!("/timestamp/{key}"))?.as_f64();
    part("seconds").zip(part("microseconds")).map(|(s, us)| s + us / 1e6)
}

#[cfg(test)]
mod tests;
