//! What the files of time daemons' units state.

use facts::Fact;

use super::time_keepers::{NTPD_UNITS, SETTINGS_BYTES, SIGNS};
use crate::tree::Files;

/// Where systemd looks for units, the strongest first (systemd.unit(5)).
const UNIT_FOLDERS: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The conditions of time daemons' units, `NAME.service Condition…=…`: where one does not hold,
/// systemd skips the start without an error.
pub(crate) fn find(files: &Files) -> Fact<String> {
    let mut text = String::new();
    let units = SIGNS.iter().flat_map(|(_, _, _, units)| *units).chain(NTPD_UNITS);
    for unit in units {
        let wanted = format!("/etc/systemd/system/multi-user.target.wants/{unit}.service");
        if files.exists(&wanted) || files.exists(&wanted.replace("multi-user", "sysinit")) {
            text.push_str(&format!("{unit}.service enabled\n"));
        }
        let of = |folder: &&str| files.bytes(&format!("{folder}/{unit}.service"), SETTINGS_BYTES);
        let mut all: Vec<Vec<u8>> = Vec::new();
        all.extend(UNIT_FOLDERS.iter().find_map(|folder| of(folder).value().cloned()));
        for folder in UNIT_FOLDERS.map(|folder| format!("{folder}/{unit}.service.d")) {
            let names = files.names(&folder);
            let paths = names.value().into_iter().flatten().map(|name| format!("{folder}/{name}"));
            all.extend(
                paths.filter_map(|path| files.bytes(&path, SETTINGS_BYTES).value().cloned()),
            );
        }
        // /dev/null, or an empty file (systemctl(1), mask).
        if all.first().is_some_and(Vec::is_empty) {
            text.push_str(&format!("{unit}.service masked\n"));
        }
        for file in all {
            for line in String::from_utf8_lossy(&file).lines().map(str::trim) {
                if line.starts_with("Condition") && line.contains('=') {
                    text.push_str(&format!("{unit}.service {line}\n"));
                }
            }
        }
    }
    Fact::Known(text)
}
