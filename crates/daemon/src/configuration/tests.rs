use std::time::Duration;

use super::*;

mod values;

fn whats(text: &str) -> Vec<String> {
    parse(text).unwrap_err().iter().map(ToString::to_string).collect()
}

/// The file that is shipped: each key with its meaning and its default, commented out.
fn commented_defaults() -> String {
    let mut text = String::from(
        "# /etc/parachron/parachrond.toml: the settings of parachrond. Every key is listed with\n\
         # its default. Check with `parachrond --check`, then `systemctl reload parachrond`.\n",
    );
    for option in OPTIONS {
        text.push('\n');
        text.extend(option.help_lines.iter().map(|line| format!("# {line}\n")));
        text.push_str(&format!("#{} = {}\n", option.key, option.default_toml));
    }
    text
}

/// `packaging/parachrond.toml` is written from the table.
#[test]
fn the_file_that_is_shipped_has_each_key_with_its_default() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/parachrond.toml");
    let shipped = std::fs::read_to_string(shipped).unwrap();
    assert!(shipped == commented_defaults(), "should be:\n{}", commented_defaults());
    assert!(shipped.lines().all(|line| line.is_empty() || line.starts_with('#')));
    let assigned = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let uncommented: String = shipped
        .lines()
        .filter(|line| assigned(line))
        .map(|line| format!("{}\n", &line[1..]))
        .collect();
    assert_eq!(uncommented.lines().count(), OPTIONS.len());
    let shown = |text: &str| format!("{:?}", parse(text).unwrap());
    assert_eq!(shown(&uncommented), shown(&shipped));
    assert_eq!(shown(&uncommented), shown(""));
}

/// Each key with another value than its default.
const EVERY_KEY: &str = "ntp = ['a.example', '[::1]:123']\ntimeout = '1ms'\npoll = '24h'\nmax-distance = '2s'\nmax-clock-error = '15ppm'\n\
                phc = ['/dev/ptp1,tai=37']\nhost-socket = '/run/h'\nhost-vsock = 4123\nhost-port = '/p'\nno-source = ['rtc']\n\
                step-threshold = '1s'\ntolerance = '2ms'\nmax-step = '1d'\nburst = 0x10\n\
                min-interval = '1min'\nnever-backward = true\nchrony = ['sock=/run/c']\n\
                allow-daemon = ['openntpd']\nforce = true\ndry-run = true\ninterval = '10s'\n\
                status-socket = ''\nmetrics = '0.0.0.0:9975'\nlisten-anywhere = true\nrecords = '/r'\nrecords-limit = 4\nconsumers = ['ceph']\nstate-folder = ''\nclockbound = '/run/b'\ngate = ['*', 'a.slice', '/b']\ngate-bound = '10us'\ngate-limit = '10min'\ngate-socket = '/run/g'\nhost-time = '/run/t'\nvmclock = '/tmp/v'\nkernel-log = '/tmp/k'\n";

/// A setting without a key does not compile here.
#[test]
fn every_setting_has_a_key_that_changes_it() {
    assert_eq!(EVERY_KEY.lines().count(), OPTIONS.len());
    let Settings {
        policy,
        max_clock_error_ppb,
        sources,
        chronyd,
        interval,
        duration: _, // Of a run by hand: --duration.
        dry_run,
        allowed,
        force,
        status_socket,
        metrics,
        listen_anywhere,
        records,
        records_limit_mb,
        consumers,
        state_folder,
        clockbound,
        host_time,
        gate,
        paths,
    } = parse(EVERY_KEY).unwrap();
    let keeper::Policy {
        step_threshold_ns,
        tolerance_ns,
        max_step_ns,
        min_interval_ns,
        burst,
        never_backward,
        poll_ns,
        max_distance_ns: _,     // Follows from `max-distance`.
        max_clock_error_ppb: _, // Follows from its setting, and from the machine.
        corrector: _,           // Follows from `chrony`.
    } = policy;
    let s = |s: u64| s * 1_000_000_000;
    assert_eq!((step_threshold_ns, tolerance_ns, max_step_ns), (s(1), 2_000_000, s(86_400)));
    assert_eq!((min_interval_ns, burst, never_backward, poll_ns), (s(60), 16, true, s(86_400)));
    let crate::SourceSettings {
        ntp,
        timeout,
        max_distance,
        phc,
        host_socket,
        host_vsock,
        host_port,
        excluded,
    } = sources;
    assert_eq!((max_distance, max_clock_error_ppb), (Duration::from_secs(2), Some(15_000)));
    assert_eq!((host_vsock, host_port), (Some(4123), Some("/p".into())));
    assert_eq!((ntp.len(), timeout, phc.len()), (2, Duration::from_millis(1), 1));
    assert_eq!(
        (host_socket, excluded),
        (Some("/run/h".into()), vec![crate::DiscoveredSource::Rtc])
    );
    assert_eq!((chronyd.feed, chronyd.makestep), (Some("/run/c".into()), None));
    assert_eq!((interval, dry_run, force, allowed.len()), (Duration::from_secs(10), true, true, 1));
    assert_eq!((status_socket, state_folder, clockbound), (None, None, Some("/run/b".into())));
    assert_eq!((listen_anywhere, records, records_limit_mb), (true, Some("/r".into()), 4));
    assert_eq!((metrics, consumers), ("0.0.0.0:9975".parse().ok(), vec!["ceph".to_owned()]));
    assert_eq!((host_time, gate.socket), (Some("/run/t".into()), "/run/g".into()));
    let gate = (gate.entries.len(), gate.bound.as_micros(), gate.limit.as_secs());
    assert_eq!(gate, (3, 10, 600));
    assert_eq!((paths.vmclock, paths.kernel_log), ("/tmp/v".into(), "/tmp/k".into()));
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let text = "step_threshold = '1s'\n\n  burst = 0 # none\nntp = ['a.example',\n  'b b']\n\
                tolerance = 5\ninterval = '1ms'\nsundial = true\nhost-socket = 'run/h'\n[daemon]\n";
    assert_eq!(
        whats(text),
        [
            "1:1: unknown key \"step_threshold\"; nearest: \"step-threshold\"",
            "3:11: burst: expected 1 to 100, found 0",
            "5:3: ntp: expected HOST, HOST:PORT or [ADDRESS]:PORT, found \"b b\": \"b b\" is no host name",
            "6:13: tolerance: expected text in quotes, found integer",
            "7:12: interval: expected 10ms to 10s, found \"1ms\"",
            "8:1: unknown key \"sundial\"",
            "9:15: host-socket: expected a path that begins with /, found \"run/h\"",
            "10:2: unknown key \"daemon\"; nearest: \"allow-daemon\"",
        ]
    );
}

#[test]
fn a_key_that_went_is_named_with_its_release_and_what_does_its_job() {
    assert_eq!(
        whats("web-config = '/etc/parachron/web.yml'"),
        ["1:1: web-config: removed after 0.1.0; put nginx in front of `metrics` for TLS and \
             passwords (docs/guide/fleet.md)"]
    );
}

#[test]
fn metrics_are_served_to_other_machines_only_by_a_second_key() {
    let refused = whats("burst = 3\nmetrics = '10.0.0.7:9975'");
    assert!(refused[0].starts_with("2:1: metrics: 10.0.0.7:9975 is not a loopback"), "{refused:?}");
    for allowed in ["metrics = '10.0.0.7:9975'\nlisten-anywhere = true", "metrics = '/run/m.sock'"]
    {
        assert!(parse(allowed).is_ok(), "{allowed}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_shown_where_they_are() {
    assert_eq!(
        whats("# ü\nburst = 3\ntolerance = '1s'"),
        ["3:1: tolerance is larger than step-threshold"]
    );
    assert!(
        whats("max-step = '50ms'")[0].starts_with("1:1: step-threshold is larger than max-step")
    );
    assert!(
        whats("never-backward = true\nchrony = ['makestep']")[0].starts_with("1:1: never-backward")
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_the_place() {
    for (text, place) in
        [("burst = \n", "1:"), ("burst = 3\nburst = 4\n", "2:1: duplicate key"), ("a = 'x\n", "1:")]
    {
        assert!(whats(text)[0].starts_with(place), "{:?}", whats(text));
    }
    assert!(matches!(load(Path::new("/nowhere")), Err(ConfigurationError::Unreadable { .. })));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    std::fs::write(&path, "#".repeat(300 << 10)).unwrap();
    assert!(load(&path).unwrap_err().to_string().contains("longer"));
    std::fs::write(&path, "a = 1\nb = 2").unwrap();
    let shown = load(&path).unwrap_err().to_string();
    assert!(shown.contains("long.toml:1:1: ") && shown.contains("\n"), "{shown}");
}
