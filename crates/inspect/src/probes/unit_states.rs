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
        let is_wanted = |path: &str| files.exists(path) || files.link(path).is_some();
        if is_wanted(&wanted) || is_wanted(&wanted.replace("multi-user", "sysinit")) {
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
        let is_null = |folder: &&str| {
            files.link(&format!("{folder}/{unit}.service")).as_deref() == Some("/dev/null")
        };
        if all.first().is_some_and(Vec::is_empty) || UNIT_FOLDERS[..2].iter().any(is_null) {
            text.push_str(&format!("{unit}.service masked\n"));
        }
        let mut conditions = Vec::new();
        for file in all {
            for line in String::from_utf8_lossy(&file).lines().map(str::trim) {
                match line.split_once('=') {
                    // An empty one takes back all before it (systemd.unit(5)).
                    Some((name, "")) if name.starts_with("Condition") => conditions.clear(),
                    Some((name, _)) if name.starts_with("Condition") => {
                        conditions.push(format!("{unit}.service {line}\n"));
                    }
                    _ => {}
                }
            }
        }
        text.extend(conditions);
    }
    // timesyncd waits for networkd to be online (systemd: src/timesync/timesyncd-manager.c).
    let state = files.bytes("/run/systemd/netif/state", SETTINGS_BYTES);
    let state = String::from_utf8_lossy(state.value().map_or(&[], Vec::as_slice)).into_owned();
    if state.lines().any(|line| ["OPER_STATE=off", "ONLINE_STATE=offline"].contains(&line)) {
        text.push_str("systemd-timesyncd.service offline\n");
    }
    Fact::Known(text)
}
