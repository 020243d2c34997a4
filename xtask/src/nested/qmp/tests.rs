//! The client against a QEMU that says what the test gives it.

use std::thread;

use super::*;

const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;
const DONE: &str = r#"{"return": {}}"#;

/// What a client gets of a QEMU that says these lines, one after each line
/// that it reads, and then closes; and what it was asked.
fn with<T>(
    said: &[&str],
    work: impl FnOnce(&mut Qmp) -> Result<T, QmpError>,
) -> (Result<T, String>, String) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let said: String = [GREETING, DONE].iter().chain(said).flat_map(|line| [line, "\n"]).collect();
    let asked = thread::spawn(move || {
        theirs.write_all(said.as_bytes()).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut asked = String::new();
        theirs.read_to_string(&mut asked).unwrap();
        asked
    });
    let result = Qmp::over(ours).and_then(|mut qmp| work(&mut qmp)).map_err(|e| e.to_string());
    (result, asked.join().unwrap())
}

#[test]
fn a_command_is_asked_and_its_return_handed_on() {
    let event = r#"{"event": "RTC_CHANGE", "data": {}}"#;
    let (returned, asked) = with(&[event, r#"{"return": {"status": "running"}}"#], |qmp| {
        let status = qmp.execute("query-status", json!({ "a": 1 }))?;
        let event = qmp.event("RTC_CHANGE", AT_ONCE)?;
        Ok((status, event))
    });
    let (status, event) = returned.unwrap();
    assert_eq!(status, json!({ "status": "running" }));
    assert_eq!(event["event"], "RTC_CHANGE");
    let asked: Vec<Value> = asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked[0]["execute"], "qmp_capabilities");
    assert_eq!(asked[1], json!({ "execute": "query-status", "arguments": { "a": 1 } }));
}

#[test]
fn a_pause_is_over_when_its_event_came() {
    let events = [r#"{"event": "STOP"}"#, DONE, DONE, r#"{"event": "RESUME"}"#];
    let (paused, asked) = with(&events, |qmp| qmp.stop().and_then(|()| qmp.cont()));
    paused.unwrap();
    assert_eq!(asked.lines().count(), 3);
    let (unpaused, _) = with(&[DONE], Qmp::cont);
    assert_eq!(unpaused.unwrap_err(), "QMP: waiting for RESUME: QEMU closed the connection");
}

#[test]
fn a_job_is_followed_to_its_end_and_its_error_told() {
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
        let said = [&running, DONE, &of_another, &concluded, jobs, DONE];
        let (done, asked) =
            with(&said, |qmp| qmp.job("snapshot-save", json!({ "tag": "x" }), AT_ONCE));
        assert_eq!(done, expected);
        assert!(asked.contains(r#""job-id":"job1""#), "{asked}");
        assert!(asked.contains("job-dismiss"), "{asked}");
    }
}

#[test]
fn what_went_wrong_is_named() {
    let refused = r#"{"error": {"class": "CommandNotFound", "desc": "The command x"}}"#;
    let (result, _) = with(&[refused], |qmp| qmp.execute("x", json!({})));
    let said = result.unwrap_err();
    assert!(said.starts_with("QMP: x: ") && said.contains("The command x"), "{said}");
    let (result, _) = with(&["[1]"], |qmp| qmp.execute("x", json!({})));
    assert_eq!(result.unwrap_err(), "QMP: waiting for x: no JSON object but \"[1]\"");
    let (result, _) = with(&["{\"return"], |qmp| qmp.execute("x", json!({})));
    assert_eq!(result.unwrap_err(), "QMP: waiting for x: no JSON object but \"{\\\"return\"");
    let (result, _) = with(&[], |qmp| qmp.execute("x", json!({})));
    assert_eq!(result.unwrap_err(), "QMP: waiting for x: QEMU closed the connection");
}

#[test]
fn a_silent_qemu_is_waited_for_no_longer_than_said() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(format!("{GREETING}\n{DONE}\n{{\"event\":").as_bytes()).unwrap();
    let mut qmp = Qmp::over(ours).unwrap();
    let said = qmp.event("STOP", Duration::from_millis(30)).unwrap_err().to_string();
    assert_eq!(said, "QMP: STOP did not come within 0.03 s");
    // The half line is not lost.
    theirs.write_all(b" \"STOP\"}\n").unwrap();
    qmp.event("STOP", AT_ONCE).unwrap();
}
