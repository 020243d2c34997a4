//! qemu-guest-agent's protocol: JSON, a line each way
//! (qga/qapi-schema.json of QEMU).
//!
//! Its clock is set only where it is wrong for certain: by more than the time that
//! asking took and this host's own error.

use linux::clock::pair;
use pvclock::units::OffsetBound;
use serde_json::{Value, json};

use crate::tell::connection::GuestConnection;
use crate::tell::host::HostState;
use crate::tell::{TellFailure, TellOutcome, offset};

/// The longest reply that is read.
pub const MAX_REPLY_BYTES: usize = 4096;

/// What an agent drops its half of a command for, and begins its reply to
/// `guest-sync-delimited` with: no byte of JSON.
const DELIMITER: u8 = 0xff;

/// Sets the guest's clock to this host's, if it is off.
pub(crate) fn set_time(
    connection: &mut GuestConnection,
    host: HostState,
) -> Result<TellOutcome, TellFailure> {
    synchronise(connection)?;
    let before = ask_time(connection)?;
    let doubt_ns = before.bound_ns.saturating_add(host.bound_ns());
    if before.offset_ns.unsigned_abs() <= doubt_ns {
        return Ok(TellOutcome { before, after: None, answers: 0 });
    }
    // By when it sets the clock, as long will have passed as asking took one way.
    let now_ns = pair().map_err(TellFailure::Broken)?.realtime_ns;
    let time_ns = now_ns.saturating_add(before.bound_ns);
    let time = json!({ "execute": "guest-set-time", "arguments": { "time": time_ns } });
    let set = call(connection, &time);
    let after = ask_time(connection)?;
    let is_set = after.offset_ns.unsigned_abs() < before.offset_ns.unsigned_abs() / 2;
    match set {
        // It sets the clock first, and then fails to write the RTC
        // (qmp_guest_set_time, qga/commands-posix.c).
        Err(TellFailure::Refused(_)) if is_set => {}
        set => _ = set?,
    }
    Ok(TellOutcome { before, after: Some(after), answers: 1 })
}

fn ask_time(connection: &mut GuestConnection) -> Result<OffsetBound, TellFailure> {
    let from_ns = pair().map_err(TellFailure::Broken)?.realtime_ns;
    let reply = call(connection, &json!({ "execute": "guest-get-time" }))?;
    let read_ns = reply.as_u64().ok_or_else(|| {
        TellFailure::Nonsense(format!("the agent's time is {reply}, not ns since 1970"))
    })?;
    offset(read_ns, from_ns)
}

/// Drops what an earlier client left in the channel, and what comes until the reply.
fn synchronise(connection: &mut GuestConnection) -> Result<(), TellFailure> {
    let id = pair().map_err(TellFailure::Broken)?.monotonic_ns & 0x7fff_ffff;
    let sync = json!({ "execute": "guest-sync-delimited", "arguments": { "id": id } });
    connection.send(&[DELIMITER])?;
    connection.send(format!("{sync}\n").as_bytes())?;
    let mut dropped = 0;
    loop {
        let mut byte = [0];
        connection.receive(&mut byte, "reply from the guest's agent")?;
        if byte[0] == DELIMITER && returned(&line(connection)?)? == json!(id) {
            return Ok(());
        }
        dropped += 1;
        if dropped > MAX_REPLY_BYTES {
            return Err(TellFailure::Nonsense("the agent's replies have no end".to_owned()));
        }
    }
}

fn call(connection: &mut GuestConnection, command: &Value) -> Result<Value, TellFailure> {
    connection.send(format!("{command}\n").as_bytes())?;
    returned(&line(connection)?)
}

/// The next line.
fn line(connection: &mut GuestConnection) -> Result<Vec<u8>, TellFailure> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() <= MAX_REPLY_BYTES {
        connection.receive(&mut byte, "reply from the guest's agent")?;
        if byte[0] == b'\n' {
            return Ok(line);
        }
        line.push(byte[0]);
    }
    Err(TellFailure::Nonsense(format!("the agent's reply is longer than {MAX_REPLY_BYTES} bytes")))
}

/// What a reply returns.
fn returned(line: &[u8]) -> Result<Value, TellFailure> {
    let reply: Value = serde_json::from_slice(line).map_err(|error| {
        TellFailure::Nonsense(format!("the agent's reply is not JSON: {error}"))
    })?;
    if let Some(error) = reply.get("error") {
        let why = error.get("desc").and_then(Value::as_str).unwrap_or("it does not say why");
        return Err(TellFailure::Refused(why.chars().take(200).collect()));
    }
    reply.get("return").cloned().ok_or_else(|| {
        TellFailure::Nonsense("the agent's reply has neither \"return\" nor \"error\"".to_owned())
    })
}
