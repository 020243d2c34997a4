use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

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
