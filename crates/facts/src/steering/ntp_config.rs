//! Which servers ntpd and systemd-timesyncd are configured with.

use schemars::JsonSchema;
use serde::Serialize;

use super::TimeKeeperKind;
use super::chrony_config::{FILE, NtpServer, is_public, smears};
use crate::Fact;
use crate::kernel::WITHHELD;

/// ntpd's first file: ntpsec's, or the usual one.
pub const NTPD: [&str; 2] = ["/etc/ntpsec/ntp.conf", "/etc/ntp.conf"];
/// timesyncd's first file.
pub const TIMESYNCD: &str = "/etc/systemd/timesyncd.conf";

const SERVERS: [&str; 3] = ["server", "pool", "peer"];
/// What names ntpd's sources in another place or way (ntp.conf(5), ntpsec's `refclock`).
const OTHERS: [&str; 5] =
    ["includefile", "refclock", "manycastclient", "broadcastclient", "multicastclient"];

/// A daemon's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NtpConfig {
    /// Whose.
    pub kind: TimeKeeperKind,
    /// Its first file.
    pub file: String,
    /// Servers and pools; `null` where the daemon's own default or what is not read counts.
    pub servers: Option<Vec<NtpServer>>,
}

/// The kept part: servers, without the names of any but clouds'.
pub fn reduce(text: &str) -> String {
    let shown = |name: &str| if is_public(name) { name.to_owned() } else { WITHHELD.to_owned() };
    let kept = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [kind, name, ..] if SERVERS.contains(kind) => Some(format!("{kind} {}\n", shown(name))),
            [kind, ..] if OTHERS.contains(kind) => Some(format!("{kind}\n")),
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

/// The kept lines of files, each file's after its name (`# file /etc/ntp.conf`); those of
/// drop-ins follow the first file's.
pub fn parse(text: &str) -> Fact<Vec<NtpConfig>> {
    let mut files: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        let file = line.strip_prefix(FILE);
        match file.filter(|file| NTPD.contains(file) || *file == TIMESYNCD) {
            Some(file) => files.push((file, Vec::new())),
            None => files.last_mut().into_iter().for_each(|(_, lines)| lines.push(line)),
        }
    }
    Fact::Known(files.into_iter().map(|(file, lines)| one_file(file.to_owned(), &lines)).collect())
}

fn one_file(file: String, lines: &[&str]) -> NtpConfig {
    let server =
        |name: &str, is_pool| NtpServer { name: name.to_owned(), smears: smears(name), is_pool };
    if file != TIMESYNCD {
        let is_whole = !lines.iter().any(|line| OTHERS.contains(line));
        let servers = lines.iter().filter_map(|line| line.split_once(' '));
        let servers = servers.filter(|(kind, _)| SERVERS.contains(kind));
        let servers = servers.map(|(kind, name)| server(name, kind == "pool"));
        let servers = is_whole.then(|| servers.collect());
        return NtpConfig { kind: TimeKeeperKind::Ntpd, servers, file };
    }
    // An empty list takes back those before it; without any the built-in ones count, also where
    // FallbackNTP is empty (systemd/systemd#40621).
    let (mut own, mut fallback) = (Vec::new(), Vec::new());
    for (key, names) in lines.iter().filter_map(|line| line.split_once('=')) {
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
        let ntpd = reduce(
            "# file managed by secret puppet\n# file /etc/ntp.conf\ndriftfile /x\n\
             server 127.127.1.0\n#server a\nfudge 127.127.1.0 stratum 10\n\
             pool secret.example iburst\n",
        );
        let timesyncd = reduce("[Time]\n#NTP=\nNTP=a b\nNTP=\nFallbackNTP=time.google.com c\n");
        assert_eq!(reduce(&ntpd) + &reduce(&timesyncd), ntpd.clone() + &timesyncd);
        assert!(!ntpd.contains("secret"), "{ntpd}");
        let text = format!(
            "# file /etc/ntp.conf\n# file managed by hand\n{ntpd}# file {TIMESYNCD}\n{timesyncd}"
        );
        let Fact::Known(found) = parse(&text) else { panic!() };
        assert_eq!(found.len(), 2);
        let names = |at: usize| {
            let servers = found[at].servers.iter().flatten();
            servers.map(|one: &NtpServer| one.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["127.127.1.0", WITHHELD]);
        assert_eq!(names(1), ["time.google.com", WITHHELD]);
        let Fact::Known(found) = parse("# file /etc/systemd/timesyncd.conf\n") else { panic!() };
        assert_eq!(found[0].servers, None);
    }

    #[test]
    fn sources_that_are_not_read_leave_the_servers_unknown() {
        for line in ["includefile /etc/secret", "refclock shm unit 0", "broadcastclient"] {
            let reduced = reduce(&format!("server 127.127.1.0\n{line}\n"));
            assert!(!reduced.contains("secret"), "{reduced}");
            let Fact::Known(found) = parse(&format!("# file {}\n{reduced}", NTPD[0])) else {
                panic!()
            };
            assert_eq!(found[0].servers, None, "{line}");
        }
    }
}
