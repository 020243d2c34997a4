//! Beside a real chronyd: asked for the time as others ask it, fed with what
//! we know, and given commands.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::chronyd::Chronyd;
use e2e::{Case, Need, Program};
use facts::steering::ChronyTracking;
use platform::chrony_control::{CommandAddress, CommandError, Commander, Feed};
use platform::reference::chrony::Chrony;
use sources::{NtpSource, now};
use units::OffsetBound;

const NEEDS: &[Need] = &[Need::Root, Need::Tool("chronyd"), Need::Tool("chronyc")];

pub(crate) const CASES: &[Case] = &[
    Case { name: "chrony_serves_this_clock_to_our_ntp", needs: NEEDS, run: serves_this_clock },
    Case { name: "chrony_believes_what_we_feed_it", needs: NEEDS, run: believes_what_we_feed },
    Case { name: "chrony_answers_our_commands", needs: NEEDS, run: answers_commands },
];

/// Longer than anything takes here, unless it never comes.
const AGES: Duration = Duration::from_secs(60);

/// The server's time by our client, when it has one to tell.
fn ask(server: SocketAddr) -> OffsetBound {
    let mut source = NtpSource::named(&server.to_string(), AGES);
    let end = Instant::now() + AGES;
    loop {
        match source.offset() {
            Ok(offset) => return offset,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        sleep(Duration::from_millis(20));
    }
}

fn serves_this_clock(_: &Program) {
    let chronyd = Chronyd::start("local stratum 5");
    let offset = ask(chronyd.ntp);
    // The very clock that it is compared with.
    assert!(offset.offset_ns.unsigned_abs() <= offset.bound_ns, "{offset:?}");
}

/// Feeds `offset_ns` until chronyd goes by it; what it then says.
fn feed(chronyd: &Chronyd, offset_ns: i64) -> ChronyTracking {
    let feed = Feed::to(&chronyd.feed()).expect("a socket");
    let daemon = Chrony { address: Some(chronyd.command) };
    let end = Instant::now() + AGES;
    loop {
        let at_monotonic_ns = now().expect("a time since 1970").monotonic_ns;
        let offset = OffsetBound { offset_ns, bound_ns: 1000, at_monotonic_ns };
        feed.sample(&offset).expect("chronyd listens");
        let tracking = daemon.tracking();
        if let Some(tracking) = tracking.known() {
            return tracking.clone();
        }
        assert!(Instant::now() < end, "{tracking:?}: {}", chronyd.log());
        sleep(Duration::from_millis(200));
    }
}

/// What is fed is believed, with its sign: chronyd says that this clock is
/// slow by it, or fast, and serves to others the time that we told it.
fn believes_what_we_feed(_: &Program) {
    for offset_ns in [50_000_000, -50_000_000] {
        let chronyd = Chronyd::fed();
        let tracking = feed(&chronyd, offset_ns);
        assert_eq!(tracking.reference, "PRCH");
        let off_by_s = tracking.system_offset_s - offset_ns as f64 / 1e9;
        // A sample's time is in microseconds.
        assert!(off_by_s.abs() < 1e-5, "{tracking:?}");
        let served = ask(chronyd.ntp);
        let off_by_ns = served.offset_ns.abs_diff(offset_ns);
        assert!(off_by_ns <= served.bound_ns + 10_000, "{served:?}");
    }
}

/// With `-x` it may not step, and says so: it took the command that far. Over
/// the network it does not take it at all.
fn answers_commands(_: &Program) {
    let chronyd = Chronyd::fed();
    feed(&chronyd, 50_000_000);
    let by = |address| Commander { address: Some(address) };
    let here = by(CommandAddress::Unix(chronyd.commands()));
    let failed = CommandError::Failed { command: "makestep", said: "500 Failure".into() };
    assert_eq!(here.makestep(), Err(failed));
    assert!(chronyd.log().contains("Could not step system clock"), "{}", chronyd.log());
    // What it may do, it does.
    assert_eq!(here.reset_sources(), Ok(()));
    // It has no server to ask.
    let failed = CommandError::Failed { command: "burst", said: "503 No such source".into() };
    assert_eq!(here.burst(1, 2), Err(failed));
    let network = by(CommandAddress::Udp(chronyd.command)).makestep();
    let said = "501 Not authorised".into();
    assert_eq!(network, Err(CommandError::NotAuthorised { command: "makestep", said }));
    let commands = chronyd.commands();
    drop(chronyd);
    let gone = by(CommandAddress::Unix(commands)).makestep();
    assert!(matches!(gone, Err(CommandError::NobodyThere { .. })), "{gone:?}");
}
