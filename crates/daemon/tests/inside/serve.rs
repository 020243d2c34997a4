//! The server with clients that are slow, wrong, or many.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

use daemon::exporter::{
    MOST_CONNECTIONS, REQUEST_TIMEOUT, ScrapeListener, ScrapeReply, ServedPages,
};

/// A server of its own, until the test ends.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        daemon::exporter::serve(ScrapeListener::Tcp(listener), ServedPages::All, reply_of_test)
    });
    address
}

fn reply_of_test() -> ScrapeReply {
    ScrapeReply { metrics: "one 1\n# EOF\n".into(), status: Some("{\"pid\":7}".into()) }
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn the_metrics_are_served_and_nothing_else() {
    let _alone = crate::alone();
    let address = server();
    let scraped = ask(address, SCRAPE);
    assert!(scraped.starts_with("HTTP/1.1 200 OK\r\n"), "{scraped}");
    assert!(scraped.contains("application/openmetrics-text; version=1.0.0"), "{scraped}");
    assert!(scraped.ends_with("one 1\n# EOF\n"), "{scraped}");
    let status = ask(address, "GET /status HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(status.ends_with("\r\n\r\n{\"pid\":7}"), "{status}");
    let page = ask(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").to_lowercase();
    for header in ["content-security-policy: default-src 'none';", "nosniff", "no-store"] {
        assert!(page.split("<!doctype html>").next().unwrap().contains(header), "{header}");
    }
    for (request, status) in [
        ("GET /other HTTP/1.1\r\nHost: a\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let reply = ask(address, request);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {reply}");
    }
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(100_000));
    let mut stream = TcpStream::connect(address).unwrap();
    // It may be closed before all of it was taken.
    let _ = stream.write_all(long.as_bytes());
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply);
    assert!(!reply.contains("200 OK"), "{reply}");
}

/// The daemon's last log lines are no business of a cluster.
#[test]
fn with_metrics_only_neither_status_nor_page_is_served() {
    let _alone = crate::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pages = ServedPages::MetricsOnly;
    std::thread::spawn(move || {
        daemon::exporter::serve(ScrapeListener::Tcp(listener), pages, reply_of_test)
    });
    assert!(ask(address, SCRAPE).ends_with("one 1\n# EOF\n"));
    for path in ["/", "/status"] {
        let reply = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(reply.starts_with("HTTP/1.1 404 "), "{path}: {reply}");
    }
}

#[test]
fn a_unix_socket_serves_the_same() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let listener = ScrapeListener::Unix(UnixListener::bind(&path).unwrap());
    std::thread::spawn(move || daemon::exporter::serve(listener, ServedPages::All, reply_of_test));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(SCRAPE.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.ends_with("one 1\n# EOF\n"), "{reply}");
}

#[test]
fn a_thousand_slow_clients_hold_up_none() {
    let _alone = crate::alone();
    let address = server();
    let slow: Vec<_> = (0..1000).map(|_| TcpStream::connect(address).unwrap()).collect();
    for mut one in &slow {
        let _ = one.write_all(b"GET /met");
    }
    let begun = Instant::now();
    assert!(ask(address, SCRAPE).contains("one 1"));
    // It waited for none of them to be given up.
    assert!(begun.elapsed() < REQUEST_TIMEOUT, "{:?}", begun.elapsed());
    assert!(slow.len() > MOST_CONNECTIONS);
    // Others come all the time, and a client that takes a moment to ask is not thrown out.
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let flood = std::thread::spawn(move || {
        while !until.load(Relaxed) {
            let slow: Vec<_> = (0..300).filter_map(|_| TcpStream::connect(address).ok()).collect();
            drop(slow);
        }
    });
    let mut busy = 0;
    for _ in 0..5 {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let sent = stream.write_all(SCRAPE.as_bytes());
        // A tenth of a second is what each client has, and a busy host may take longer.
        if begun.elapsed() > Duration::from_millis(80) {
            busy += 1;
            continue;
        }
        sent.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.contains("one 1"), "{reply}");
    }
    if busy > 0 {
        writeln!(std::io::stderr(), "not measured: busy, {busy} of 5 clients").unwrap();
    }
    is_over.store(true, Relaxed);
    flood.join().unwrap();
}

#[test]
fn however_many_ask_one_scrape_is_made_at_a_time() {
    let _alone = crate::alone();
    static MADE: AtomicU32 = AtomicU32::new(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A daemon that hangs for a while.
    let scrape = || {
        MADE.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_secs(2));
        reply_of_test()
    };
    std::thread::spawn(move || {
        daemon::exporter::serve(ScrapeListener::Tcp(listener), ServedPages::All, scrape)
    });
    let begun = Instant::now();
    let mut all: Vec<_> =
        (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    all.iter_mut().for_each(|one| one.write_all(SCRAPE.as_bytes()).unwrap());
    for mut one in all {
        let mut reply = String::new();
        one.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with("one 1\n# EOF\n"), "{reply}");
    }
    // Each takes two seconds, and they were made one after the other.
    let most = begun.elapsed().as_secs() / 2 + 1;
    assert!(u64::from(MADE.load(Relaxed)) <= most, "{MADE:?} in {:?}", begun.elapsed());
}
