//! Clocks compared in pairs, with a real chronyd as the other.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::chronyd::Chronyd;
use fleet_map::pair::{Networks, NodeClock, Prober, Responder};

/// Whether chronyd cannot be started here, which is reported.
fn is_missing() -> bool {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let is_root = rustix::process::geteuid().is_root();
    let is_missing = !is_root || !runs("chronyd") || !runs("chronyc");
    if is_missing {
        // Not by eprintln: a test that passes shows none of it.
        writeln!(std::io::stderr(), "skipped: needs root, chronyd and chronyc").unwrap();
    }
    is_missing
}

/// chronyd answers in interleaved mode whoever asks in it.
#[test]
fn pair_asks_chronyd_when_its_reply_was_sent() {
    if is_missing() {
        return;
    }
    let chronyd = Chronyd::start("local stratum 5");
    let mut prober = Prober::default();
    for _ in 0..4 {
        let times = prober.probe(chronyd.ntp, Duration::from_secs(10), NodeClock::default());
        let [t1, t2, t3, t4] = times.expect("a reply").ns;
        assert!(prober.is_interleaved());
        // It has this machine's clock; chronyd blurs what is below its precision, 1 us here.
        let blur_ns = 10_000;
        assert!(t1 <= t2 + blur_ns && t2 <= t3 + blur_ns && t3 <= t4 + blur_ns);
    }
}

/// chronyd as a client with `xleave` says by which mode it is answered.
#[test]
fn pair_tells_chronyd_when_its_reply_was_sent() {
    if is_missing() {
        return;
    }
    let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let networks: Networks = "127.0.0.0/8".parse().expect("a network");
    let responder = Responder::bind(address, networks, NodeClock::default()).expect("a port");
    let port = responder.address().expect("its own").port();
    std::thread::spawn(move || responder.run());
    let line = format!("server 127.0.0.1 port {port} xleave minpoll 0 maxpoll 0 iburst");
    let chronyd = Chronyd::start(&line);
    let end = Instant::now() + Duration::from_secs(60);
    let mut said = String::new();
    while !said.lines().any(|line| line.starts_with("Interleaved") && line.ends_with("Yes")) {
        assert!(Instant::now() < end, "{said}\n{}", chronyd.log());
        std::thread::sleep(Duration::from_millis(200));
        let mut ask = Command::new("chronyc");
        ask.arg("-h").arg(chronyd.commands()).args(["ntpdata", "127.0.0.1"]);
        said = String::from_utf8_lossy(&ask.output().expect("chronyc").stdout).into_owned();
    }
}
