//! What an ordinary user of the machine may try against the program while it runs: to have
//! first what it listens at, and to keep it busy there (docs/design/keep.md).

use std::fs;
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use daemon::exporter::{MOST_CONNECTIONS, REQUEST_TIMEOUT};
use daemon::{program, status_socket};

use crate::running::{configured, end, parachrond, started};

/// Whatever of these another process has: any user may have been first.
#[test]
fn what_another_process_has_first_ends_nothing() {
    let (folder, file) = configured("");
    let path = folder.path().join("host.sock");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = listener.local_addr().unwrap();
    let theirs = (UnixDatagram::bind(&path).unwrap(), listener);
    let status = folder.path().join("status.sock");
    let theirs_status = UnixListener::bind(&status).unwrap();
    let more = format!("host-socket = '{}'\nmetrics = '{metrics}'\n", path.display());
    let text = fs::read_to_string(&file).unwrap() + "dry-run = true\nstate-folder = ''\n" + &more;
    fs::write(&file, text).unwrap();
    let mut running = started(&file);
    let lines = std::io::BufReader::new(running.0.stderr.take().unwrap()).lines();
    let mut log = String::new();
    for line in lines.map_while(Result::ok) {
        log.push_str(&line);
        if line.contains("started: ") {
            break;
        }
    }
    for told in ["cannot listen at", "host.sock: ", "status.sock: "] {
        assert_eq!(log.matches(told).count(), 1, "{told}: {log}");
    }
    // It is told who has it, where that can be asked.
    drop(theirs_status);
    assert!(running.0.try_wait().unwrap().is_none(), "{log}");
    let hangup = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(hangup, rustix::process::Signal::HUP).unwrap();
    let told = asked(&status, |reply| reply.contains("it is in use"));
    assert!(told.contains("retrying every 10 s"), "{told}");
    drop(theirs);
    fs::remove_file(&path).unwrap();
    asked(&status, |reply| !reply.contains("it is in use"));
    asked_by_http(metrics);
    end(&running.0);
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    // A mistake in the configuration is none of these.
    let more = "host-socket = '/no/such/folder/host.sock'\n";
    let (_folder, file) = configured(more);
    let output = parachrond().arg("--dry-run").arg("--config").arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(program::NO_SOURCE.into()));
}

/// The status, once it is so.
fn asked(socket: &Path, is_so: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let reply = status_socket::ask(socket, None).unwrap_or_default();
        if !reply.is_empty() && is_so(&reply) {
            return reply;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{reply}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A scrape, once one is served.
fn asked_by_http(address: SocketAddr) -> String {
    scraped(address, "/metrics", "parachron_")
}

/// A page that contains this, once it is served.
fn scraped(address: SocketAddr, page: &str, part: &str) -> String {
    let begun = Instant::now();
    let scrape = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {page} HTTP/1.0\r\nHost: a\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    };
    loop {
        match scrape() {
            Ok(reply) if reply.contains(part) => return reply,
            other => assert!(begun.elapsed() < Duration::from_secs(30), "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Any user of the machine may connect, as often as he likes and without a word: the unit
/// has 16 MB and 8 tasks (packaging/parachrond.service), and the clock is to be kept.
#[test]
fn a_flood_of_connections_to_its_metrics_is_bounded_and_closed() {
    let _alone = one_flood_at_a_time();
    let (folder, file) = configured("dry-run = true\nstate-folder = ''\nntp = ['127.0.0.1:9']\n");
    // A port that was free a moment ago.
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = fs::read_to_string(&file).unwrap() + &format!("metrics = '{metrics}'\n");
    fs::write(&file, text).unwrap();
    let running = started(&file);
    asked_by_http(metrics);
    let status = folder.path().join("status.sock");
    let samples = |reply: &str| -> u64 {
        let reply: serde_json::Value = serde_json::from_str(reply).unwrap();
        reply["counts"]["samples"].as_u64().unwrap()
    };
    let before = samples(&asked(&status, |_| true));
    let open = || fs::read_dir(format!("/proc/{}/fd", running.0.id())).unwrap().count();
    let calm = open();
    let mut flood: Vec<TcpStream> = Vec::new();
    let begun = Instant::now();
    // Half of a request, half nothing: neither ends by itself.
    let mut most = (0, 0, 0);
    while begun.elapsed() < Duration::from_secs(4) {
        for at in 0..8 {
            let mut one = TcpStream::connect(metrics).unwrap();
            if at % 2 == 0 {
                // One that has been closed already is as good.
                let _ = one.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
            }
            flood.push(one);
        }
        // As many as this process may have open stay open.
        flood.drain(..flood.len().saturating_sub(600));
        let (tasks, own_kb) = (running.figure("Threads:"), running.figure("RssAnon:"));
        most = (most.0.max(open()), most.1.max(tasks), most.2.max(own_kb));
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("at most {} descriptors ({calm} before), {} threads, {} kB", most.0, most.1, most.2);
    assert!(most.0 > calm + MOST_CONNECTIONS / 2, "no flood: {most:?}");
    assert!(most.0 <= calm + MOST_CONNECTIONS + 8, "{most:?}");
    assert!(most.1 <= 8, "{most:?}");
    assert!(most.2 <= 10 << 10, "{most:?}");
    // Meanwhile it samples, and who asks is answered: at each place.
    let during = samples(&asked(&status, |_| true));
    assert!(during >= before + 6, "{before} to {during} samples in 4 s");
    asked_by_http(metrics);
    // Silent ones are closed though their other end stays.
    let begun = Instant::now();
    while open() > calm + 4 {
        assert!(begun.elapsed() < 3 * REQUEST_TIMEOUT, "{} of {calm} descriptors", open());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(flood.len(), 600);
}

/// Two would take the CPU from each other's daemon.
fn one_flood_at_a_time() -> MutexGuard<'static, ()> {
    static FLOOD: Mutex<()> = Mutex::new(());
    FLOOD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a flood when it is dropped, by a failed assertion too.
struct Ending<'f>(&'f AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Any user may ask for the status, as often as he likes: that keeps other users from it, and
/// neither the clock, nor its metrics.
#[test]
fn a_flood_of_the_status_socket_starves_no_metrics() {
    let _alone = one_flood_at_a_time();
    let (folder, file) = configured("dry-run = true\nstate-folder = ''\nntp = ['127.0.0.1:9']\n");
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = fs::read_to_string(&file).unwrap() + &format!("metrics = '{metrics}'\n");
    fs::write(&file, text).unwrap();
    let _running = started(&file);
    let samples = || -> u64 {
        let reply = scraped(metrics, "/status", "\"samples\":");
        let json = reply.split("\r\n\r\n").nth(1).unwrap();
        let status: serde_json::Value = serde_json::from_str(json).unwrap();
        status["counts"]["samples"].as_u64().unwrap()
    };
    samples();
    let status = folder.path().join("status.sock");
    let is_over = AtomicBool::new(false);
    let connections = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _ending = Ending(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    // Several times what is served between two samples.
                    std::thread::sleep(Duration::from_millis(1));
                    let sent = UnixStream::connect(&status)
                        .and_then(|mut stream| stream.write_all(status_socket::REQUEST));
                    connections.fetch_add(u64::from(sent.is_ok()), Relaxed);
                }
            });
        }
        let before = samples();
        let mut scrapes = 0;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(4) {
            let page = scraped(metrics, "/metrics", "parachron_");
            assert!(page.contains("parachron_daemon_up 1"), "{scrapes}: {page}");
            scrapes += 1;
            std::thread::sleep(Duration::from_millis(200));
        }
        let during = samples();
        println!("{} requests, {scrapes} scrapes", connections.load(Relaxed));
        assert!(during >= before + 6, "{before} to {during} samples in 4 s");
        assert!(connections.load(Relaxed) > 100, "no flood");
    });
}
