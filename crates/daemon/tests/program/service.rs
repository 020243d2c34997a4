//! The program, as a service manager runs it. None of these sets the clock: they
//! run dry, or without a source.

use std::fs;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use daemon::{program, status_socket};
use tempfile::TempDir;

use crate::running::{Running, configured, end, parachrond, started};

/// What an operator is promised, kB.
const MOST_RESIDENT_KB: u64 = 4096;

fn ran(arguments: &[&str], file: &Path) -> Output {
    parachrond().args(arguments).arg("--config").arg(file).output().unwrap()
}

#[test]
fn exit_codes_tell_usage_refused_and_no_source_apart() {
    let code = |output: &Output| output.status.code().map(|code| code as u8);
    let (_folder, file) = configured("tolerence = '1ms'\nburst = 0\n");
    for arguments in [&["--check"][..], &["--dry-run"]] {
        let output = ran(arguments, &file);
        assert_eq!(code(&output), Some(program::USAGE));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let place = |place: &str| format!("{}:{place}", file.display());
        assert!(
            said.contains(&place("4:1: unknown key \"tolerence\"; nearest: \"tolerance\"")),
            "{said}"
        );
        assert!(said.contains(&place("5:9: burst: expected 1 to 100")), "{said}");
    }
    assert_eq!(code(&ran(&["--check"], Path::new("/no/such/file"))), Some(program::USAGE));
    assert_eq!(code(&parachrond().arg("--chek").output().unwrap()), Some(program::USAGE));

    let (_folder, file) = configured("");
    // The daemon would exit and be restarted for ever.
    assert_eq!(code(&ran(&["--check"], &file)), Some(program::NO_SOURCE));
    let (_other, named) = configured("ntp = ['127.0.0.1']\n");
    assert_eq!(code(&ran(&["--check"], &named)), Some(0));
    let output = ran(&["--dry-run"], &file);
    assert_eq!(code(&output), Some(program::NO_SOURCE));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("no time source")
            && said.contains(
                "try: add an NTP server (ntp = [\"HOST\"] in /etc/parachron/parachrond.toml)"
            ),
        "{said}"
    );
    // Who may set the clock finds that there is no source.
    let is_allowed = linux::system_clock::may_set().is_ok();
    let expected = if is_allowed { program::NO_SOURCE } else { program::REFUSED };
    assert_eq!(code(&ran(&[], &file)), Some(expected));
}

/// What is present of shared libraries; none in a static program.
fn libraries_kb(running: &Running) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/smaps", running.0.id())).unwrap();
    let mut is_library = false;
    let mut all_kb = 0;
    for line in maps.lines() {
        if let Some(rss) = line.strip_prefix("Rss:").filter(|_| is_library) {
            all_kb += rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        } else if line.split(' ').next().is_some_and(|range| range.contains('-')) {
            is_library = line.contains(".so");
        }
    }
    all_kb
}

/// `VmRSS` counts each page that is mapped and present, those of the program's file too.
/// What is packaged is static, and held to all of it. Elsewhere libc and libm are files of
/// their own, which all processes share: some 1.8 MB, which are left out. How many pages of
/// a build with debug assertions are present says nothing of what is promised: they are its
/// unoptimised code, several times as long, and the kernel's choice of what to map around a
/// fault. Such a build is held to what it takes for itself.
#[test]
fn it_stays_small_and_wakes_for_samples_alone() {
    let servers = "ntp = ['127.0.0.1:9', '127.0.0.1:10', '127.0.0.1:11']\n";
    let (folder, file) = configured(servers);
    let path = folder.path().join("host.sock");
    let more = format!("host-socket = '{}'\ninterval = '20ms'\n", path.display());
    fs::write(&file, fs::read_to_string(&file).unwrap() + &more).unwrap();
    let mut command = parachrond();
    command.arg("--dry-run").arg("--config").arg(&file).stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let socket = folder.path().join("status.sock");
    let begun = Instant::now();
    while status_socket::ask(&socket, None).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    // As much as 50 s at the default interval.
    let before = running.figure("voluntary_ctxt_switches:");
    std::thread::sleep(Duration::from_secs(2));
    let woken = running.figure("voluntary_ctxt_switches:") - before;
    assert!(status_socket::ask(&socket, None).unwrap().contains("\"unreachable\""));
    let (all_kb, own_kb) = (running.figure("VmRSS:"), running.figure("RssAnon:"));
    let libraries_kb = libraries_kb(&running);
    end(&running.0);
    let mut log = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0), "{log}");
    assert!(log.contains("  started: ") && log.contains("  summary: ran "), "{log}");
    assert!(log.lines().all(|line| line.contains(": ")), "an event is a line: {log}");
    assert!(woken <= 2 * 50 + 10, "woken {woken} times for 100 samples");
    println!("VmRSS {all_kb} kB, of it libraries {libraries_kb} kB, RssAnon {own_kb} kB");
    assert!(own_kb <= 1024, "{own_kb} kB of its own");
    if !cfg!(debug_assertions) {
        assert!(all_kb - libraries_kb <= MOST_RESIDENT_KB, "{all_kb} kB resident");
    }
}

/// A daemon that records, and corrects nothing.
fn recording(more: &str) -> (TempDir, PathBuf) {
    let (folder, file) = configured("dry-run = true\nstate-folder = ''\nntp = ['127.0.0.1:9']\n");
    let records = folder.path().join("records");
    let more = format!("records = '{}{more}'\n", records.display());
    fs::write(&file, fs::read_to_string(&file).unwrap() + &more).unwrap();
    (folder, file)
}

/// The only file below a folder of records.
fn part(records: &Path) -> Option<PathBuf> {
    let below = |folder: &Path| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let hosts = below(records).iter().flat_map(|day| below(day)).collect::<Vec<_>>();
    let mut parts: Vec<_> = hosts.iter().flat_map(|host| below(host)).collect();
    assert!(parts.len() < 2, "{parts:?}");
    parts.pop()
}

#[test]
fn it_records_and_goes_on_where_it_was_killed() {
    let (folder, file) = recording("");
    let records = folder.path().join("records");
    for rows in 1..=2 {
        let running = started(&file);
        let begun = Instant::now();
        let lines = || {
            let lines = fs::read_to_string(part(&records)?).ok()?;
            (lines.lines().count() == rows).then_some(lines)
        };
        let lines = loop {
            if let Some(lines) = lines() {
                break lines;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{rows}");
            std::thread::sleep(Duration::from_millis(100));
        };
        assert!(lines.contains("\"kernel\":") && lines.contains("\"disruptions\":0"), "{lines}");
        std::thread::sleep(Duration::from_millis(300));
        let kb = ["VmRSS:", "VmHWM:", "RssAnon:"].map(|field| running.figure(field));
        println!("VmRSS, VmHWM, RssAnon while it records: {kb:?} kB");
        assert!(kb[2] <= 3072, "{kb:?} kB");
        // Dropped: killed.
    }
}

#[test]
fn what_cannot_be_recorded_is_told_and_ends_nothing() {
    let (folder, file) = recording("/below");
    fs::write(folder.path().join("records"), "a file, where a folder has to be").unwrap();
    let mut running = started(&file);
    let lines = std::io::BufReader::new(running.0.stderr.take().unwrap()).lines();
    let mut log = lines.map_while(Result::ok);
    let told = |line: &String| line.contains("nothing is recorded: cannot write");
    assert!(log.by_ref().any(|line| told(&line)));
    let socket = folder.path().join("status.sock");
    assert!(status_socket::ask(&socket, None).is_ok());
    end(&running.0);
    assert!(!log.any(|line| told(&line)));
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

/// What it links: neither a terminal, nor plots, nor tables, nor a command line
/// of the size of its own.
#[test]
fn it_links_no_terminal_plots_or_tables() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "parachron-daemon", "--edges", "normal", "--prefix", "none"])
        .args(["--offline", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(tree.contains("parachron-keeper "), "{tree}");
    for heavy in ["clap", "comfy-table", "parachron-vmm", "parachron-lab"] {
        let is_it = |line: &str| line.split(' ').next() == Some(heavy);
        assert!(!tree.lines().any(is_it), "{heavy}");
    }
}
