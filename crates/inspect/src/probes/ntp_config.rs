//! ntpd's and systemd-timesyncd's configuration, from their files.

use facts::steering::chrony_config::FILE;
use facts::steering::ntp_config::{self, NTPD, TIMESYNCD};
use facts::{Fact, Unknown};

use super::time_keepers::SETTINGS_BYTES;
use crate::tree::Files;

/// The weakest first (timesyncd.conf(5)).
const DROP_INS: [&str; 3] = [
    "/usr/lib/systemd/timesyncd.conf.d",
    "/run/systemd/timesyncd.conf.d",
    "/etc/systemd/timesyncd.conf.d",
];

/// The kept lines, each daemon's after the name of its file.
pub(crate) fn find(files: &Files) -> Fact<String> {
    read(files).into()
}

fn read(files: &Files) -> Result<String, Unknown> {
    let mut text = String::new();
    let mut add = |path: &str, named: Option<&str>| match files.bytes(path, SETTINGS_BYTES) {
        Fact::Known(bytes) => {
            text.extend(named.map(|name| format!("{FILE}{name}\n")));
            text.push_str(&ntp_config::reduce(&String::from_utf8_lossy(&bytes)));
            Ok(true)
        }
        Fact::Unknown(Unknown::NotThere { .. }) => Ok(false),
        Fact::Unknown(why) => Err(why),
    };
    for path in NTPD {
        if add(path, Some(path))? {
            // ntpsec's drop-ins: /etc/ntpsec/ntp.d.
            let folder = path.replace(".conf", ".d");
            for name in files.names(&folder).value().into_iter().flatten() {
                let _ = name.ends_with(".conf") && add(&format!("{folder}/{name}"), None)?;
            }
            break;
        }
    }
    let mut is_named = add(TIMESYNCD, Some(TIMESYNCD))?;
    for folder in DROP_INS {
        for name in files.names(folder).value().into_iter().flatten() {
            let named = (!is_named).then_some(TIMESYNCD);
            is_named |= name.ends_with(".conf") && add(&format!("{folder}/{name}"), named)?;
        }
    }
    if text.is_empty() { Err(Unknown::not_there(NTPD[1])) } else { Ok(text) }
}
