//! With a real chronyd: queried for the time, fed samples, and sent commands.

use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::chronyd::Chronyd;
use crate::need::Need;
use crate::program::shared;
use facts::steering::ChronyTracking;
use pvclock::units::OffsetBound;
use sources::chronyd_client::{
    ChronydAddress, ChronydClient, ChronydError, ChronydErrorCause, Feed,
};
use sources::wire::chronyd::{ReplyError, ReplyStatus};
use sources::{NtpSource, now};

const NEEDS: &[Need] = &[Need::Root, Need::Loopback, Need::Tool("chronyd")];

/// Longer than anything takes here, unless it never comes.
const AGES: Duration = Duration::from_secs(60);

/// The server's time by our client, once it serves one.
fn query(server: SocketAddr) -> OffsetBound {
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

#[test]
fn chrony_serves_this_clock_to_our_ntp() {
    let Some(_program) = &shared(NEEDS) else { return };
    let chronyd = Chronyd::start("local stratum 5");
    let offset = query(chronyd.ntp);
    // The very clock that it is compared with.
    assert!(offset.offset_ns.unsigned_abs() <= offset.bound_ns, "{offset:?}");
}

/// Sends `offset_ns` until chronyd uses it; what it then reports.
fn feed(chronyd: &Chronyd, offset_ns: i64) -> ChronyTracking {
    let feed = Feed::connect(&chronyd.feed()).expect("a socket");
    let daemon = ChronydClient::at_address(ChronydAddress::Udp(chronyd.command));
    let end = Instant::now() + AGES;
    loop {
        let at_monotonic_ns = now().expect("a time since 1970").monotonic_ns;
        let offset = OffsetBound { offset_ns, bound_ns: 1000, at_monotonic_ns };
        feed.sample(&offset).expect("chronyd listens");
        let tracking = daemon.synchronised_tracking();
        if let Some(tracking) = tracking.value() {
            return tracking.clone();
        }
        assert!(Instant::now() < end, "{tracking:?}: {}", chronyd.log());
        sleep(Duration::from_millis(200));
    }
}

/// chronyd uses the samples with their sign: it reports that this clock is slow
/// by them, or fast, and serves the time that they give.
#[test]
fn chrony_uses_the_samples_we_send() {
    let Some(_program) = &shared(NEEDS) else { return };
    for offset_ns in [50_000_000, -50_000_000] {
        let chronyd = Chronyd::fed();
        let tracking = feed(&chronyd, offset_ns);
        assert_eq!(tracking.reference, "PRCH");
        let off_by_s = tracking.system_offset_s - offset_ns as f64 / 1e9;
        // A sample's time is in microseconds.
        assert!(off_by_s.abs() < 1e-5, "{tracking:?}");
        let served = query(chronyd.ntp);
        let off_by_ns = served.offset_ns.abs_diff(offset_ns);
        assert!(off_by_ns <= served.bound_ns + 10_000, "{served:?}");
    }
}

fn refused(result: Result<(), ChronydError>) -> Option<ReplyError> {
    match result.unwrap_err().cause {
        ChronydErrorCause::Refused(_, error) => Some(error),
        _ => None,
    }
}

/// With `-x` it may not step, and replies that it failed: it accepted the
/// command that far. Over the network it does not accept it.
#[test]
fn chrony_replies_to_our_commands() {
    let Some(_program) = &shared(NEEDS) else { return };
    let chronyd = Chronyd::fed();
    feed(&chronyd, 50_000_000);
    let local = ChronydClient::at_address(ChronydAddress::Unix(chronyd.commands()));
    assert_eq!(refused(local.makestep()), Some(ReplyError::Refused(ReplyStatus::Failed)));
    assert!(chronyd.log().contains("Could not step system clock"), "{}", chronyd.log());
    assert_eq!(local.tracking().unwrap().stratum, 1);
    // What it may do, it does.
    local.reset_sources().unwrap();
    // It has no server to poll.
    assert_eq!(refused(local.burst(1, 2)), Some(ReplyError::Refused(ReplyStatus::NoSuchSource)));
    let network = ChronydClient::at_address(ChronydAddress::Udp(chronyd.command));
    assert_eq!(refused(network.makestep()), Some(ReplyError::Refused(ReplyStatus::NotAuthorised)));
    let commands = chronyd.commands();
    drop(chronyd);
    let gone = local.makestep().unwrap_err();
    assert!(matches!(gone.cause, ChronydErrorCause::Unreachable(_)), "{gone}");
    assert!(gone.to_string().contains(&commands.display().to_string()), "{gone}");
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a port of loopback").local_addr();
    let nobody =
        ChronydClient::at_address(ChronydAddress::Udp(nobody.expect("our own address"))).tracking();
    assert!(matches!(nobody, Err(ChronydError { cause: ChronydErrorCause::Unreachable(_), .. })));
}
