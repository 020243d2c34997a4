//! The program as people run it: exit codes, messages, formats.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::ntp_server::{Behaviour, NtpServer};
use crate::program::shared;

fn machine(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines")).join(name)
}

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parachron"))
        .arg("doctor")
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn doctor_on(name: &str, more: &[&str]) -> Output {
    let folder = machine(name);
    let mut arguments = vec!["--root", folder.to_str().unwrap()];
    arguments.extend(more);
    doctor(&arguments)
}

#[test]
fn exit_codes_follow_the_severity_asked_for() {
    let code = |name, more: &[&str]| doctor_on(name, more).status.code();
    assert_eq!(code("healthy-kvm-guest", &["--fail-on", "warning"]), Some(0));
    assert_eq!(code("virtualbox-acpi-pm", &[]), Some(0));
    assert_eq!(code("virtualbox-acpi-pm", &["--fail-on", "error"]), Some(1));
    assert_eq!(code("no-sys", &["--fail-on", "error"]), Some(0));
    assert_eq!(code("no-sys", &["--fail-on", "warning"]), Some(1));
}

#[test]
fn a_root_that_is_no_folder_is_reported_with_a_remedy() {
    let a_file = machine("README.md");
    let roots = [
        ("testdata/no such folder", "cannot open the folder"),
        ("/dev/null", "Not a directory"),
        (a_file.to_str().unwrap(), "Not a directory"),
    ];
    for (root, why) in roots {
        let output = doctor(&["--root", root]);
        assert_eq!(output.status.code(), Some(2), "{root}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(why), "{stderr}");
        assert!(stderr.contains("try: "), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_empty_folder_is_a_machine_that_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    for more in [&[][..], &["--fail-on", "warning"], &["--format", "json"]] {
        let output = doctor(&[&["--root", root], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stdout = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stdout.contains("Nothing could be checked."), "{stdout}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.contains("nothing could be examined\n  try: run it on a folder"),
            "{stderr}"
        );
    }
    assert_eq!(doctor(&["--root", root, "--quiet"]).status.code(), Some(3));
}

#[test]
fn a_file_that_is_no_terminal_gets_no_colours() {
    let output = doctor_on("contradictory", &["--verbose"]);
    assert!(!output.stdout.contains(&0x1b));
    assert!(output.stderr.is_empty());
}

#[test]
fn every_format_is_given() {
    let stdout = |format| doctor_on("ec2-xen", &["--format", format]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&stdout("json")).unwrap();
    assert_eq!(json["diagnosis"]["findings"][0]["rule"], "slow-clocksource");
    assert_eq!(json["measurements"], serde_json::Value::Null);
}

#[test]
fn rules_are_chosen_by_name() {
    let rules = |more: &[&str]| {
        let output = doctor_on("virtualbox-acpi-pm", &[&["--format", "json"], more].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let names = |part: &str| {
            let entries = json["diagnosis"][part].as_array().unwrap();
            entries.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        (names("findings"), names("checked").len())
    };
    let (all, checked) = rules(&[]);
    assert_eq!(rules(&["--only", "guest-tools"]), (vec!["guest-tools".to_owned()], 0));
    let (left, _) = rules(&["--ignore", "guest-tools", "--ignore", "slow-clocksource"]);
    assert_eq!(left.len(), all.len() - 2);
    assert_eq!(rules(&["--ignore", "steal-time"]).1, checked - 1);
    let output = doctor(&["--only", "slow-clocksorce"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("slow-clocksource"), "{stderr}");
}

#[test]
fn json_says_where_and_when_and_by_what() {
    let output = doctor_on("firecracker-kvm-debian12", &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], serde_json::json!({ "id": "parachron-doctor", "version": 2 }));
    let origin = &json["origin"];
    assert_eq!(origin["program_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(origin["host"], serde_json::Value::Null);
    assert!(origin["examined_unix_s"].as_u64().unwrap() > 1_700_000_000);
    assert!(origin["captured_unix_s"].as_u64().unwrap() > 1_700_000_000);
    let verdict = json["diagnosis"]["verdict"].as_str().unwrap();
    assert!(
        verdict.contains(" Captured on 202"),
        "what was right then may be wrong now: {verdict}"
    );
}

#[test]
fn this_very_machine_is_examined_and_measured() {
    let output = doctor(&["--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["machine"]["read_cost"]["ns"]["median"].as_f64().unwrap() > 0.0);
    let findings = json["diagnosis"]["findings"].as_array().unwrap().len();
    let checked = json["diagnosis"]["checked"].as_array().unwrap().len();
    assert!(findings + checked >= doctor::rules::RULES.len());
}

#[test]
fn a_server_answers_whether_the_time_is_right() {
    let time = |behaviour: Behaviour| {
        let server = NtpServer::start(behaviour);
        let output = doctor(&["--no-measure", "--format", "json", "--ntp", &server.name()]);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let verdict = json["diagnosis"]["verdict"].as_str().unwrap().to_owned();
        (json["diagnosis"]["time"]["state"].as_str().unwrap().to_owned(), verdict)
    };
    let (state, verdict) = time(Behaviour::default());
    assert!(state == "right" && verdict.starts_with("The time is right to "), "{verdict}");
    // A host's clock contradicts it where there is one.
    let (state, verdict) = time(Behaviour { offset_s: 3.0, ..Behaviour::default() });
    assert!(state != "right" && verdict.contains(" s behind (±"), "{verdict}");
    let (_, verdict) = time(Behaviour { leap: 3, ..Behaviour::default() });
    assert!(!verdict.contains("by ntp 127.0.0.1"), "{verdict}");
    assert_eq!(doctor(&["--ntp", "a b"]).status.code(), Some(2));
}

/// What people paste: fbelavenuto/arpl#244, quoted, as a forum shows it.
const PASTED: &str = "\
> Here is my log:
> kernel: [  384.258940] clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because the skew is too large:
> kernel: [  384.261201] clocksource: 'acpi_pm' wd_now: 8d5199 wd_last: 60e92e mask: ffffff
> kernel: [  384.263168] clocksource: 'tsc' cs_now: 1981c973dc9 cs_last: 1940283c820 mask: ffffffffffffffff
";

fn doctor_of_log(log: &[u8], more: &[&str]) -> String {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_parachron"))
        .args(["doctor", "--log", "-"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // It stops reading what is no text.
    let _ = child.stdin.take().expect("a pipe").write_all(log);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("UTF-8").replace(['\n', '\u{202f}'], " ")
}

#[test]
fn a_pasted_log_is_enough() {
    let text = doctor_of_log(PASTED.as_bytes(), &[]);
    for part in ["it differs from its reference", "3.20 GHz with 1 wrap", "A log alone does not"] {
        assert!(
            text.split_whitespace().collect::<Vec<_>>().join(" ").contains(part),
            "{part}: {text}"
        );
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), PASTED).expect("written");
    let output = doctor(&["--log", file.path().to_str().expect("a name")]);
    assert_eq!(output.status.code(), Some(0));
    let missing = doctor(&["--log", "no such file"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("try: "));
}

#[test]
fn a_log_that_is_none_says_so_in_bounded_memory() {
    let mut noise = vec![0u8; 64 << 20];
    noise.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 % 251) as u8);
    let file = tempfile::NamedTempFile::new().expect("a file");
    for (bytes, why) in [(&noise[..], "it is not text"), (&[], "it has no line of text")] {
        std::fs::write(file.path(), bytes).expect("written");
        let name = file.path().to_str().expect("a name");
        let output = doctor(&["--log", name, "--fail-on", "warning"]);
        assert_eq!(output.status.code(), Some(2), "{why}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(why) && stderr.contains("try: "), "{stderr}");
        assert_eq!(doctor(&["--log", name, "--quiet"]).status.code(), Some(3), "{why}");
    }
}

#[test]
fn doctor_gives_a_verdict_here() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run(&["doctor"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let verdict = said.out.lines().next().expect("a first line");
    assert!(verdict.contains(" time is "), "{verdict}");
    for line in said.out.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
}

/// What is forbidden is reported, the rest is done.
#[test]
fn doctor_does_without_root() {
    let Some(program) = &shared(&[]) else { return };
    let said = program.run_unprivileged(&["doctor", "--format", "json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(report["facts"]["clocksources"]["current"].get("known").is_some(), "{}", said.out);
    assert!(report["measurements"]["costs"].as_array().is_some_and(|costs| !costs.is_empty()));
}

/// A monitoring plugin's word and exit code.
#[test]
fn quiet_prints_one_line() {
    let codes = [("OK", 0), ("WARNING", 1), ("CRITICAL", 2), ("UNKNOWN", 3)];
    let machines =
        ["vendor-azure", "restored-chrony-by-ntp", "no-sys", "contradictory", "there-is-none"];
    for machine in machines {
        let ran = doctor_on(machine, &["-q"]);
        let printed = String::from_utf8_lossy(&ran.stdout);
        let word = printed.split_once(" - ").map(|(word, _)| word).unwrap_or_default();
        let expected = codes.iter().find(|(state, _)| *state == word).map(|(_, code)| *code);
        assert_eq!(ran.status.code(), expected, "{machine}: {printed}");
        assert_eq!(printed.lines().count(), 1, "{machine}: {printed}");
    }
}
