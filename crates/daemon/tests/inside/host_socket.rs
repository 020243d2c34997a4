//! A daemon without a program: what a host sends on its socket in, events out.
//! It is a dry run, which never sets the clock.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use daemon::{Daemon, DaemonError, DiscoveredSource, Settings};
use keeper::event::{CorrectionMethod, KeeperEvent};
use linux::wait::{Signals, WaitUntil};
use sources::wire::hosttime::{
    EARLIEST_NS, FrameLeap, FrameScale, HostClock, HostTimeFrame, Reason, TimeAnswer,
};

fn settings() -> Settings {
    let mut settings = Settings::default();
    (settings.dry_run, settings.force) = (true, true);
    settings.interval = Duration::from_millis(20);
    settings.duration = Some(Duration::from_millis(300));
    settings.sources.excluded = DiscoveredSource::ALL.to_vec();
    settings
}

#[test]
fn a_hosts_time_is_what_it_would_step_by() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let mut settings = settings();
    settings.sources.host_socket = Some(path.clone());
    let mut daemon = Daemon::new(settings).unwrap();
    let KeeperEvent::Started(started) = daemon.started().event else {
        panic!("not the first line")
    };
    assert_eq!(started.sources, [format!("host {}", path.display())]);

    let host = UnixDatagram::unbound().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    host.send_to(b"what is the time?", &path).unwrap();
    host.send_to(b"resumed", &path).unwrap();
    let time = format!("time {:.9} +- 0.5", now.as_secs_f64() + 60.0);
    host.send_to(time.as_bytes(), &path).unwrap();
    let mut events = Vec::new();
    let wait = WaitUntil::new(Signals::ending().unwrap());
    let summary = daemon.run(wait, |line| events.push(line.event)).unwrap();
    let of = |wanted: fn(&KeeperEvent) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(
        of(|event| matches!(event, KeeperEvent::HostMessageRejected { .. })),
        1,
        "{events:?}"
    );
    assert_eq!(of(|event| matches!(event, KeeperEvent::HostResumed)), 1, "{events:?}");
    let step = events.iter().find_map(|event| match event {
        KeeperEvent::Corrected(corrected) => Some(corrected),
        _ => None,
    });
    let step = step.unwrap();
    assert_eq!((step.how, step.dry_run), (CorrectionMethod::Step, true));
    assert!(step.basis.by_ns.abs_diff(60_000_000_000) <= step.basis.bound_ns, "{step:?}");
    assert_eq!((summary.steps, summary.replies), (1, 1));
    assert!(matches!(events.last(), Some(KeeperEvent::Summary(last)) if *last == summary));
}

#[test]
fn without_a_source_it_does_not_start_and_without_a_reply_it_fails() {
    let _alone = crate::alone();
    assert!(matches!(Daemon::new(settings()), Err(DaemonError::NoSource(_))));
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.sources.host_socket = Some(folder.path().join("host.sock"));
    settings.duration = Some(Duration::from_millis(1));
    let mut daemon = Daemon::new(settings).unwrap();
    let wait = WaitUntil::new(Signals::ending().unwrap());
    assert!(matches!(daemon.run(wait, |_| {}), Err(DaemonError::NoReply)));
}

/// A host that was told to restore this machine, and answers for a second: its
/// time is a minute ahead of this machine's, if that has a date.
fn answer_for_a_second(agent: &UnixDatagram) -> u32 {
    agent.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    agent.send(&HostTimeFrame::Notice(Reason::Restored).encode()).unwrap();
    let host_ns = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_nanos()).unwrap().max(EARLIEST_NS) + 60_000_000_000
    };
    let (bound_ns, tai_offset_s) = (Some(1_000), None);
    let (scale, leap, is_smeared) = (FrameScale::Utc, FrameLeap::None, false);
    let clock = HostClock { bound_ns, scale, leap, is_smeared, tai_offset_s };
    let mut answered = 0;
    let mut bytes = [0; sources::wire::hosttime::FRAME_BYTES];
    while agent.recv(&mut bytes).is_ok() {
        let received_ns = host_ns();
        let Ok(HostTimeFrame::Request { nonce, sent_ns }) = HostTimeFrame::parse(&bytes) else {
            panic!()
        };
        let times = (received_ns, host_ns());
        let answer = TimeAnswer::new((nonce, sent_ns), Reason::Restored, times, clock);
        agent.send(&HostTimeFrame::Answer(answer).encode()).unwrap();
        answered += 1;
    }
    answered
}

#[test]
fn a_host_that_is_asked_is_right_within_the_way_to_it() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let mut settings = settings();
    settings.sources.host_socket = Some(path.clone());
    // It is woken by the host, not by its samples.
    settings.interval = Duration::from_millis(900);
    settings.duration = Some(Duration::from_millis(1_500));
    let mut daemon = Daemon::new(settings).unwrap();
    let agent = UnixDatagram::bind(folder.path().join("agent.sock")).unwrap();
    agent.connect(&path).unwrap();
    let host = std::thread::spawn(move || answer_for_a_second(&agent));
    let mut events = Vec::new();
    let wait = WaitUntil::new(Signals::ending().unwrap());
    daemon.run(wait, |line| events.push(line.event)).unwrap();
    assert_eq!(host.join().unwrap(), sources::wire::hosttime::ROUNDS);
    assert!(events.iter().any(|event| matches!(event, KeeperEvent::HostResumed)), "{events:?}");
    let step = events.iter().find_map(|event| match event {
        KeeperEvent::Corrected(corrected) => Some(corrected.basis.clone()),
        _ => None,
    });
    let step = step.unwrap();
    // As near as the host's answer was quick: no tick of a timer is in it.
    assert!(step.bound_ns < 300_000_000, "{step:?}");
    let is_set = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    if is_set > EARLIEST_NS {
        assert!(step.by_ns.abs_diff(60_000_000_000) <= step.bound_ns + 1_000_000, "{step:?}");
    }
}
