//! What `parachron drift` leaves on disk when it is killed, and how it goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::need::Need;
use crate::ntp_server::{Behaviour, NtpServer};
use crate::program::{Program, shared};

use crate::drift::report;

/// Starts a measurement that would take an hour, waits for some records, and
/// kills it as a crash would: how many it left.
fn kill_after_some(program: &Program, server: &NtpServer, records: &Path) -> usize {
    let (name, file) = (server.name(), records.to_str().expect("UTF-8"));
    let mut child = program
        .command(&["drift", "--ntp", &name, "--clock", "monotonic", "--duration", "1h"])
        .args(["--interval", "20ms", "--records", file])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    // A Parquet file is made of lines in another file.
    let lines = match file.strip_suffix(".parquet") {
        Some(_) => PathBuf::from(format!("{file}.partial")),
        None => records.to_owned(),
    };
    while fs::read_to_string(&lines).unwrap_or_default().lines().count() < 30 {
        assert!(child.try_wait().expect("our own child").is_none(), "it ended by itself");
        sleep(Duration::from_millis(20));
    }
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let text = fs::read_to_string(&lines).expect("the records");
    assert!(text.ends_with('\n'), "a whole last line");
    let above = if text.starts_with('#') { 2 } else { 1 };
    text.lines().count() - above
}

#[test]
fn drift_killed_leaves_its_records() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["run.csv", "run.jsonl", "run.parquet"] {
        let server = NtpServer::start(Behaviour::default());
        let lines = kill_after_some(program, &server, &folder.path().join(name));
        let answered = usize::try_from(server.stop()).expect("a count");
        // All but the one pending when it was killed.
        assert!(lines.abs_diff(answered) <= 1, "{lines} lines, {answered} answers");
    }
}

/// Killed, continued, ended: one Parquet file of all comparisons.
#[test]
fn drift_packs_what_was_killed() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("run.parquet");
    let file = path.to_str().expect("UTF-8");
    let server = NtpServer::start(Behaviour::default());
    let name = server.name();
    let before = kill_after_some(program, &server, &path);
    assert!(!path.exists(), "made before its end");
    // Not by mistake.
    let said = program.run(&["drift", "--ntp", &name, "--records", file]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("was left by an interrupted run"), "{}", said.err);
    assert!(said.err.contains(&format!("try: continue it with `--resume {file}`")), "{}", said.err);
    let resume = ["drift", "--ntp", &name, "--clock", "monotonic", "--resume", file];
    let timing = ["--interval", "20ms", "--format", "json"];
    let go_on = |duration: &str| {
        let said = program.run(&[&resume[..], &timing, &["--duration", duration]].concat());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        report(&said)["pairs"][0]["drift"]["readings"].as_u64().expect("a count") as usize
    };
    let after = go_on("500ms");
    assert!(after > before + 10, "{after} of which {before} before");
    assert_eq!(fs::read_dir(folder.path()).expect("our own folder").count(), 1);
    let mut rows = Vec::new();
    let packed = fs::File::open(&path).expect("the Parquet file");
    records::parquet::read(packed, |row| rows.push(row)).expect("a whole file");
    assert_eq!(rows.len(), after);
    assert!(rows.iter().all(|row| row.clock == "monotonic" && row.reference.ends_with(&name)));
    // Only computed; and from a damaged file, not.
    assert_eq!(go_on("0s"), after);
    let mut bytes = fs::read(&path).expect("the Parquet file");
    bytes[100] ^= 1;
    fs::write(&path, &bytes).expect("our own file");
    let said = program.run(&["drift", "--resume", file, "--duration", "0s"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("is damaged: checksum"), "{}", said.err);
    fs::write(&path, &bytes[..200]).expect("our own file");
    let said = program.run(&["drift", "--resume", file, "--duration", "0s"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("is truncated: 200 of"), "{}", said.err);
    assert_eq!(fs::read(&path).expect("kept").len(), 200);
}

#[test]
fn drift_goes_on_where_it_was_killed() {
    let Some(program) = &shared(&[Need::Loopback]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = folder.path().join("run.csv");
    let file = records.to_str().expect("UTF-8");
    let server = NtpServer::start(Behaviour::default());
    let name = server.name();
    let before = kill_after_some(program, &server, &records);
    // As a full disk would leave it.
    let mut text = fs::read_to_string(&records).expect("the records");
    text.push_str("half a li");
    fs::write(&records, &text).expect("our own file");
    let resume = ["drift", "--ntp", &name, "--clock", "monotonic", "--duration", "500ms"];
    let resume = [&resume[..], &["--interval", "20ms", "--resume", file, "--format", "json"]];
    let said = program.run(&resume.concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let told = report(&said);
    let readings = told["pairs"][0]["drift"]["readings"].as_u64().expect("a count") as usize;
    assert!(readings > before + 10, "{readings} of which {before} before");
    assert_eq!(fs::read_to_string(&records).expect("the records").lines().count(), readings + 2);
    assert!(told["notes"].to_string().contains("9 bytes left out"), "{told:#}");
    // Of another version, it is refused and kept.
    fs::write(&records, "# parachron drift 99\n").expect("our own file");
    let said = program.run(&["drift", "--resume", file]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("has another version"), "{}", said.err);
    assert_eq!(fs::read_to_string(&records).expect("the file"), "# parachron drift 99\n");
}
