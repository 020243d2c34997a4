//! `parachron latency`.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::need::Need;
use crate::program::{Program, alone, shared};
use serde_json::Value;

use crate::formats::keeps_to;

fn measured(program: &Program, arguments: &[&str]) -> Value {
    let all = [&["latency", "--duration", "1s", "--format", "json"], arguments].concat();
    let said = program.run(&all);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    keeps_to(program, "latency", &said.out);
    serde_json::from_str(&said.out).expect("a JSON document")
}

fn kinds(report: &Value) -> Vec<&str> {
    let figures = report["latency"]["figures"].as_array().expect("figures");
    figures.iter().filter_map(|figure| figure["kind"].as_str()).collect()
}

/// What was measured has ordered landmarks; what was not has a reason.
#[test]
fn every_figure_is_measured() {
    let Some(program) = &shared(&[]) else { return };
    let report = measured(program, &[]);
    for kind in ["timer-wake-up", "exit", "pipe-one-cpu"] {
        // Only x86 has an instruction that exits everywhere.
        if kind == "exit" && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        assert!(kinds(&report).contains(&kind), "{kind}: {}", report["latency"]["not_measured"]);
    }
    for figure in report["latency"]["figures"].as_array().expect("figures") {
        let at = |name: &str| figure["ns"][name].as_f64().expect("a number");
        let landmarks = ["min", "p50", "p90", "p99", "p99_9", "max"].map(at);
        assert!(landmarks.is_sorted(), "{figure}");
    }
    for share in ["stolen", "idle"] {
        let part = report["latency"]["cpus"][share].as_f64().expect("/proc/stat has it");
        assert!((0.0..=1.0).contains(&part), "{share}: {part}");
    }
}

#[test]
fn runs_are_compared() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let before = measured(program, &["--only", "timer-wake-up"]);
    fs::write(path("before.json"), before.to_string()).expect("written");
    let said = program.run(&[
        "latency",
        "--duration",
        "1s",
        "--only",
        "timer-wake-up",
        "--compare",
        &path("before.json"),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("Compared with the earlier run"), "{}", said.out);
    assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
}

#[test]
fn one_cpu_is_enough() {
    let Some(program) = &shared(&[Need::Tool("taskset")]) else { return };
    let output = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program.path())
        .args(["latency", "--duration", "1s", "--format", "json"])
        .output()
        .expect("taskset runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a JSON document");
    assert!(!kinds(&report).contains(&"ipi"));
    let missing = report["latency"]["not_measured"].to_string();
    assert!(missing.contains("this process may use one CPU only"), "{missing}");
}

/// A peer that answers late, one that sends something else, one that is silent.
#[test]
fn answers_are_told_apart() {
    let Some(program) = &alone(&[Need::Loopback]) else { return };
    let asked = |answer: fn(&mut Vec<u8>, u32) -> u32| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let host = format!("udp:{}", socket.local_addr().expect("its address"));
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        std::thread::scope(|scope| {
            let peer = scope.spawn(|| {
                let mut bytes = [0; 64];
                let mut number = 0;
                while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                    // The end is a datagram of ours.
                    if length == 1 {
                        return;
                    }
                    let mut reply = bytes[..length].to_vec();
                    for _ in 0..answer(&mut reply, number) {
                        let _ = socket.send_to(&reply, from);
                    }
                    number += 1;
                }
            });
            let report = measured(program, &["--peer", &host]);
            let end = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            end.send_to(&[0], &host["udp:".len()..]).expect("sent");
            peer.join().expect("the peer ends");
            report
        })
    };
    let count =
        |report: &Value, name: &str| report["latency"]["answers"][name].as_u64().expect("a count");
    // Twice: the second answer comes while the next request waits.
    let twice = asked(|_, _| 2);
    let [answered, sent, late] = ["answered", "sent", "late"].map(|name| count(&twice, name));
    // An answer that comes too late, on a busy machine, ends so short a run.
    assert!(answered <= sent && sent <= answered + 1, "{}", twice["latency"]["answers"]);
    // Loopback keeps the order: the second answer lies before the next first one.
    assert!(late + 1 >= answered, "{}", twice["latency"]["answers"]);
    let foreign = asked(|reply, number| {
        if number % 2 == 0 {
            reply[0] ^= 0xff;
        }
        1
    });
    assert!(count(&foreign, "foreign") > 0, "{}", foreign["latency"]["answers"]);
    assert!(count(&foreign, "answered") <= count(&foreign, "sent") / 2 + 1);
    let silent = asked(|_, _| 0);
    assert_eq!(count(&silent, "answered"), 0);
    assert!(!kinds(&silent).contains(&"echo"));
}

#[test]
fn late_nonsense_is_refused() {
    let Some(program) = &shared(&[]) else { return };
    for arguments in [
        &["latency", "--duration", "50s"][..],
        &["latency", "--peer", "udp:no host"],
        &["latency", "--only", "sundial"],
        &["latency", "--only", "echo"],
        &["latency", "--only", "exit", "--peer", "127.0.0.1"],
        &["latency", "--compare", "/no/such/file"],
    ] {
        let said = program.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!said.err.is_empty());
    }
}
