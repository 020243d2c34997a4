//! The services' units.

use std::path::Path;

use daemon::program;

/// The lines of one section.
fn section<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let heading = format!("[{name}]");
    let lines = unit.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('[')).collect()
}

#[test]
fn the_services_are_started_again_where_that_helps_and_reload_what_was_checked() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"));
    let prevented = format!("RestartPreventExitStatus={} {}", program::USAGE, program::REFUSED);
    for name in ["parachrond.service", "parachrond-chrony.service"] {
        let unit = std::fs::read_to_string(folder.join(name)).unwrap();
        let service = section(&unit, "Service");
        for line in ["Restart=always", &prevented, "RestartMaxDelaySec=5min"] {
            assert!(service.contains(&line), "{name}: {line}");
        }
        let reload: Vec<_> =
            service.iter().filter(|line| line.starts_with("ExecReload=")).collect();
        let [check, hang_up] = reload[..] else { panic!("{name}: {reload:?}") };
        assert!(check.ends_with("parachrond --check") && hang_up.ends_with("kill -HUP $MAINPID"));
        // In [Service] systemd would leave it out.
        assert!(section(&unit, "Unit").contains(&"StartLimitIntervalSec=0"), "{name}");
    }
}
