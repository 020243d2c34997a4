//! `bench`: its options, and what becomes of its report.

use std::fs;
use std::process::Stdio;

use crate::need::Need;
use crate::program::{ProgramOutput, shared};
use serde_json::Value;

#[test]
fn tables_fit_80_columns() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run(&["bench", "--duration", "200ms"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let wide: Vec<&str> = said.out.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    assert!(said.out.contains("Cost of a call under clocksource "), "{}", said.out);
}

fn json(said: &ProgramOutput) -> Value {
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    serde_json::from_str(&said.out).expect("JSON")
}

#[test]
fn only_what_is_requested_is_timed() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run(&[
        "bench",
        "--duration",
        "10ms",
        "--only",
        "BOOTTIME",
        "--only",
        "gettimeofday",
        "--format",
        "json",
        "--samples",
        "32",
    ]);
    let report = json(&said);
    let costs = report["runs"][0]["costs"].as_array().expect("costs");
    let calls: Vec<_> = costs.iter().filter_map(|cost| cost["call"].as_str()).collect();
    assert_eq!(calls, ["gettimeofday", "clock_gettime(CLOCK_BOOTTIME)"]);
    assert!(costs.iter().all(|cost| cost["samples"].as_u64() <= Some(32)), "{costs:#?}");
}

#[test]
fn nonsense_is_refused() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run(&["bench", "--only", "sundial"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.starts_with("parachron: no call has \"sundial\" in its name\n  try: "));
    let said = program.run(&["bench", "--duration", "soon"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("expected a time such as 2s, 500ms or 5min"), "{}", said.err);
}

const SHORT: [&str; 5] = ["bench", "--duration", "10ms", "--only", "monotonic"];

#[test]
fn a_plot_is_a_picture() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("plot.svg");
    let plot = ["--plot", path.to_str().expect("UTF-8")];
    let said = program.run(&[&SHORT[..], &plot].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let svg = fs::read_to_string(&path).expect("a plot");
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("CLOCK_MONOTONIC_RAW"), "{svg}");
}

#[test]
fn no_report_is_lost_with_its_plot() {
    let Some(program) = &shared(&[Need::Path("/dev/full")]) else { return };
    let said = program.run(&[&SHORT[..], &["--plot", "/dev/full"]].concat());
    assert_eq!(said.code, Some(2));
    assert!(said.out.contains("CLOCK_MONOTONIC_RAW"), "{}", said.out);
    assert!(said.err.contains("cannot write /dev/full: No space left on device"), "{}", said.err);
}

#[test]
fn no_plot_is_lost_with_its_report() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("plot.svg");
    let plot = ["--plot", path.to_str().expect("UTF-8")];
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = program.command(&[&SHORT[..], &plot].concat());
    let output = command.stdout(writer).stderr(Stdio::piped()).output().expect("it starts");
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    assert!(fs::read_to_string(&path).expect("a plot").contains("</svg>"));
}
