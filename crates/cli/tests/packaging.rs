//! The services' units.

use std::path::Path;

/// The lines of one section.
fn section<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let heading = format!("[{name}]");
    let lines = unit.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('[')).collect()
}

#[test]
fn the_services_are_started_again_however_often_they_end() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"));
    for name in ["parachron-keep.service", "parachron-keep-chrony.service"] {
        let unit = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(section(&unit, "Service").contains(&"Restart=always"), "{name}");
        // In [Service] systemd would leave it out.
        assert!(section(&unit, "Unit").contains(&"StartLimitIntervalSec=0"), "{name}");
    }
}
