//! What `parachron drift` says when it cannot measure, or when what it
//! measures with goes wrong: a cause, a remedy, and what was had until then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use crate::need::Need;
use crate::ntp_server::{Behaviour, NtpServer};
use crate::program::{ProgramOutput, alone, shared};
use serde_json::Value;

use crate::drift::{measure, report};

#[test]
fn drift_tells_what_is_wrong() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let short = ["--duration", "300ms", "--interval", "100ms"];
    let told = |behaviour: Behaviour, what: &str| {
        let server = NtpServer::start(behaviour);
        let said = measure(program, &server, &short);
        assert_eq!(said.code, Some(2), "{}", said.out);
        assert!(said.err.contains(what) && said.err.contains("\n  try: "), "{}", said.err);
    };
    told(Behaviour { leap: 3, ..Behaviour::default() }, "reports that it is not synchronised");
    told(Behaviour { cut_to: Some(40), ..Behaviour::default() }, "invalid reply");
    told(Behaviour { loss_one_of: 1, ..Behaviour::default() }, "no reply within 1000 ms");
    let server = NtpServer::start(Behaviour::default());
    let name = server.name();
    server.stop();
    let said = program.run(&["drift", "--ntp", &name, "--duration", "300ms"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("connection refused on UDP port"), "{}", said.err);
    for (arguments, what) in [
        (&["drift", "--ntp", "no-such-host.invalid"][..], "no address found"),
        (&["drift", "--phc", "/dev/null"], "cannot read /dev/null"),
        (&["drift", "--phc", "/dev/null,tai=37"], "cannot read /dev/null: not readable"),
        (&["drift", "--phc", "/dev/null,gps"], "/dev/ptp1,tai or /dev/ptp1,tai=37, found"),
        (&["drift", "--vmclock=/dev/null"], "cannot read /dev/null"),
        (&["drift", "--plot", "/no/such/folder/run.svg"], "cannot write /no/such/folder/run.svg"),
        (&["drift", "--max-offset", "1ms", "--clock", "raw"], "--max-offset was not checked"),
        (&["drift", "--duration", "0s"], "expected a time such as"),
        (&["drift", "--ntp", "127.0.0.1", "--ntp", "127.0.0.1"], "is given twice"),
        (&["drift", "--ntp", "127.0.0.1", "--ntp", "127.0.0.1:123"], "are one server, 127.0.0.1"),
    ] {
        let said = program.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}");
        assert!(said.err.contains(what), "{}", said.err);
    }
}

/// In a network of its own, which leads nowhere.
#[test]
fn drift_tells_that_there_is_no_route() {
    let Some(program) = &shared(&[Need::Root, Need::Tool("unshare")]) else { return };
    let output = Command::new("unshare")
        .arg("--net")
        .arg(program.path())
        .args(["drift", "--ntp", "192.0.2.1", "--clock", "raw", "--duration", "300ms"])
        .output();
    let said = ProgramOutput::from(output.expect("unshare starts"));
    assert_eq!(said.code, Some(2), "{}", said.out);
    let cause = "192.0.2.1: unreachable: Network is unreachable";
    assert!(said.err.contains(cause) && said.err.contains("\n  try: use another"), "{}", said.err);
}

#[test]
fn drift_finds_a_step_and_cuts_it_out() {
    // 0.5 s of 4 s would be 120000 ppm.
    step_is_cut_out(50.0, 12_000.0);
}

#[test]
#[ignore = "nightly: timing"]
fn drift_is_right_beside_a_cut_step() {
    step_is_cut_out(1.0, 500.0);
}

fn step_is_cut_out(most_off_ms: f64, most_ppm: f64) {
    let Some(program) = &alone(&[Need::Loopback]) else { return };
    let step = Some((Duration::from_millis(1500), 0.5));
    let server = NtpServer::start(Behaviour { step, ..Behaviour::default() });
    let name = server.name();
    let arguments = ["drift", "--ntp", &name, "--clock", "monotonic", "--clock", "raw"];
    let timing = ["--duration", "4s", "--interval", "50ms", "--format", "json"];
    let said = program.run(&[&arguments[..], &timing].concat());
    // No reference to rely on; what was measured is shown.
    assert_eq!(said.code, Some(2), "{}", said.out);
    let (_, after) = said.err.split_once("the reference stepped by +").expect(&said.err);
    let (step_ms, after) = after.split_once(" ms").expect(&said.err);
    assert!(after.starts_with(", not the clocks"), "{}", said.err);
    // Printed to the millisecond.
    let off_ms = (step_ms.parse::<f64>().expect(&said.err) - 500.0).abs();
    assert!(off_ms <= most_off_ms, "a step of {step_ms} ms, not 500");
    assert!(said.err.contains("\n  try: measure again, with another reference"), "{}", said.err);
    let report = report(&said);
    for pair in report["pairs"].as_array().expect("pairs") {
        let steps = pair["drift"]["steps"].as_array().expect("steps");
        let [step] = &steps[..] else { panic!("{report:#}") };
        let (ns, bound) = (step["ns"].as_f64().expect("ns"), step["bound_ns"].as_f64());
        // The server forward is the clock back.
        assert!((ns + 5e8).abs() <= bound.expect("a bound"), "{step}");
        let frequency = pair["drift"]["frequency"]["ppm"].as_f64().expect("a frequency");
        assert!(frequency.abs() <= most_ppm, "{frequency} ppm");
    }
}

/// A server that never replies takes a second of all others' time each time
/// it is queried: it is, twice, and then not before 8 s are over.
#[test]
fn drift_waits_for_a_dead_server_seldom() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let dead = NtpServer::start(Behaviour { loss_one_of: 1, ..Behaviour::default() });
    let good = NtpServer::start(Behaviour::default());
    let names = [dead.name(), good.name()];
    let mut arguments = vec!["drift", "--ntp", &names[0], "--ntp", &names[1]];
    arguments.extend(["--clock", "monotonic", "--format", "json"]);
    arguments.extend(["--duration", "5s", "--interval", "50ms"]);
    let said = program.run(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let first = format!("parachron: the first comparison with ntp {} failed: ", names[0]);
    assert!(said.err.starts_with(&first) && said.err.lines().count() == 1, "{}", said.err);
    let told = report(&said);
    assert_eq!(told["references"][0]["made"], 0, "{told:#}");
    assert_eq!(dead.stop(), 2, "{told:#}");
}

/// One wrong answer in fifty once made a list of steps, and that list once more as
/// one line of 4000 characters.
#[test]
fn drift_says_an_error_once_and_shortly() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let said_of = |behaviour| {
        let server = NtpServer::start(behaviour);
        program.run(&["drift", "--ntp", &server.name(), "--duration", "6s", "--interval", "20ms"])
    };
    let said = said_of(Behaviour { wrong_one_of: Some((50, 0.5)), ..Behaviour::default() });
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    assert!(!said.out.contains("step"), "{}", said.out);
    // A step that lasts is an error: a line of cause and one of remedy, whatever the
    // number of clocks.
    let said = said_of(Behaviour { step_at_request: Some((100, -0.5)), ..Behaviour::default() });
    assert_eq!(said.code, Some(2), "{}", said.out);
    let lines: Vec<&str> = said.err.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("  try: "), "{}", said.err);
    assert!(lines.iter().all(|line| line.chars().count() < 200), "{}", said.err);
}

/// One clock against one server: nothing shows which of the two it was, so
/// no budget is kept to.
#[test]
fn drift_tells_of_a_lone_step() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let step_at_request = Some((20, -0.5));
    let server = NtpServer::start(Behaviour { step_at_request, ..Behaviour::default() });
    let timing = ["--duration", "4s", "--interval", "50ms", "--max-ppm", "100000"];
    let said = measure(program, &server, &timing);
    assert_eq!(said.code, Some(2), "{}", said.out);
    let cause = "monotonic went forward by 500 ms at ";
    assert!(said.err.contains(cause), "{} {}", said.err, said.out);
    assert!(said.err.contains(&format!("or ntp {} back", server.name())), "{}", said.err);
}

#[test]
fn drift_bears_a_server_that_goes_and_comes() {
    // The second that it was away is no step: 2000 ppm, and not some 100000.
    absence_is_no_step(1000.0);
}

#[test]
#[ignore = "nightly: timing"]
fn drift_is_right_beside_an_absence() {
    absence_is_no_step(200.0);
}

fn absence_is_no_step(most_off_ppm: f64) {
    let Some(program) = &alone(&[Need::Loopback]) else { return };
    let away = Some((Duration::from_millis(1500), Duration::from_millis(3500)));
    let server = NtpServer::start(Behaviour { ppm: 2000.0, away, ..Behaviour::default() });
    let name = server.name();
    let arguments = ["drift", "--ntp", &name, "--clock", "monotonic"];
    let timing = ["--duration", "6s", "--format", "json"];
    let said = program.run(&[&arguments[..], &timing].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let told = report(&said);
    let failure = &told["references"][0]["failures"][0];
    assert!(
        failure["what"].as_str().expect("words").contains("no reply within 1000 ms"),
        "{told:#}"
    );
    let drift = &told["pairs"][0]["drift"];
    assert!(drift["span_s"].as_f64().expect("a time") > 4.0, "{told:#}");
    assert_eq!(drift["steps"], Value::Array(Vec::new()), "{told:#}");
    let ppm = drift["frequency"]["ppm"].as_f64().expect("a frequency");
    assert!((ppm + 2000.0).abs() <= most_off_ppm, "{ppm}");
}

#[test]
fn drift_keeps_what_a_server_told_while_right() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let unsynchronised_from = Some(9);
    let server = NtpServer::start(Behaviour { unsynchronised_from, ..Behaviour::default() });
    let said = measure(program, &server, &["--duration", "3s", "--format", "json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let told = report(&said);
    let reference = &told["references"][0];
    let failure = reference["failures"][0]["what"].as_str().expect("words");
    assert!(failure.ends_with("reports that it is not synchronised"), "{told:#}");
    let (tried, made) = (reference["tried"].as_u64(), reference["made"].as_u64());
    assert!(made > Some(0) && made <= Some(8) && made < tried, "{told:#}");
    // From right to an hour off, and the way back: no reference at all.
    let step_at_request = Some((9, -3600.0));
    let server = NtpServer::start(Behaviour { step_at_request, ..Behaviour::default() });
    let said = measure(program, &server, &["--duration", "3s", "--format", "json"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    let told = report(&said);
    // Up to 3 s of the hour have passed.
    let back = ["59.9", "60.0"]
        .map(|minutes| format!("readings left out: the reference went back, to {minutes} min"));
    assert!(back.iter().any(|back| said.err.contains(back)), "{}", said.err);
    // Two wrong ones in a row are dropped as outliers, the third shows the step.
    let of = |what: &str| told["pairs"][0]["drift"][what].as_u64().expect("a count");
    let (readings, outliers) = (of("readings"), of("outliers"));
    assert!(outliers <= 2 && (1..=8).contains(&(readings - outliers)), "{told:#}");
}

#[test]
fn drift_tells_what_is_not_permitted() {
    let Some(program) = &shared(&[Need::Root, Need::Loopback]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
    let clock = folder.path().join("clock");
    let file = clock.to_str().expect("UTF-8");
    let refused = |arguments: &[&str], what: &str| {
        let said =
            program.run_unprivileged(&[&["drift", "--duration", "300ms"], arguments].concat());
        assert_eq!(said.code, Some(2), "{} {}", said.out, said.err);
        assert!(said.err.contains(what) && said.err.contains("\n  try: "), "{}", said.err);
    };
    refused(&["--plot", file], &format!("cannot write {file}: Permission denied"));
    fs::write(&clock, "").expect("our own folder");
    fs::set_permissions(&clock, fs::Permissions::from_mode(0o600)).expect("our own file");
    refused(&["--phc", file], &format!("cannot read {file}: "));
    refused(&[&format!("--vmclock={file}")], &format!("cannot read {file}: "));
    // To measure, nobody needs to be anybody.
    let server = NtpServer::start(Behaviour::default());
    let name = server.name();
    let said = program.run_unprivileged(&["drift", "--ntp", &name, "--duration", "300ms"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}
