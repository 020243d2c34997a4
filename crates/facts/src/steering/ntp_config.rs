//! Which servers ntpd and systemd-timesyncd are configured with.

use schemars::JsonSchema;
use serde::Serialize;

use super::TimeKeeperKind;
use super::chrony_config::{FILE, NtpServer, is_public, smears};
use crate::Fact;
use crate::kernel::command_line::WITHHELD;

/// A daemon's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NtpConfig {
    /// Whose.
    pub kind: TimeKeeperKind,
    /// Its first file.
    pub file: String,
    /// Servers and pools; `null` where the daemon's own default counts.
    pub servers: Option<Vec<NtpServer>>,
}

/// The kept part: servers, without the names of any but clouds'.
pub fn reduce(text: &str) -> String {
    let shown = |name: &str| if is_public(name) { name.to_owned() } else { WITHHELD.to_owned() };
    let kept = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [kind @ ("server" | "pool" | "peer"), name, ..] => {
                Some(format!("{kind} {}\n", shown(name)))
            }
            _ if line.starts_with(FILE) => Some(format!("{line}\n")),
            _ => {
                let (key, names) = line.split_once('=')?;
                let names: Vec<_> = names.split_whitespace().map(shown).collect();
                ["NTP", "FallbackNTP"]
                    .contains(&key.trim())
                    .then(|| format!("{}={}\n", key.trim(), names.join(" ")))
            }
        }
    };
    text.lines().filter_map(kept).collect()
}

/// The files, each with its name before it (`# file /etc/ntp.conf`); those of timesyncd's
/// drop-ins follow its own.
pub fn parse(text: &str) -> Fact<Vec<NtpConfig>> {
    let files = text.split(FILE).filter(|part| part.starts_with('/'));
    Fact::Known(files.map(|part| one_file(part.lines())).collect())
}

fn one_file<'t>(mut lines: impl Iterator<Item = &'t str>) -> NtpConfig {
    let file = lines.next().unwrap_or_default().to_owned();
    let server =
        |name: &str, is_pool| NtpServer { name: name.to_owned(), smears: smears(name), is_pool };
    if !file.contains("timesyncd") {
        let servers = lines.filter_map(|line| line.split_once(' '));
        return NtpConfig {
            kind: TimeKeeperKind::Ntpd,
            servers: Some(servers.map(|(kind, name)| server(name, kind == "pool")).collect()),
            file,
        };
    }
    // An empty list takes back those before it; without any the built-in ones count, also where
    // FallbackNTP is empty (systemd/systemd#40621).
    let (mut own, mut fallback) = (Vec::new(), Vec::new());
    for (key, names) in lines.filter_map(|line| line.split_once('=')) {
        let list = if key == "NTP" { &mut own } else { &mut fallback };
        if names.is_empty() {
            list.clear();
        }
        list.extend(names.split_whitespace().map(|name| server(name, false)));
    }
    let servers = [own, fallback].into_iter().find(|list| !list.is_empty());
    NtpConfig { kind: TimeKeeperKind::SystemdTimesyncd, file, servers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_of_each_daemon() {
        let text = "# file /etc/ntp.conf\ndriftfile /x\nserver 127.127.1.0\n#server a\n\
                    fudge 127.127.1.0 stratum 10\npool secret.example iburst\n\
                    # file /etc/systemd/timesyncd.conf\n[Time]\n#NTP=\nNTP=a b\nNTP=\n\
                    FallbackNTP=time.google.com c\n";
        let reduced = reduce(text);
        assert_eq!(reduce(&reduced), reduced);
        assert!(!reduced.contains("secret"), "{reduced}");
        let Fact::Known(found) = parse(&reduced) else { panic!() };
        let names = |at: usize| {
            let servers = found[at].servers.iter().flatten();
            servers.map(|one: &NtpServer| one.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["127.127.1.0", WITHHELD]);
        assert_eq!(names(1), ["time.google.com", WITHHELD]);
        let Fact::Known(found) = parse("# file /etc/systemd/timesyncd.conf\n") else { panic!() };
        assert_eq!(found[0].servers, None);
    }
}
