//! The services' units.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use daemon::program;

const UNITS: [&str; 2] = ["parachrond.service", "parachrond-chrony.service"];

/// What a unit that never finds what it needs may cost: starts in an hour.
const MOST_STARTS: usize = 361;
const MOST_STARTS_WITH_STEPS: usize = 60;

/// How long a clock may be unkept after a crash, however many there were before.
const LONGEST: Duration = Duration::from_secs(90);

fn unit(name: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"));
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The lines of one section.
fn section<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let heading = format!("[{name}]");
    let lines = unit.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('[')).collect()
}

/// `facts::hardware::PhcDriver` knows hosts' clocks by how their names begin.
#[test]
fn the_group_may_read_each_clock_that_is_taken_for_a_hosts() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"));
    let rules = std::fs::read_to_string(folder.join("90-parachron.rules")).unwrap();
    let of_ptp = rules.lines().find(|line| line.starts_with("SUBSYSTEM==\"ptp\"")).unwrap();
    let names: Vec<_> = of_ptp.split('"').nth(3).unwrap().split('|').collect();
    for known in ["KVM virtual PTP", "hyperv", "vmclock", "ptp_vmw", "ena-ptp", "Virtio PTP type"] {
        assert!(names.iter().any(|name| name.trim_end_matches('*') == known), "{known}: {of_ptp}");
    }
    // Without that the daemon publishes no marker (`src/clockbound.rs`).
    assert!(rules.contains("SUBSYSTEM==\"misc\", KERNEL==\"vmclock*\", MODE=\"0444\""));
}

/// The value of a key that is there once.
fn value<'a>(section: &[&'a str], key: &str) -> &'a str {
    let mut values = section.iter().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("no {key}="));
    assert_eq!(values.next(), None, "{key}= is there twice");
    value
}

/// A time span of systemd's, of one unit: `10s`, `5min`.
fn seconds(value: &str) -> f64 {
    let (number, unit_s) = match value.strip_suffix("min") {
        Some(number) => (number, 60.0),
        None => (value.strip_suffix('s').expect("min or s"), 1.0),
    };
    number.parse::<f64>().unwrap() * unit_s
}

/// The delays before each restart, s. A systemd without `RestartSteps=`, before 254,
/// has one; `service_restart_usec_next`, src/core/service.c, has a geometric series, of
/// which 10 s, 3 steps and 80 s make 10, 20, 40, 80, 80 …
fn delays_s(service: &[&str], knows_steps: bool) -> impl Iterator<Item = f64> {
    let first_s = seconds(value(service, "RestartSec"));
    let longest_s = seconds(value(service, "RestartMaxDelaySec"));
    let steps: u32 = value(service, "RestartSteps").parse().unwrap();
    assert!(steps > 0 && longest_s > first_s);
    let ratio = (longest_s / first_s).powf(1.0 / f64::from(steps));
    let steps = if knows_steps { steps } else { 0 };
    (0_u32..).map(move |restart| first_s * ratio.powf(f64::from(restart.min(steps))))
}

/// Starts within an hour of one that fails at once, each time.
fn starts_in_an_hour(delays_s: impl Iterator<Item = f64>) -> usize {
    let mut at_s = 0.0;
    1 + delays_s.take_while(|delay_s| (at_s += delay_s, at_s <= 3600.0).1).count()
}

#[test]
fn the_services_are_started_again_where_that_helps_and_reload_what_was_checked() {
    let prevented = format!("{} {}", program::USAGE, program::REFUSED);
    for name in UNITS {
        let unit = unit(name);
        let service = section(&unit, "Service");
        assert_eq!(value(&service, "Restart"), "always", "{name}");
        assert_eq!(value(&service, "RestartPreventExitStatus"), prevented, "{name}");
        let reload: Vec<_> =
            service.iter().filter(|line| line.starts_with("ExecReload=")).collect();
        let [check, hang_up] = reload[..] else { panic!("{name}: {reload:?}") };
        assert!(check.ends_with("parachrond --check") && hang_up.ends_with("'kill -HUP $MAINPID'"));
        // In [Service] systemd would leave it out. With any other value it gives up.
        assert_eq!(value(&section(&unit, "Unit"), "StartLimitIntervalSec"), "0", "{name}");
    }
}

/// systemd 252, of Debian 12, leaves out the keys of 254 with a warning: what it does
/// then has to be bearable too.
#[test]
fn restarts_are_paced_by_a_systemd_with_and_without_steps() {
    for name in UNITS {
        let unit = unit(name);
        let service = section(&unit, "Service");
        let by_252 = starts_in_an_hour(delays_s(&service, false));
        let by_254 = starts_in_an_hour(delays_s(&service, true));
        assert!(by_252 <= MOST_STARTS, "{name}: {by_252} starts an hour before systemd 254");
        assert!(by_254 <= MOST_STARTS_WITH_STEPS, "{name}: {by_254} starts an hour");
        let longest_s = delays_s(&service, true).nth(1000).unwrap();
        assert!(longest_s <= LONGEST.as_secs_f64(), "{name}: {longest_s} s without a keeper");
    }
}

#[test]
fn the_series_of_delays_is_systemds() {
    let service = ["RestartSec=10s", "RestartSteps=4", "RestartMaxDelaySec=160s"];
    // The example of systemd.service(5).
    let delays: Vec<_> = delays_s(&service, true).take(6).map(f64::round).collect();
    assert_eq!(delays, [10.0, 20.0, 40.0, 80.0, 160.0, 160.0]);
    assert_eq!(starts_in_an_hour(delays_s(&service, false)), 361);
    // As the units were: each second, for ever, before 254.
    let before = ["RestartSec=1s", "RestartSteps=8", "RestartMaxDelaySec=5min"];
    assert!(starts_in_an_hour(delays_s(&before, false)) > 10 * MOST_STARTS - 10);
}

/// What the generator makes of a machine with these files: a drop-in, or none.
fn generated(has_chronyd: bool, passwd: &str) -> Option<String> {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    std::fs::write(at("passwd"), passwd).unwrap();
    if has_chronyd {
        std::fs::write(at("chronyd"), "").unwrap();
        std::fs::set_permissions(at("chronyd"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let there = |name: &str| at(name).display().to_string();
    let script = unit("parachrond-generator")
        .replace("/usr/sbin/chronyd", &there("chronyd"))
        .replace("/etc/passwd", &there("passwd"));
    let out = there("out");
    let sh = Command::new("sh").args(["-c", &script, "generator", &out, &out, &out]).status();
    assert!(sh.unwrap().success());
    std::fs::read_to_string(at("out/parachrond.service.d/05-chrony.conf")).ok()
}

/// chronyd obeys its own user, and its command socket is one of that user's folder.
#[test]
fn beside_chrony_the_service_is_chronys_user() {
    let root = "root:x:0:0::/root:/bin/sh\n";
    let debians = format!("{root}_chrony:x:107:110::/var/lib/chrony:/usr/sbin/nologin\n");
    let fedoras = format!("{root}chrony:x:994:991::/var/lib/chrony:/sbin/nologin\n");
    for (passwd, user) in [(&debians, "_chrony"), (&fedoras, "chrony")] {
        let expected = format!("[Service]\nUser={user}\nReadWritePaths=/run\n");
        assert_eq!(generated(true, passwd), Some(expected));
    }
    assert_eq!(generated(true, root), None, "no such user");
    let person = format!("{root}chrony:x:1000:1000:Chrony:/srv/chrony:/bin/sh\n");
    assert_eq!(generated(true, &person), None, "a person of that name");
    assert_eq!(generated(false, &debians), None, "chrony was removed, and its user left");
}

/// `--thaw` is confined too, as the profile attaches by path: root without these capabilities
/// can neither read a file of mode 0600 of another user nor remove it.
#[test]
fn the_profile_lets_root_thaw_by_the_list_of_the_daemons_user() {
    let unit = unit("parachrond.service");
    let stop = value(&section(&unit, "Service"), "ExecStopPost").to_owned();
    assert_eq!(stop, "-+/usr/bin/parachrond --thaw");
    let profile = self::unit("usr.bin.parachrond");
    for needed in ["dac_override", "dac_read_search"] {
        let rule = format!("  capability {needed},");
        assert!(profile.lines().any(|line| line == rule), "no {needed}");
    }
}
