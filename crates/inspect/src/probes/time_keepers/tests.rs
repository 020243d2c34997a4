use std::fs;

use super::*;
use crate::tree::Tree;

/// A tree of processes: their names, effective capabilities and command lines.
fn found(processes: &[(&str, Option<u64>, &str)]) -> String {
    of_units(processes, &[], false).value().unwrap().clone()
}

/// The same with units: their paths below the groups, and the processes in them.
fn of_units(
    processes: &[(&str, Option<u64>, &str)],
    units: &[(&str, &[usize])],
    are_hidden: bool,
) -> Fact<String> {
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
    for (unit, ids) in units {
        let group = folder.path().join("sys/fs/cgroup").join(unit);
        fs::create_dir_all(&group).unwrap();
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        fs::write(group.join("cgroup.procs"), lines).unwrap();
        for id in *ids {
            let of_process = folder.path().join(format!("proc/{id}"));
            let line = format!("4:cpu:/\n0::/{}\n", unit.trim_start_matches("systemd/"));
            fs::write(of_process.join("cgroup"), line).unwrap();
        }
    }
    let tree = Tree::captured(folder.path()).unwrap();
    tree.digest("time-keepers", "daemons", |files| super::list(files, are_hidden))
}

const ALL: Option<u64> = Some(0x1ff_ffff_ffff);
const NO_TIME: Option<u64> = Some(0x1ff_fdff_ffff);

#[test]
fn a_daemon_has_a_name_and_may_set_the_clock() {
    assert_eq!(found(&[("init", ALL, "init"), ("chronyd", ALL, "chronyd")]), "chrony running\n");
    assert_eq!(found(&[("chronyd", Some(1 << 25), "chronyd -u _chrony")]), "chrony running\n");
    let idle = found(&[("chronyd", NO_TIME, "chronyd -x"), ("ntpd", Some(0), "sleep")]);
    assert_eq!(idle, "chrony leaves-clock\n");
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

/// What parachrond is told in its file counts as what it is told on its command line.
#[test]
fn a_daemon_that_leaves_the_clock_alone_by_its_file_does_not_keep_it() {
    let found = |command: &str, path: &str, settings: &str| {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("proc/1/comm", "parachrond\n");
        write("proc/1/cmdline", &(command.replace(' ', "\0") + "\0"));
        write("proc/1/status", &format!("CapEff:\t{:016x}\n", 1 << 25));
        write(path, settings);
        let tree = Tree::captured(folder.path()).unwrap();
        let found = tree.digest("time-keepers", "daemons", |files| super::list(files, false));
        found.value().unwrap().clone() == "parachron-keep running\n"
    };
    let usual = "etc/parachron/parachrond.toml";
    for (settings, keeps) in [
        ("#dry-run = true\n", true),
        ("dry-run = false # true\n", true),
        ("dry-run=true\n", false),
        ("poll = \"8s\"\n  dry-run = true # for now\n", false),
        ("chrony = []\n", true),
        ("chrony = [ ] # none\n", true),
        ("chrony = [\"makestep\"]\n", false),
        ("\u{0}\n=\n", true),
    ] {
        assert_eq!(found("/usr/bin/parachrond", usual, settings), keeps, "{settings}");
        let own = found("parachrond --config /tmp/c.toml", "tmp/c.toml", settings);
        assert_eq!(own, keeps, "{settings}");
        assert_eq!(found("parachrond --config=/tmp/c.toml", "tmp/c.toml", settings), keeps);
        assert!(found("parachrond --config /tmp/c.toml", usual, settings));
    }
}

#[test]
fn the_daemon_is_installed_where_its_program_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("proc/1")).unwrap();
    fs::write(folder.path().join("proc/1/comm"), "init\n").unwrap();
    fs::create_dir_all(folder.path().join("usr/bin")).unwrap();
    fs::write(folder.path().join("usr/bin/parachrond"), "").unwrap();
    let tree = Tree::captured(folder.path()).unwrap();
    let found = tree.digest("time-keepers", "daemons", |files| super::list(files, false));
    assert_eq!(found, Fact::Known("parachron-keep installed\n".into()));
}

#[test]
fn a_daemon_is_of_a_unit_whatever_its_name() {
    let found = |processes: &[(&str, Option<u64>, &str)], unit| {
        of_units(processes, &[(unit, &[1])], false).value().unwrap().clone()
    };
    let (chrony, ntpsec) = ("system.slice/chrony.service", "system.slice/ntpsec.service");
    assert_eq!(found(&[("chronyd", ALL, "")], chrony), "chrony running unit=chrony.service\n");
    // Under a name of its own, in either version's place.
    let renamed = [("timed", ALL, "")];
    assert_eq!(found(&renamed, ntpsec), "ntpd running unit=ntpsec.service\n");
    let version_1 = "systemd/system.slice/ntpsec.service";
    assert_eq!(found(&renamed, version_1), "ntpd running unit=ntpsec.service\n");
    // By its name, in a unit of somebody's own, or in none.
    let own = "system.slice/my-time.service";
    assert_eq!(found(&[("ntpd", ALL, "")], own), "ntpd running unit=my-time.service\n");
    assert_eq!(found(&[("ntpd", ALL, "")], "user.slice/a.scope"), "ntpd running\n");
    // One that may not set the clock, or whose unit is an ordinary user's.
    assert_eq!(found(&[("timed", NO_TIME, "")], ntpsec), "");
    let users = "user.slice/user-1000.slice/user@1000.service/app.slice/ntpsec.service";
    assert_eq!(found(&renamed, users), "");
    // A unit is what is the last of its path, in slices of the system's: no ancestor of a
    // user's scope, nor what a service has below it.
    for not_ours in [
        "user.slice/user-1000.slice/user@1000.service/app.slice/x.scope",
        "user.slice/user-1000.slice/user@1000.service/app.slice/my-time.service",
        "system.slice/docker.service/my-time.service",
        "system.slice/my-time.service/payload",
        "machine.slice/a.scope/system.slice/my-time.service",
    ] {
        assert_eq!(found(&[("ntpd", ALL, "")], not_ours), "ntpd running\n", "{not_ours}");
    }
    let instance = "system.slice/system-time.slice/time@1.service";
    assert_eq!(found(&[("ntpd", ALL, "")], instance), "ntpd running unit=time@1.service\n");
    // A unit's name that could not stand in a command.
    assert_eq!(found(&[("ntpd", ALL, "")], "system.slice/a;b.service"), "ntpd running\n");
}

#[test]
fn clockbound_connman_and_htpdate_steer_the_clock_where_they_may() {
    let found = |name: &str, effective, unit: &str| {
        of_units(&[(name, effective, "")], &[(unit, &[1])], false).value().unwrap().clone()
    };
    for (name, unit, kind) in [
        ("clockbound", "clockbound.service", "clockbound"),
        ("connmand", "connman.service", "connman"),
        ("htpdate", "htpdate.service", "htpdate"),
    ] {
        let group = format!("system.slice/{unit}");
        let running = format!("{kind} running unit={unit}\n");
        assert_eq!(found(name, ALL, &group), running);
        assert_eq!(found("renamed", Some(1 << 25), &group), running);
        // As ClockBound's release 2 runs, for chrony's user.
        assert_eq!(found(name, Some(0), &group), "");
        let kind = TimeKeeperKind::from_name(kind).unwrap();
        assert!(kind.disciplines(), "{kind:?}");
    }
}

#[test]
fn a_daemon_is_of_a_templates_instance() {
    let found = |name: &str, group: &str| {
        of_units(&[(name, ALL, "")], &[(group, &[1])], false).value().unwrap().clone()
    };
    let mgmt = "system.slice/system-chrony.slice/chrony@mgmt.service";
    let running = "chrony running unit=chrony@mgmt.service\n";
    assert_eq!(found("chronyd", mgmt), running);
    // Whatever its name, in either version's place, and with a dash in the template's.
    assert_eq!(found("timed", mgmt), running);
    assert_eq!(found("timed", &format!("systemd/{mgmt}")), running);
    let dash = "system.slice/system-ntpd\\x2drs.slice/ntpd-rs@a.service";
    assert_eq!(found("timed", dash), "ntpd-rs running unit=ntpd-rs@a.service\n");
    let ptp = "system.slice/system-phc2sys.slice/phc2sys@eth0.service";
    assert_eq!(found("timed", ptp), "linux-ptp running unit=phc2sys@eth0.service\n");
    // Another template's, a name that could not stand in a command, a user's.
    for other in [
        "system.slice/system-chrony.slice/chronograph@mgmt.service",
        "system.slice/system-chrony.slice/chrony@a;b.service",
        "user.slice/user-1000.slice/user@1000.service/system-chrony.slice/chrony@a.service",
    ] {
        assert_eq!(found("timed", other), "", "{other}");
    }
    // By its unit alone.
    let processes = [("parachrond", Some(1 << 25), "parachrond --dry-run"), ("", None, "")];
    let hidden = of_units(&processes, &[(mgmt, &[2])], true);
    let expected = "chrony running unit=chrony@mgmt.service by-unit-alone\n";
    assert_eq!(hidden, Fact::Known(expected.into()));
}

/// Of another user's process nothing is seen but that its unit has it.
#[test]
fn where_processes_are_hidden_a_unit_alone_is_evidence() {
    let us = [("parachrond", Some(1 << 25), "parachrond --dry-run"), ("", None, "")];
    let unit = [("system.slice/chronyd.service", &[2][..])];
    let found = of_units(&us, &unit, true);
    assert_eq!(found, Fact::Known("chrony running unit=chronyd.service by-unit-alone\n".into()));
    // Without one it is not known, as a daemon may be of another unit.
    for units in [&[][..], &[("system.slice/ssh.service", &[2][..])]] {
        let why = of_units(&us, units, true).unknown().unwrap().to_string();
        assert!(why.contains("other users' processes"), "{why}");
    }
    // A unit that has no process does not run.
    let ended = [("system.slice/chronyd.service", &[][..])];
    assert!(of_units(&us, &ended, true).unknown().is_some());
}

/// Beside these an ntpd of another unit would not be seen.
#[test]
fn where_processes_are_hidden_only_a_discipline_that_is_seen_is_an_answer() {
    let tool = ("system.slice/qemu-guest-agent.service", &[2][..]);
    let chronyd = ("system.slice/chronyd.service", &[3][..]);
    let hidden = ("", None, "");
    for ours in ["parachrond --dry-run", "parachrond"] {
        let processes = [("parachrond", Some(1 << 25), ours), hidden, hidden];
        let found = of_units(&processes, &[tool], true);
        assert!(found.unknown().is_some(), "{ours}: {found:?}");
        let found = of_units(&processes, &[tool, chronyd], true).value().unwrap().clone();
        assert!(found.contains("chrony running") && found.contains("qemu-guest-agent"), "{found}");
    }
}

#[test]
fn a_unit_has_ended_once_it_has_no_process() {
    ends("chrony.service", "chrony.service");
    ends("chrony@mgmt.service", "system-chrony.slice/chrony@mgmt.service");
}

fn ends(unit: &str, group: &str) {
    let folder = tempfile::tempdir().unwrap();
    let ended = || {
        let tree = Tree::captured(folder.path()).unwrap();
        let found =
            tree.digest("ended", "units", |files| Fact::Known(has_ended(files, unit).to_string()));
        found.value().unwrap().clone()
    };
    assert_eq!(ended(), "true");
    let group = folder.path().join("sys/fs/cgroup/system.slice").join(group);
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cgroup.procs"), "17\n").unwrap();
    assert_eq!(ended(), "false");
    fs::write(group.join("cgroup.procs"), "").unwrap();
    assert_eq!(ended(), "true");
    // What cannot be read.
    fs::remove_file(group.join("cgroup.procs")).unwrap();
    fs::create_dir(group.join("cgroup.procs")).unwrap();
    assert_eq!(ended(), "false");
}
