use std::fs;

use super::*;
use crate::tree::Tree;

/// A tree of processes: their names, effective capabilities and command lines.
fn found(processes: &[(&str, Option<u64>, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (id, (name, effective, command)) in processes.iter().enumerate() {
        let process = folder.path().join(format!("proc/{}", id + 1));
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("comm"), format!("{name}\n")).unwrap();
        fs::write(process.join("cmdline"), command.replace(' ', "\0") + "\0").unwrap();
        let map = match command.split_once("--user-map=") {
            Some((_, "first")) => Some("         0          0 4294967295\n"),
            Some(_) => Some("         0       1000          1\n"),
            None => None,
        };
        if let Some(map) = map {
            fs::write(process.join("uid_map"), map).unwrap();
        }
        if let Some(effective) = effective {
            let status = format!("CapPrm:\t{:016x}\nCapEff:\t{effective:016x}\n", u64::MAX);
            fs::write(process.join("status"), status).unwrap();
        }
    }
    let tree = Tree::captured(folder.path()).unwrap();
    tree.digest("time-keepers", "daemons", find).known().unwrap().clone()
}

const ALL: Option<u64> = Some(0x1ff_ffff_ffff);
const NO_TIME: Option<u64> = Some(0x1ff_fdff_ffff);

#[test]
fn a_daemon_has_a_name_and_may_set_the_clock() {
    assert_eq!(found(&[("init", ALL, "init"), ("chronyd", ALL, "chronyd")]), "chrony running\n");
    assert_eq!(found(&[("chronyd", Some(1 << 25), "chronyd -u _chrony")]), "chrony running\n");
    assert_eq!(found(&[("chronyd", NO_TIME, "chronyd -x"), ("ntpd", Some(0), "sleep")]), "");
    // chronyd has a helper, ntpd of OpenNTPD too, without the right.
    assert_eq!(found(&[("ntpd", NO_TIME, "ntpd"), ("ntpd", ALL, "ntpd")]), "ntpd running\n");
    // An ordinary user's, in a user namespace.
    assert_eq!(found(&[("chronyd", ALL, "chronyd --user-map=1000")]), "");
    assert_eq!(found(&[("chronyd", ALL, "chronyd --user-map=first")]), "chrony running\n");
    // A tree made by hand.
    assert_eq!(found(&[("phc2sys", None, "")]), "linux-ptp running\n");
}

#[test]
fn keep_is_a_daemon_where_it_corrects_the_clock() {
    let unit = "/usr/bin/parachron keep --host-socket /run/parachron/host.sock";
    for (command, keeps) in [
        ("parachron keep", true),
        (unit, true),
        ("parachron keep --ntp a.example --dry-run", false),
        ("parachron keep --chrony makestep", false),
        ("parachron watch --journal", false),
        ("parachron doctor --only keep", false),
    ] {
        let expected = if keeps { "parachron-keep running\n" } else { "" };
        assert_eq!(found(&[("parachron", Some(1 << 25), command)]), expected, "{command}");
        assert_eq!(found(&[("parachron", NO_TIME, command)]), "", "{command}");
    }
    assert_eq!(found(&[("other", ALL, unit)]), "");
    let daemon = |command| found(&[("parachrond", Some(1 << 25), command)]);
    assert_eq!(daemon("/usr/bin/parachrond"), "parachron-keep running\n");
    assert_eq!(daemon("parachrond --config /tmp/c.toml --dry-run"), "");
}
