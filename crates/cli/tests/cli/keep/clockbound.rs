//! What `parachron keep --clockbound` publishes, as the published clients of
//! ClockBound read it.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::clockbound_clients;
use crate::need::Need;
use crate::program::alone;

use super::by_itself;
use super::service::{Running, send};

/// What the three clients show: status, and the bounds of the time, ns.
type Shown = Vec<(String, [i128; 2])>;

fn shown(folder: &Path) -> Result<Shown, String> {
    let clients = clockbound_clients::built().expect("built before");
    let output = Command::new(clients).arg(folder).output().expect("the clients start");
    let (out, err) = (output.stdout, output.stderr);
    let said = String::from_utf8(out).expect("text");
    let line = |line: &str| {
        let (client, times) = line.split_once(" [").expect("times");
        let number = |text: &str| text.trim_end_matches(']').parse::<i128>().expect("a number");
        let of: Vec<i128> = times.split(", ").map(number).collect();
        let bounds = [of[0] * 1_000_000_000 + of[1], of[2] * 1_000_000_000 + of[3]];
        (client.to_owned(), bounds)
    };
    let lines: Shown = said.lines().map(line).collect();
    // A client ends at a segment that nobody has written yet.
    let failed = || format!("{said} {}", String::from_utf8_lossy(&err));
    if lines.len() == 3 { Ok(lines) } else { Err(failed()) }
}

/// Asks the clients until their states are these.
fn until(folder: &Path, wanted: [&str; 3]) -> Shown {
    let begun = Instant::now();
    loop {
        let shown = shown(folder);
        if let Ok(shown) = &shown
            && shown.iter().map(|(client, _)| client).eq(&wanted)
        {
            return shown.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{wanted:?}: {shown:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn unix_ns() -> i128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time since 1970");
    now.as_nanos().try_into().expect("before 2554")
}

/// The host's time is this machine's, ± 2 ms.
fn tell(socket: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time since 1970");
    send(socket, &format!("time {}.{:09} +- 0.002", now.as_secs(), now.subsec_nanos()));
}

/// chronyd corrects the clock, as far as keep knows: so it sets none.
#[test]
fn keep_is_read_by_clients_of_clockbound() {
    let Some(program) = &alone(&[Need::ClockBoundClients]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let of = |file: &str| folder.path().join(file).display().to_string();
    let _chronyd = UnixDatagram::bind(of("feed.sock")).expect("a socket");
    let (feed, host, segments) = (
        format!("sock={}", of("feed.sock")),
        of("host.sock"),
        format!("--clockbound={}", of("segments")),
    );
    let arguments =
        by_itself(&["--format", "json", "--chrony", &feed, "--host-socket", &host, &segments]);
    let keep = || Running::start(program.command(&arguments));
    let (host, segments) = (Path::new(&host), folder.path().join("segments"));
    let mut running = keep();
    until(&segments, ["1 Unknown", "2 Unknown", "3 Unknown"]);

    let known = ["1 Synchronized", "2 Synchronized", "3 Synchronized"];
    // The TSC's period is known after a second sample.
    std::thread::sleep(Duration::from_secs(1));
    tell(host);
    running.until("synchronised");
    let before_ns = unix_ns();
    let shown = until(&segments, known);
    let after_ns = unix_ns();
    for (client, [earliest, latest]) in shown {
        assert!(earliest <= after_ns && before_ns <= latest, "{client}");
        // 2 ms each way, 500 ppm of some seconds, and half a second of the test.
        assert!((4_000_000..50_000_000).contains(&(latest - earliest)), "{client}");
    }

    send(host, "resumed");
    running.until("host-resumed");
    until(&segments, ["1 Unknown", "2 Disrupted", "3 Disrupted"]);
    tell(host);
    until(&segments, known);

    // Killed, it leaves a bound that grows; the next one writes the same files.
    running.kill();
    until(&segments, known);
    let running = keep();
    until(&segments, ["1 Unknown", "2 Unknown", "3 Unknown"]);
    tell(host);
    until(&segments, known);
    running.end();
    until(&segments, ["1 Unknown", "2 Unknown", "3 Unknown"]);
}
