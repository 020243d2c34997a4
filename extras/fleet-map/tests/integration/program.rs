//! Three nodes on loopback, of which one shows a clock 5 ms ahead: `fleet-map map` names it, in
//! a table, as JSON and on a page in a real browser.

use std::io::Write as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const NODES: [&str; 3] = ["amsterdam", "berlin", "cracow"];
const WRONG: &str = "cracow";
const SHIFT_NS: i64 = 5_000_000;

fn fleet_map() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fleet-map"))
}

/// Each asks both others once a second for three, and answers them. The folder has a file
/// of samples and one of metrics of each.
fn probed(folder: &Path, wrong: &str) {
    // Ports that were free just now.
    let sockets = NODES.map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    let addresses = sockets.map(|socket| socket.local_addr().expect("its address"));
    let list = NODES.iter().zip(addresses).map(|(name, address)| format!("{name} {address}\n"));
    let peers = folder.join("peers");
    std::fs::write(&peers, list.collect::<String>()).expect("a list");
    let start = |(name, address): (&str, std::net::SocketAddr)| -> Child {
        let shift_ns = if name == wrong { SHIFT_NS } else { 0 };
        fleet_map()
            .args(["pair", "--name", name, "--duration", "3s", "--every", "1s"])
            .args(["--answer", "127.0.0.0/8", "--listen", &address.to_string()])
            .args(["--shift-ns", &shift_ns.to_string(), "--peers"])
            .arg(&peers)
            .arg("--out")
            .arg(folder.join(name))
            .arg("--textfile")
            .arg(folder.join(format!("{name}.prom")))
            .spawn()
            .expect("it starts")
    };
    let nodes: Vec<Child> = NODES.into_iter().zip(addresses).map(start).collect();
    for mut node in nodes {
        assert!(node.wait().expect("it ends").success());
    }
}

fn map(folder: &Path, more: &[&str]) -> Output {
    let files = NODES.map(|name| folder.join(name));
    let output = fleet_map().args(["map", "--peers"]).args(files).args(more).output();
    output.expect("it runs")
}

fn chromium() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&paths)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

#[test]
fn the_wrong_one_of_three_is_named() {
    let folder = tempfile::tempdir().unwrap();
    probed(folder.path(), WRONG);
    let said = map(folder.path(), &[]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(1), "{text}");
    assert!(text.starts_with("cracow is ahead of the others by "), "{text}");

    let said = map(folder.path(), &["--format", "json"]);
    let json: Value = serde_json::from_slice(&said.stdout).unwrap();
    let worst = &json["nodes"][0];
    assert_eq!(worst["name"], WRONG, "{json:#}");
    // The truth, but for which of the others is the median: they have one clock.
    let (min_ns, max_ns) =
        (worst["ahead"]["min_ns"].as_i64().unwrap(), worst["ahead"]["max_ns"].as_i64().unwrap());
    assert!(min_ns <= SHIFT_NS && SHIFT_NS <= max_ns, "{worst}");
    assert_eq!(json["findings"].as_array().unwrap().len(), 1, "{json:#}");
    assert_eq!(json["findings"][0]["kind"], "off");
    let schema = fleet_map().arg("schema").output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    for field in json.as_object().unwrap().keys() {
        assert!(schema["properties"][field].is_object(), "{field}: {schema:#}");
    }

    let metrics = std::fs::read_to_string(folder.path().join("cracow.prom")).unwrap();
    for part in [
        "ahead_min_seconds{node=\"cracow\",peer=\"berlin\"}",
        "requests_total{result=\"answered\"}",
    ] {
        assert!(metrics.contains(&format!("\nparachron_pair_{part} ")), "{part}: {metrics}");
    }
}

#[test]
fn without_a_wrong_one_none_is_named_and_the_page_says_so() {
    let folder = tempfile::tempdir().unwrap();
    probed(folder.path(), "");
    let page = folder.path().join("map.html");
    let said = map(folder.path(), &["--html", page.to_str().unwrap()]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with("No clock is certainly off, and none contradicts the others.\n"),
        "{text}"
    );
    let Some(chromium) = chromium() else {
        return writeln!(
            std::io::stderr(),
            "skipped: the page was not seen in a browser, as there is no chromium on PATH"
        )
        .unwrap();
    };
    let shown = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    // Only the page's own script writes that: its policy lets it run.
    assert!(
        shown.contains("3 clocks, 3 pairs compared: 0 certainly off by more than 1 ms"),
        "{shown}"
    );
    assert_eq!(shown.matches("<tr data-place=").count(), 3, "{shown}");
    assert!(shown.contains("No clock is certainly off, and none contradicts the others."));
}

#[test]
fn nothing_is_answered_or_solved_that_was_not_asked_for() {
    let refused = |args: &[&str]| {
        let said = fleet_map().args(args).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{args:?}");
        String::from_utf8(said.stderr).unwrap()
    };
    assert!(refused(&["pair", "--name", "a", "--listen", "127.0.0.1:1"]).contains("--answer"));
    assert!(refused(&["pair", "--name", "a", "--answer", "10.0.0.1/8"]).contains("10.0.0.1/8"));
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("peers");
    let list = list.to_str().unwrap();
    std::fs::write(list, "b 127.0.0.1:1\nc 127.0.0.1:1\nb 127.0.0.1:2\n").unwrap();
    assert!(refused(&["pair", "--name", "a", "--peers", list]).contains("line 3: b is named"));
    std::fs::write(list, "b 127.0.0.1:1\n").unwrap();
    let asked = ["pair", "--name", "a", "--peers", list, "--every", "1s", "--duration", "3s"];
    let said = String::from_utf8(fleet_map().args(asked).output().unwrap().stderr).unwrap();
    assert_eq!(said.matches("b at 127.0.0.1:1 did not reply").count(), 1, "{said}");
    assert!(said.ends_with("0 of 1 peers replied\n"), "{said}");
    let missing = refused(&["map", "--peers", "/no such file"]);
    assert!(missing.contains("cannot read /no such file"), "{missing}");
    let silent = refused(&["map", "--from", "http://127.0.0.1:1/metrics"]);
    assert!(silent.contains("is left out") && silent.contains("no sample"), "{silent}");
}
