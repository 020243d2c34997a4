//! `parachron watch`: how it begins and ends.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::program::shared;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn event(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    line["event"].as_str().expect("an event").to_owned()
}

#[test]
fn watch_ends_by_its_duration() {
    let Some(program) = &shared(&[]) else { return };
    let output = program.run(&["watch", "--duration", "300ms", "--format", "json"]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    let events: Vec<String> = output.out.lines().map(event).collect();
    assert_eq!(events.first().map(String::as_str), Some("started"), "{events:?}");
    assert_eq!(events.last().map(String::as_str), Some("summary"), "{events:?}");
}

/// A signal ends it with a summary and code 0.
#[test]
fn watch_ends_at_ctrl_c() {
    let Some(program) = &shared(&[]) else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = program.command(&["watch", "--format", "json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        // After its first line it handles signals.
        let mut line = String::new();
        out.read_line(&mut line).expect("a first line");
        assert_eq!(event(&line), "started");
        kill_process(Pid::from_child(&child), signal).expect("our own child");
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text to the end");
        let status = child.wait().expect("our own child");
        assert_eq!(status.code(), Some(0), "{signal:?}: {rest}");
        assert_eq!(event(rest.lines().last().expect("a last line")), "summary");
    }
}

/// Without a duration nothing else ends it.
#[test]
fn watch_ends_with_its_reader() {
    let Some(program) = &shared(&[]) else { return };
    let mut command = program.command(&["watch"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a first line");
    drop(out);
    assert_eq!(child.wait().expect("our own child").code(), Some(0));
}
