use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use facts::steering::Adjtimex;
use keeper::{KeeperClockState, NextStep};

use super::*;

/// What a path in the configuration may lead to by mistake.
const THINGS: [&str; 8] =
    ["pipe", "folder", "link", "link-to-pipe", "dangling", "file", "socket", "/dev/full"];

/// Each setting that is a path, with what follows it in its value.
const PATHS: [(&str, &str); 12] = [
    ("host-socket = 'PATH'", ""),
    ("host-port = 'PATH'", ""),
    ("status-socket = 'PATH'", ""),
    ("state-folder = 'PATH'", ""),
    ("clockbound = 'PATH'", ""),
    ("host-time = 'PATH'", ""),
    ("vmclock = 'PATH'", "no-source = ['phc', 'rtc']"),
    ("kernel-log = 'PATH'", ""),
    ("phc = ['PATH,utc']", ""),
    ("gate = ['/daemon-test-none']\ngate-socket = 'PATH'", ""),
    ("chrony = ['sock=PATH']", ""),
    ("chrony = ['makestep=PATH', 'sock=SOCK']", ""),
];

fn put_things(folder: &Path) {
    let at = |name: &str| folder.join(name);
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("file"), "kept").unwrap();
    symlink("file", at("link")).unwrap();
    symlink("pipe", at("link-to-pipe")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    drop(UnixListener::bind(at("socket")).unwrap());
}

/// What is there.
fn found(path: &Path) -> String {
    let Ok(kind) = path.symlink_metadata().map(|there| there.file_type()) else {
        return "nothing".into();
    };
    match kind {
        kind if kind.is_symlink() => format!("link to {}", fs::read_link(path).unwrap().display()),
        kind if kind.is_dir() => "folder".into(),
        kind if kind.is_fifo() => "pipe".into(),
        kind if kind.is_file() => "file".into(),
        _ => "device or socket".into(),
    }
}

/// A pause of a start by a pipe that nobody writes, a device that is replaced by a file, a link
/// that is followed to somebody's file: a daemon that starts, samples and ends does none of it.
#[test]
fn a_path_to_anything_neither_hangs_a_daemon_nor_is_overwritten() {
    for (text, more) in PATHS {
        let setting = text;
        let mut started = Vec::new();
        for thing in THINGS {
            let folder = tempfile::tempdir().unwrap();
            put_things(folder.path());
            let path = folder.path().join(thing);
            let text = text
                .replace("PATH", &path.display().to_string())
                .replace("SOCK", &folder.path().join("sock").display().to_string());
            let mut all = format!("{more}\n{text}\n");
            for (key, line) in [
                ("no-source", "no-source = ['vmclock', 'phc', 'rtc']\n".to_owned()),
                ("host-socket", format!("host-socket = '{}/host'\n", folder.path().display())),
                ("chrony", format!("chrony = ['sock={}/sock']\n", folder.path().display())),
                ("status-socket", "status-socket = ''\n".to_owned()),
                ("state-folder", "state-folder = ''\n".to_owned()),
                ("clockbound", "clockbound = ''\n".to_owned()),
            ] {
                if !all.contains(key) {
                    all += &line;
                }
            }
            let before = found(&path);
            let (done, ended) = mpsc::channel();
            let configured = all.clone();
            thread::spawn(move || {
                let settings = configuration::parse(&configured).map_err(|why| format!("{why:?}"));
                // chronyd's socket is fed: nothing sets the clock.
                let ran = settings.map(|settings| {
                    assert!(!settings.sets_the_clock());
                    let Ok(mut daemon) = Daemon::new(settings) else { return false };
                    (0..3).for_each(|_| daemon.sample(&mut |_| ()));
                    daemon.store_learnt(true);
                    true
                });
                done.send(ran)
            });
            let ran = ended.recv_timeout(Duration::from_secs(60));
            let Ok(Ok(has_started)) = ran else { panic!("{ran:?}: {all}") };
            started.extend(has_started.then_some(thing));
            // A socket is one that nobody serves, which is taken over.
            if thing != "socket" {
                assert_eq!(found(&path), before, "{all}");
            }
            // What an earlier process published is a file.
            if thing != "file" {
                assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"kept", "{all}");
            }
            assert!(!folder.path().join("nowhere").exists(), "{all}");
        }
        let expected: &[&str] = match setting.split_once(' ') {
            // Only a pipe may be a port, and none of these is a clock.
            Some(("host-port", _)) => &["pipe", "link-to-pipe"],
            Some(("phc", _)) => &[],
            _ => &THINGS,
        };
        assert_eq!(started, expected, "{setting}");
    }
}

/// A dry run that has heard that its clock is behind by this, ns.
fn told(folder: &Path, behind_ns: i64) -> Daemon {
    let mut settings = Settings { dry_run: true, force: true, ..Settings::default() };
    settings.sources.excluded = crate::DiscoveredSource::ALL.to_vec();
    settings.sources.host_socket = Some(folder.join("host"));
    let mut daemon = Daemon::new(settings).unwrap();
    daemon.sample(&mut |_| ());
    tell(folder, &mut daemon, behind_ns);
    daemon
}

fn tell(folder: &Path, daemon: &mut Daemon, behind_ns: i64) {
    let host = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let shown_ns = i64::try_from(now.as_nanos()).unwrap() + behind_ns;
    let time = format!("time {}.{:09} +- 0.000001", shown_ns / S, shown_ns % S);
    host.send_to(time.as_bytes(), folder.join("host")).unwrap();
    // The host's word is read after what is to be done in a sample.
    (0..2).for_each(|_| daemon.sample(&mut |_| ()));
}

const S: i64 = 1_000_000_000;

#[test]
fn a_slew_that_is_under_way_goes_on_by_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = told(folder.path(), 50_000_000);
    let NextStep::Slewing(left_ns) = daemon.keeper.view(monotonic_ns()).next else {
        panic!("{:?}", daemon.status())
    };
    let mut settings = daemon.settings.clone();
    settings.policy.tolerance_ns = 2_000_000;
    daemon.take_over(settings).unwrap();
    daemon.sample(&mut |_| ());
    let next = daemon.keeper.view(monotonic_ns()).next;
    assert!(matches!(next, NextStep::Slewing(left) if left > 0 && left < left_ns), "{next:?}");
    assert_eq!((daemon.summary.slews, daemon.keeper.policy().tolerance_ns), (1, 2_000_000));
    let before_ns = daemon.clock.ahead_ns();
    thread::sleep(Duration::from_millis(50));
    assert!(daemon.clock.ahead_ns() > before_ns);
}

#[test]
fn other_servers_are_asked_and_what_was_learnt_of_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = told(folder.path(), 2 * S);
    let known = daemon.keeper.view(monotonic_ns()).sources[0].offset;
    assert!(known.is_some() && daemon.summary.steps == 1, "{:?}", daemon.status());
    let with = |daemon: &Daemon, servers: &[&str]| {
        let mut settings = daemon.settings.clone();
        settings.sources.ntp = servers.iter().map(ToString::to_string).collect();
        settings
    };
    let names = |daemon: &Daemon| {
        daemon.sources.iter().map(|source| source.name.clone()).collect::<Vec<_>>()
    };
    let host = daemon.sources[0].name.clone();
    for servers in [&["127.0.0.1:9"][..], &["127.0.0.1:10", "127.0.0.1:9"], &[]] {
        let other = with(&daemon, servers);
        daemon.take_over(other).unwrap();
        let named = servers.iter().map(|server| format!("ntp {server}"));
        let expected: Vec<_> = std::iter::once(host.clone()).chain(named).collect();
        assert_eq!(names(&daemon), expected);
        let shown = daemon.keeper.view(monotonic_ns()).sources[0].offset;
        assert_eq!(shown.map(|it| it.bound_ns), known.map(|it| it.bound_ns));
        assert!(folder.path().join("host").exists() && daemon.not_used.is_empty());
        daemon.sample(&mut |_| ());
    }
    // One that cannot be used leaves all as it was.
    let wrong = with(&daemon, &["127.0.0.1:9", "127.0.0.1:9"]);
    assert!(daemon.take_over(wrong).is_err());
    assert!(names(&daemon) == [host] && folder.path().join("host").exists());
}

/// A dry run's clock is the real one and what it would have been moved by: no bound of it holds of
/// the real one.
#[test]
fn what_a_dry_run_knew_bounds_no_clock_that_is_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = told(folder.path(), 2 * S);
    let known = |daemon: &Daemon| daemon.keeper.error_bound(monotonic_ns());
    assert!(matches!(known(&daemon), keeper::KeptBound::Within { .. }), "{:?}", daemon.status());
    let mut settings = daemon.settings.clone();
    // Nothing is fed, and nothing is set.
    (settings.dry_run, settings.chronyd.feed) = (false, Some(folder.path().join("chronyd")));
    daemon.take_over(settings).unwrap();
    assert!(!matches!(known(&daemon), keeper::KeptBound::Within { .. }), "{:?}", daemon.status());
    assert_eq!(daemon.clock.ahead_ns(), 0);
}

/// chronyd slews a large offset by a tick of another length, 200 times as fast as a bound grows.
#[test]
fn nothing_bounds_a_clock_that_is_steered_faster_than_its_bound_grows() {
    let steered = |tick_us, frequency_ppm| {
        super::super::corrections::steers_beyond_bounds(&Adjtimex {
            offset_ns: 0,
            miscast_offset_us: None,
            frequency_ppm,
            max_error_us: 0,
            estimated_error_us: 0,
            status: 0,
            tick_us,
            tai_s: 0,
            state: 0,
            not_given: Vec::new(),
        })
    };
    assert!(!steered(10_000, 499.9) && !steered(10_001, -50.0));
    assert!(steered(11_000, 0.0) && steered(9_000, 0.0) && steered(10_005, 50.0));
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = told(folder.path(), 0);
    let is_bounded = |daemon: &Daemon| {
        let known = daemon.keeper.error_bound(monotonic_ns());
        let is_bounded = matches!(known, keeper::KeptBound::Within { .. });
        assert!(is_bounded || daemon.status().clock.state == KeeperClockState::Unsynchronised);
        is_bounded
    };
    assert!(is_bounded(&daemon), "{:?}", daemon.status());
    daemon.note_steering(true);
    assert!(!is_bounded(&daemon));
    daemon.note_steering(false);
    assert!(!is_bounded(&daemon), "measured before");
    tell(folder.path(), &mut daemon, 0);
    assert!(is_bounded(&daemon), "{:?}", daemon.status());
}
