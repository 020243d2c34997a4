//! Who asks a daemon that runs, and new settings for it. It is a dry run, in a process of its own, as
//! it raises signals.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use daemon::status::{DaemonStatus, NextAction};
use daemon::{Daemon, configuration, status_socket};
use keeper::event::KeeperEvent;
use keeper::{KeeperClockState, SourceState};
use linux::wait::{Signals, WaitUntil};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::low_level::raise;

fn ask(socket: &Path) -> DaemonStatus {
    serde_json::from_str(&status_socket::ask(socket, None).unwrap()).unwrap()
}

fn until(socket: &Path, is_so: impl Fn(&DaemonStatus) -> bool) -> DaemonStatus {
    let begun = Instant::now();
    loop {
        let status = ask(socket);
        if is_so(&status) {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{status:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The clock of a dry run is where it was: a minute behind what the host says.
fn assert_shows_the_real_clock(status: &DaemonStatus) {
    let behind_s = status.clock.offset_ns.unwrap() as f64 / 1e9;
    assert!((behind_s - 60.0).abs() < 1.0, "{status:?}");
    assert!((status.would_have_moved_ns as f64 / 1e9 - 60.0).abs() < 1.0, "{status:?}");
    assert_eq!(status.clock.state, KeeperClockState::Unsynchronised, "{status:?}");
    let published = daemon::fleet::Snapshot::from(status);
    assert_eq!((published.dry_run, published.synchronised), (Some(true), Some(false)));
    assert!(published.error_bound_s.unwrap() > 59.0, "{published:?}");
}

#[test]
fn it_says_what_it_knows_and_takes_good_settings_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (file, socket, host) = (at("parachrond.toml"), at("status.sock"), at("host.sock"));
    let (of_host, of_status) = (host.display().to_string(), socket.display().to_string());
    let text = move |more: &str| {
        format!(
            "no-source = ['vmclock', 'phc', 'rtc']\nhost-socket = '{of_host}'\n\
             status-socket = '{of_status}'\ninterval = '20ms'\n{more}"
        )
    };
    fs::write(&file, text("")).unwrap();
    let mut settings = configuration::load(&file).unwrap();
    let change =
        |settings: &mut daemon::Settings| (settings.dry_run, settings.force) = (true, true);
    change(&mut settings);
    // If what asks panics, nobody ends it.
    settings.duration = Some(Duration::from_secs(60));
    let wait = WaitUntil::new(Signals::of_a_daemon().unwrap());

    // It listens from now on.
    let mut daemon = Daemon::new(settings).unwrap().reloading(at("parachrond.toml"), false, change);
    let (sent, path) = (host.clone(), socket.clone());
    let asks = thread::spawn(move || {
        let first = until(&path, |_| true);
        assert_eq!(
            (first.clock.state, first.next.action),
            (KeeperClockState::Unsynchronised, NextAction::Wait)
        );
        assert_eq!(first.sources[0].state, SourceState::Unreachable);
        assert!(first.dry_run && first.clock.kernel.is_some());
        // Silent ones, and one that is refused, do not keep it from others.
        let _silent: Vec<_> = (0..50).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let time = format!("time {:.9} +- 0.1", now.as_secs_f64() + 60.0);
        let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
        client.send_to(time.as_bytes(), &sent).unwrap();
        let stepped = until(&path, |status| status.recent.iter().any(|one| one.event == "step"));
        assert!(stepped.recent[0].message.contains("would correct by +"), "{stepped:?}");
        assert_shows_the_real_clock(&stepped);

        fs::write(&file, "tolerence = '1s'").unwrap();
        raise(SIGHUP).unwrap();
        let is_refused =
            |status: &DaemonStatus| status.recent.iter().any(|one| one.event == "reload refused");
        until(&path, is_refused);
        fs::write(&file, text("tolerance = '5ms'\nntp = ['127.0.0.1:9']\n")).unwrap();
        raise(SIGHUP).unwrap();
        let reloaded = until(&path, |status| status.sources.len() == 2);
        // What was learnt of the host is known still, and what was done.
        assert_eq!(reloaded.sources[0].name, stepped.sources[0].name);
        assert_eq!(reloaded.sources[0].offset_ns.is_some(), stepped.sources[0].offset_ns.is_some());
        assert!(reloaded.recent.contains(&stepped.recent[0]) && is_refused(&reloaded));
        raise(SIGTERM).unwrap();
    });

    let mut events = Vec::new();
    daemon.run(wait, |line| events.push(line.event)).unwrap();
    asks.join().unwrap();
    let refused: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            KeeperEvent::ReloadRefused { why } => Some(why),
            _ => None,
        })
        .collect();
    assert_eq!(refused.len(), 1, "{events:?}");
    assert!(refused[0].contains("parachrond.toml:1:1: unknown key \"tolerence\""), "{refused:?}");
    let reloaded = events.iter().find_map(|event| match event {
        KeeperEvent::Reloaded(now) => Some(now),
        _ => None,
    });
    assert_eq!(reloaded.unwrap().policy.tolerance_ns, 5_000_000);
    drop(daemon);
    assert!(!socket.exists() && !host.exists());
}
