//! `parachron keep`: known errors in, what it would do out. None of these
//! sets this machine's clock: they run dry, or without CAP_SYS_TIME.

pub(crate) mod clockbound;
pub(crate) mod others;
pub(crate) mod service;

use std::time::Duration;

use crate::need::Need;
use crate::ntp_server::{Behaviour, NtpServer};
use crate::program::{Program, ProgramOutput, shared};
use serde_json::Value;

use crate::formats::keeps_to;

/// No other daemon conflicts, and the sources are the test's own.
const ALONE: [&str; 4] = ["keep", "--force", "--no-source", "vmclock,phc,rtc"];

fn by_itself<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ALONE[..], more].concat()
}

/// Nothing is set.
fn dry<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ALONE[..], &["--dry-run"], more].concat()
}

/// A run to its end, in JSON. Replies may be slow: the machine may be busy with
/// other tests.
fn kept(program: &Program, servers: &[&NtpServer], more: &[&str]) -> (ProgramOutput, Vec<Value>) {
    let names: Vec<String> = servers.iter().map(|server| server.name()).collect();
    let mut arguments = dry(&["--format", "json", "--timeout", "1s"]);
    arguments.extend(names.iter().flat_map(|name| ["--ntp", name.as_str()]));
    arguments.extend(more);
    let said = program.run(&arguments);
    let lines = said.out.lines().map(parsed).collect();
    (said, lines)
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn of<'v>(lines: &'v [Value], event: &str) -> Vec<&'v Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Whether a line's correction is this much, within its own bound.
fn is_by(line: &Value, by_s: f64) -> bool {
    (ns(line, "by_ns") - by_s * 1e9).abs() <= ns(line, "bound_ns") + 1000.0
}

fn ns(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap()
}

/// The one correction, which is this much. On a busy machine a reply takes its time, and a better
/// one takes off what the first may have been wrong by; more than that is a second correction.
fn only_correction<'v>(lines: &'v [Value], how: &str, by_s: f64) -> &'v Value {
    let corrections = of(lines, "corrected");
    let Some((first, after)) = corrections.split_first() else { panic!("none of {lines:?}") };
    assert!(first["how"] == how && is_by(first, by_s), "{first}");
    for correction in after {
        let most_ns = ns(first, "bound_ns") + ns(correction, "bound_ns") + 1000.0;
        let is_explained = ns(correction, "by_ns").abs() <= most_ns;
        assert!(correction["how"] == "slew" && is_explained, "{corrections:?}");
    }
    first
}

fn ahead(offset_s: f64) -> NtpServer {
    NtpServer::start(Behaviour { offset_s, ..Behaviour::default() })
}

#[test]
fn keep_would_step_two_seconds() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let servers = [ahead(2.0), ahead(2.0)];
    let (said, lines) = kept(program, &servers.each_ref(), &["--duration", "2s"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    keeps_to(program, "keep", &said.out);
    let step = only_correction(&lines, "step", 2.0);
    assert_eq!((&step["dry_run"], &step["cause"]), (&true.into(), &"start".into()));
    let moved = step["after_unix_ns"].as_i64().unwrap() - step["before_unix_ns"].as_i64().unwrap();
    assert!(moved >= step["by_ns"].as_i64().unwrap(), "{step}");
    // It corrects nothing, so it calls no clock right.
    assert_eq!(of(&lines, "synchronised"), Vec::<&Value>::new(), "{}", said.out);
    // Each once before it, as the other confirms it, and once to verify it.
    assert_eq!(servers.map(NtpServer::stop), [2, 2]);
    // A dry run takes off what it would have done; a second step by what was
    // measured before the first would show here, and be the opposite of it.
    assert_eq!(of(&lines, "summary")[0]["steps"], 1, "{}", said.out);
    let servers = [ahead(2.0), ahead(2.0), ahead(2.0)];
    let (said, lines) = kept(program, &servers.each_ref(), &["--duration", "3s", "--poll", "1s"]);
    let steps = of(&lines, "corrected").into_iter().filter(|line| line["how"] == "step");
    assert_eq!(steps.count(), 1, "{}", said.out);
    let names = servers.each_ref().map(NtpServer::name);
    let more = ["--ntp", &names[0], "--ntp", &names[1], "--timeout", "1s", "--duration", "3s"];
    let text = program.run(&dry(&more));
    assert!(text.out.contains("dry run: nothing is"), "{}", text.out);
    assert!(text.out.contains("step: would correct by +"), "{}", text.out);
}

#[test]
fn keep_would_slew_what_is_small() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    // More than a reply takes on a busy machine, as offsets within twice the
    // bound are ignored.
    let server = ahead(-0.4);
    let more = ["--duration", "1s", "--step-threshold", "500ms"];
    let (_, lines) = kept(program, &[&server], &more);
    only_correction(&lines, "slew", -0.4);
}

#[test]
fn keep_follows_a_server_that_steps() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let step = Some((Duration::from_secs(2), 5.0));
    let servers = [(); 2].map(|()| NtpServer::start(Behaviour { step, ..Behaviour::default() }));
    let more = ["--duration", "6s", "--poll", "1s"];
    let (_, lines) = kept(program, &servers.each_ref(), &more);
    assert_eq!(only_correction(&lines, "step", 5.0)["cause"]["source-moved"], "ntp");
}

#[test]
fn keep_outvotes_a_falseticker() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let servers = [ahead(0.0), ahead(7.0), ahead(0.0)];
    let (said, lines) = kept(program, &servers.each_ref(), &["--duration", "1s"]);
    assert!(of(&lines, "corrected").is_empty(), "{}", said.out);
    let synchronised = of(&lines, "synchronised");
    assert_eq!(synchronised.len(), 1, "{}", said.out);
    assert_eq!(
        (&synchronised[0]["agreeing"], &synchronised[0]["of_sources"]),
        (&2.into(), &3.into())
    );
}

#[test]
fn keep_corrects_nothing_between_two() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let servers = [ahead(0.0), ahead(7.0)];
    let (said, lines) = kept(program, &servers.each_ref(), &["--duration", "1s"]);
    assert!(of(&lines, "corrected").is_empty(), "{}", said.out);
    assert_eq!(of(&lines, "refused")[0]["why"], "contradiction", "{}", said.out);
    // One server alone corrects a second, and nothing that is years off.
    let server = ahead(2.0);
    let (said, lines) = kept(program, &[&server], &["--duration", "1s"]);
    assert!(of(&lines, "corrected").is_empty(), "{}", said.out);
    assert_eq!(of(&lines, "refused")[0]["why"]["lone-server"]["most_ns"], 1_000_000_000);
    let server = ahead(20.0 * 366.0 * 86_400.0);
    let (said, lines) = kept(program, &[&server], &["--duration", "1s"]);
    assert!(of(&lines, "corrected").is_empty(), "{}", said.out);
    assert!(of(&lines, "refused")[0]["why"]["beyond-longest-absence"].is_object(), "{}", said.out);
}

#[test]
fn keep_reports_what_is_wrong() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let unsynchronised = NtpServer::start(Behaviour { leap: 3, ..Behaviour::default() });
    let cut = NtpServer::start(Behaviour { cut_to: Some(40), ..Behaviour::default() });
    let unreachable = NtpServer::start(Behaviour { loss_one_of: 1, ..Behaviour::default() });
    for (server, expected) in [
        (unsynchronised.name(), "not synchronised"),
        (cut.name(), "invalid reply"),
        (unreachable.name(), "no reply within 300 ms"),
        ("127.0.0.1:9".into(), "connection refused on UDP port 9"),
        ("no-such-host.invalid".into(), "no address found"),
    ] {
        let said = program.run(&dry(&["--ntp", &server, "--duration", "200ms"]));
        assert_eq!(said.code, Some(4), "{server}: {}", said.out);
        assert!(
            said.out.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected),
            "{}",
            said.out
        );
        assert!(
            said.err.contains("no source replied") && said.err.contains("try: "),
            "{}",
            said.err
        );
    }
    for (device, code, expected) in [
        ("/dev/null,tai=37", 4, "--phc /dev/null: not readable"),
        ("/dev/null,gps", 2, "/dev/ptp1,tai or /dev/ptp1,tai=37, found \"/dev/null,gps\""),
    ] {
        let said = program.run(&dry(&["--phc", device]));
        assert_eq!(said.code, Some(code), "{device}: {}", said.out);
        assert!(said.err.contains(expected), "{}", said.err);
    }
    let none = program.run(&dry(&[]));
    assert_eq!(none.code, Some(4));
    assert!(none.err.contains("no time source") && none.err.contains("--ntp"), "{}", none.err);
}
