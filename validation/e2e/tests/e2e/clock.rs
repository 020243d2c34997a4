//! The clock for programs beside a real chronyd.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clock::{Clock, ErrorFrom};
use e2e::chronyd::Chronyd;
use e2e::ntp_server::{Behaviour, NtpServer};
use e2e::{Need, Program};

cases! {
    Shared &[Need::Root, Need::Loopback, Need::Tool("chronyd")] =>
        clock_has_its_error_bounded_by_a_real_chronyd;
}

/// What the server is ahead of this machine's clock, which is what the clock
/// is off by for a chronyd that may not touch it.
const AHEAD: Duration = Duration::from_millis(50);

/// A server that is 50 ms ahead, behind a network with 1 ms of jitter; the
/// bound holds its time, and goes with the daemon.
fn clock_has_its_error_bounded_by_a_real_chronyd(_: &Program) {
    let server = NtpServer::start(Behaviour {
        offset_s: AHEAD.as_secs_f64(),
        delay: Duration::from_micros(300),
        jitter: Duration::from_millis(1),
        ..Behaviour::default()
    });
    let name = server.name();
    let (host, port) = name.rsplit_once(':').expect("an address and its port");
    let source = format!("server {host} port {port} iburst minpoll -4 maxpoll -4");
    let chronyd = Chronyd::start(&source);
    let clock = Clock::new();
    clock.poll_chronyd(chronyd.command).expect("a socket");

    let by_chronyd = |clock: &Clock| clock.status().error_from == Some(ErrorFrom::Chronyd);
    read_until(&clock, by_chronyd);
    let mut looks = 0;
    while looks < 200 {
        sleep(Duration::from_millis(10));
        read_until(&clock, by_chronyd);
        let now = clock.system_time();
        if !by_chronyd(&clock) {
            // A busy machine kept chronyd from answering for seconds.
            continue;
        }
        looks += 1;
        let error = now.error().expect("a bound");
        assert!(error >= AHEAD, "the server's time is not within {error:?}");
        // Soon 60 ms, but a chronyd that has just started on a busy machine
        // knows its frequency badly and says so. 16 s is what the kernel says
        // of a clock that nobody steers.
        assert!(error < Duration::from_secs(16), "{error:?}");
        let (earliest, latest) = (now.earliest().expect("it"), now.latest().expect("it"));
        let truth = now.time() + AHEAD;
        assert!(earliest <= truth && truth <= latest, "{earliest:?} {truth:?} {latest:?}");
    }
    drop(chronyd);
    read_until(&clock, |clock| !by_chronyd(clock));
}

/// Reads as a program does, until something is so.
fn read_until(clock: &Clock, so: impl Fn(&Clock) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so(clock) {
        assert!(Instant::now() < end, "not within a minute: {:?}", clock.status());
        clock.now();
        sleep(Duration::from_millis(5));
    }
}
