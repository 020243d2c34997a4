//! The client against a QEMU that sends the test's lines.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;
const DONE: &str = r#"{"return": {}}"#;

/// The result of a client on a QEMU that sends these lines and then closes
/// the connection; and what the client sent.
fn with<T>(
    replies: &[&str],
    work: impl FnOnce(&mut Qmp) -> Result<T, String>,
) -> (Result<T, String>, String) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let replies: String =
        [GREETING, DONE].iter().chain(replies).flat_map(|line| [line, "\n"]).collect();
    let sent = thread::spawn(move || {
        theirs.write_all(replies.as_bytes()).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut sent = String::new();
        theirs.read_to_string(&mut sent).unwrap();
        sent
    });
    let result = Qmp::over(ours.into()).and_then(|mut qmp| work(&mut qmp));
    (result, sent.join().unwrap())
}

#[test]
fn a_command_is_sent_and_its_result_returned() {
    let event = r#"{"event": "RTC_CHANGE", "data": {}}"#;
    let (returned, sent) = with(&[event, r#"{"return": {"status": "running"}}"#], |qmp| {
        let status = qmp.execute("query-status", json!({ "a": 1 }))?;
        let event = qmp.event("RTC_CHANGE", REPLY)?;
        Ok((status, event))
    });
    let (status, event) = returned.unwrap();
    assert_eq!(status, json!({ "status": "running" }));
    assert_eq!(event["event"], "RTC_CHANGE");
    let sent: Vec<Value> = sent.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(sent[0]["execute"], "qmp_capabilities");
    assert_eq!(sent[1], json!({ "execute": "query-status", "arguments": { "a": 1 } }));
}

#[test]
fn stop_and_cont_wait_for_their_events() {
    let events = [r#"{"event": "STOP"}"#, DONE, DONE, r#"{"event": "RESUME"}"#];
    let (paused, sent) = with(&events, |qmp| qmp.stop().and_then(|()| qmp.cont()));
    paused.unwrap();
    assert_eq!(sent.lines().count(), 3);
    let (unpaused, _) = with(&[DONE], Qmp::cont);
    assert_eq!(unpaused.unwrap_err(), "QMP: waiting for RESUME: QEMU closed the connection");
}

/// QEMU stops a guest while it saves or loads it: those who wait for the job drop the events.
#[test]
fn it_is_known_from_when_to_when_the_guest_was_stopped() {
    let event = |name: &str, us: u32| {
        format!(r#"{{"event": "{name}", "timestamp": {{"seconds": 100, "microseconds": {us}}}}}"#)
    };
    let events = [event("STOP", 0), event("RESUME", 250_000), event("STOP", 750_000)];
    let last = [event("POWERDOWN", 1), event("RESUME", 900_000), event("SHUTDOWN", 2)];
    let all: Vec<&str> = events.iter().chain(&last).map(String::as_str).collect();
    let (stops, _) = with(&all, |qmp| {
        qmp.event("POWERDOWN", REPLY)?;
        let first = qmp.stops();
        qmp.event("SHUTDOWN", REPLY)?;
        Ok((first, qmp.stops()))
    });
    // What has not ended is not told of, then or later: nobody asks in the middle of one.
    assert_eq!(stops.unwrap(), (vec![(100.0, 100.25)], vec![]));
}

#[test]
fn a_job_is_awaited_and_its_error_reported() {
    let changes = |status: &str| {
        format!(
            r#"{{"event": "JOB_STATUS_CHANGE", "data": {{"id": "job1", "status": "{status}"}}}}"#
        )
    };
    let of_another = changes("concluded").replace("job1", "job9");
    let (running, concluded) = (changes("running"), changes("concluded"));
    for (jobs, expected) in [
        (r#"{"return": [{"id": "job1"}]}"#, Ok(())),
        (
            r#"{"return": [{"id": "job9"}, {"id": "job1", "error": "no space"}]}"#,
            Err("QMP: job snapshot-save: \"no space\"".to_owned()),
        ),
    ] {
        let replies = [&running, DONE, &of_another, &concluded, jobs, DONE];
        let (done, sent) =
            with(&replies, |qmp| qmp.job("snapshot-save", json!({ "tag": "x" }), REPLY));
        assert_eq!(done, expected);
        assert!(sent.contains(r#""job-id":"job1""#), "{sent}");
        assert!(sent.contains("job-dismiss"), "{sent}");
    }
}

#[test]
fn each_error_is_named() {
    let refused = r#"{"error": {"class": "CommandNotFound", "desc": "The command x"}}"#;
    let (result, _) = with(&[refused], |qmp| qmp.execute("x", json!({})));
    let error = result.unwrap_err();
    assert!(error.starts_with("QMP: x: ") && error.contains("The command x"), "{error}");
    let (result, _) = with(&["[1]"], |qmp| qmp.execute("x", json!({})));
    assert_eq!(result.unwrap_err(), "QMP: waiting for x: not a JSON object: \"[1]\"");
    let (result, _) = with(&["{\"return"], |qmp| qmp.execute("x", json!({})));
    assert_eq!(result.unwrap_err(), "QMP: waiting for x: not a JSON object: \"{\\\"return\"");
    let (result, _) = with(&[], |qmp| qmp.execute("x", json!({})));
    assert_eq!(result.unwrap_err(), "QMP: waiting for x: QEMU closed the connection");
}

#[test]
fn an_unresponsive_qemu_is_waited_for_within_the_limit() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(format!("{GREETING}\n{DONE}\n{{\"event\":").as_bytes()).unwrap();
    let mut qmp = Qmp::over(ours.into()).unwrap();
    let error = qmp.event("STOP", Duration::from_millis(30)).unwrap_err();
    assert_eq!(error, "QMP: no STOP within 0.03 s, only \"{\\\"event\\\":\"");
    // The half line is not lost.
    theirs.write_all(b" \"STOP\"}\n").unwrap();
    qmp.event("STOP", REPLY).unwrap();
}
