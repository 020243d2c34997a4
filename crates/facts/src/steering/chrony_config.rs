//! chronyd's configuration, as far as its corrections depend on it.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Fact;
use crate::kernel::WITHHELD;

/// chronyd's default `maxslewrate`, ppm (chrony.conf(5)).
pub const DEFAULT_MAX_SLEW_RATE_PPM: f64 = 83_333.333;

/// What `tai` adds to a clock's time, s: TAI − UTC is 37 s since 2017 (IERS
/// Bulletin C).
const FROM_TAI_S: f64 = -37.0;

/// Directives that are kept; the rest may hold keys, addresses and paths.
const DIRECTIVES: [&str; 11] = [
    "server",
    "pool",
    "peer",
    "refclock",
    "makestep",
    "maxslewrate",
    "leapsectz",
    "leapseclist",
    "leapsecmode",
    "smoothtime",
    "rtcsync",
];

/// Time servers known to spread leap seconds over the 24 hours around them
/// (AWS "Precision clock and time synchronization", Google "NTP leap smear").
const SMEARING: [&str; 9] = [
    "169.254.169.123",
    "fd00:ec2::123",
    "time.aws.com",
    "metadata.google.internal",
    "time.google.com",
    "time1.google.com",
    "time2.google.com",
    "time3.google.com",
    "time4.google.com",
];

/// What chronyd is configured to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ChronyConfig {
    /// The file that chronyd was started with.
    pub file: Option<String>,
    /// NTP servers, pools and peers.
    pub servers: Vec<NtpServer>,
    /// Reference clocks.
    pub refclocks: Vec<RefClock>,
    /// When it may step; `null`: never.
    pub makestep: Option<MakeStep>,
    /// The fastest it slews, ppm, where the configuration says.
    pub max_slew_rate_ppm: Option<f64>,
    /// It has a table of leap seconds: `leapsectz` or `leapseclist`.
    pub leap_table: bool,
    /// `leapsecmode`: `system`, `step`, `slew`, `ignore`.
    pub leap_mode: Option<String>,
    /// Lines that chronyd refuses to start with, in which file, and why.
    pub refused: Vec<String>,
    /// Lines of a `sourcedir` that it passes over, likewise.
    pub skipped: Vec<String>,
}

/// An NTP server, pool or peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NtpServer {
    /// Its name, where it is a cloud's own or link-local; else `withheld`.
    pub name: String,
    /// It is known to smear leap seconds.
    pub smears: bool,
    /// It is a pool: up to four servers.
    pub is_pool: bool,
}

/// A `refclock` line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RefClock {
    /// `PHC`, `SOCK`, `SHM`, `PPS`.
    pub driver: String,
    /// `/dev/ptp0` of a PHC; else `withheld`.
    pub parameter: String,
    /// What chronyd adds to its time, s: its `offset`, and by `tai` −37 where
    /// there is a table of leap seconds, which `tai` needs (chrony.conf(5)).
    pub correction_s: f64,
}

/// A `makestep` line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MakeStep {
    /// Offsets above this are stepped, s.
    pub threshold_s: f64,
    /// In so many first updates; negative: in all.
    pub updates: i64,
}

impl std::fmt::Display for MakeStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "makestep {} {}", self.threshold_s, self.updates)
    }
}

impl MakeStep {
    /// Whether chronyd may step long after its start.
    pub fn at_any_time(self) -> bool {
        self.updates < 0
    }
}

impl ChronyConfig {
    /// Reference clocks that are PTP clocks.
    pub fn phcs(&self) -> impl Iterator<Item = &RefClock> {
        self.refclocks.iter().filter(|refclock| refclock.driver.eq_ignore_ascii_case("PHC"))
    }
}

/// A line's words; none of a comment (chrony.conf(5): `#`, `%`, `!`, `;`).
fn words(line: &str) -> Vec<&str> {
    let line = line.trim();
    if line.starts_with(['#', '%', '!', ';']) {
        return Vec::new();
    }
    line.split_whitespace().collect()
}

fn directive(words: &[&str]) -> Option<&'static str> {
    let first = words.first()?;
    DIRECTIVES.into_iter().find(|directive| directive.eq_ignore_ascii_case(first))
}

/// The kept part of a configuration: a line a directive, without the names of
/// servers, but those of clouds.
pub fn reduce(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let words = words(line);
        let Some(name) = directive(&words) else { continue };
        kept.push_str(name);
        match name {
            "server" | "pool" | "peer" => {
                let server = words.get(1).copied().unwrap_or_default();
                kept.push(' ');
                kept.push_str(if is_public(server) { server } else { WITHHELD });
                for option in no_options(&words) {
                    kept.push(' ');
                    kept.push_str(option);
                }
            }
            "refclock" => refclock(&words, &mut kept),
            "leapseclist" | "rtcsync" => {}
            _ => words.iter().skip(1).take(3).enumerate().for_each(|(at, word)| {
                kept.push(' ');
                kept.push_str(if at < 2 { word } else { WITHHELD });
            }),
        }
        kept.push('\n');
    }
    kept
}

/// What goes before the lines of a file, with its path.
pub const FILE: &str = "# file ";
/// As [`FILE`], of a file of a `sourcedir`.
pub const SOURCES: &str = "# sources ";

fn refclock(words: &[&str], kept: &mut String) {
    let driver = words.get(1).copied().unwrap_or_default();
    let parameter = words.get(2).copied().unwrap_or_default();
    let is_known =
        ["PHC", "SOCK", "SHM", "PPS"].iter().any(|name| driver.eq_ignore_ascii_case(name));
    let device = parameter.split(':').next().unwrap_or_default();
    let shown = if device.starts_with("/dev/ptp") { device } else { WITHHELD };
    kept.push_str(&format!(" {} {shown}", if is_known { driver } else { WITHHELD }));
    let options: Vec<&str> = words.iter().skip(3).copied().collect();
    for (at, option) in options.iter().enumerate() {
        match (*option, options.get(at + 1)) {
            ("tai", _) => kept.push_str(" tai"),
            ("offset", Some(number)) if number.parse::<f64>().is_ok() => {
                kept.push_str(&format!(" offset {number}"));
            }
            _ => {}
        }
    }
}

/// Options of a server's line without a value, and with one (chrony: cmdparse.c,
/// `CPS_ParseNTPSourceAdd`).
const OPTIONS: &str = "auto_offline burst copy iburst ipv4 ipv6 noselect nts offline prefer \
                       require trust xleave";
const WITH_VALUE: &str = "asymmetry certset extfield filter key maxdelay maxdelaydevratio \
                          maxdelayquant maxdelayratio maxpoll maxsamples maxsources maxunreach \
                          mindelay minpoll minsamples minstratum ntsport offset polltarget port \
                          presend version";
/// Options of ntpd's, which people take along.
const NTPDS: &str = "autokey dynamic kod limited mode nomodify nopeer noquery notrap true ttl";

fn is_among(list: &str, word: &str) -> bool {
    list.split(' ').any(|name| name.eq_ignore_ascii_case(word))
}

/// What a server's line has in the place of options: words that no chronyd knows, without what
/// may be a name.
fn no_options<'t>(words: &[&'t str]) -> Vec<&'t str> {
    let mut unknown = Vec::new();
    let mut options = words.iter().skip(2).copied();
    while let Some(word) = options.next() {
        if is_among(WITH_VALUE, word) {
            options.next();
        } else if !is_among(OPTIONS, word) {
            let is_plain = nearest_option(word).is_some() || is_among(NTPDS, word);
            unknown.push(if is_plain { word } else { WITHHELD });
        }
    }
    unknown
}

/// The option that a word begins with, or is the beginning of.
fn nearest_option(word: &str) -> Option<&'static str> {
    let is_near = |name: &&str| {
        word.starts_with(name) && word.len() <= name.len() + 2
            || word.len() > 3 && name.starts_with(word)
    };
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphabetic());
    OPTIONS.split(' ').chain(WITH_VALUE.split(' ')).find(is_near).filter(|_| is_plain)
}

/// Why chronyd refuses a server's line: `prefers is no option (prefer is)`.
fn why_refused(line: &str, unknown: &str) -> String {
    let meant = nearest_option(unknown).map_or_else(String::new, |name| format!(" ({name} is)"));
    format!("{line}: {unknown} is no option{meant}")
}

/// Whether a server's name names no person: a cloud's, or link-local.
pub(super) fn is_public(name: &str) -> bool {
    SMEARING.contains(&name)
        || match name.parse() {
            Ok(IpAddr::V4(address)) => address.is_link_local() || address.is_loopback(),
            Ok(IpAddr::V6(address)) => address.is_unicast_link_local(),
            Err(_) => false,
        }
}

/// Whether a server of this name or address is known to smear leap seconds.
pub fn smears(name: &str) -> bool {
    SMEARING.contains(&name)
}

/// A configuration, whole or reduced. What is not understood is passed over,
/// as chronyd would not have started with it.
pub fn parse(text: &str) -> Fact<ChronyConfig> {
    let mut config = ChronyConfig::default();
    let mut in_tai = Vec::new();
    let (mut file, mut is_skipped) = ("chrony's configuration", false);
    for line in text.lines() {
        let path = line.strip_prefix(FILE).or_else(|| line.strip_prefix(SOURCES));
        if let Some(path) = path.filter(|path| path.starts_with('/')) {
            (file, is_skipped) = (path, line.starts_with(SOURCES));
            config.file.get_or_insert_with(|| path.to_owned());
        }
        let line = reduce(line);
        let line = line.trim_end();
        let words = words(line);
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let number = |at: usize| word(at).parse::<f64>().ok().filter(|number| number.is_finite());
        match word(0) {
            "server" | "pool" | "peer" => {
                if let Some(unknown) = no_options(&words).first() {
                    let list = if is_skipped { &mut config.skipped } else { &mut config.refused };
                    list.push(format!("{file}: {}", why_refused(line, unknown)));
                    if is_skipped {
                        continue;
                    }
                }
                let (name, is_pool) = (word(1).to_owned(), word(0) == "pool");
                config.servers.push(NtpServer { smears: smears(&name), name, is_pool });
            }
            "refclock" => {
                let offset =
                    words.iter().position(|word| *word == "offset").and_then(|at| number(at + 1));
                in_tai.push(words.contains(&"tai"));
                config.refclocks.push(RefClock {
                    driver: word(1).to_owned(),
                    parameter: word(2).to_owned(),
                    correction_s: offset.unwrap_or_default(),
                });
            }
            "makestep" => {
                // Without exactly two numbers chronyd does not start.
                config.makestep = number(1)
                    .filter(|_| words.len() == 3)
                    .zip(word(2).parse().ok())
                    .map(|(threshold_s, updates)| MakeStep { threshold_s, updates });
                if config.makestep.is_none() {
                    config.refused.push(format!("{file}: {line}: needs two numbers"));
                }
            }
            "maxslewrate" => config.max_slew_rate_ppm = number(1),
            "leapsectz" | "leapseclist" => config.leap_table = true,
            "leapsecmode" => config.leap_mode = Some(word(1).to_owned()),
            _ => {}
        }
    }
    if config.leap_table {
        for (clock, _) in config.refclocks.iter_mut().zip(in_tai).filter(|(_, tai)| *tai) {
            clock.correction_s += FROM_TAI_S;
        }
    }
    Fact::Known(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian's package and two clouds configure it.
    const TEXT: &str = "# a comment\nconfdir /etc/chrony/conf.d\npool 2.debian.pool.ntp.org iburst\n\
        Server 169.254.169.123 prefer iburst minpoll 4\nkeyfile /etc/chrony/chrony.keys\n\
        refclock PHC /dev/ptp_hyperv poll 3 dpoll -2 offset 0 stratum 2\n\
        refclock PHC /dev/ptp1:nocrossts tai\nrefclock SOCK /run/secret.sock\n\
        makestep 1 3\nmaxslewrate 500\nleapseclist /usr/share/zoneinfo/leap-seconds.list\nrtcsync\n";

    #[test]
    fn what_corrections_depend_on_is_read() {
        let config = parse(TEXT).value().unwrap().clone();
        let names: Vec<_> =
            config.servers.iter().map(|server| (server.name.as_str(), server.smears)).collect();
        assert_eq!(names, [(WITHHELD, false), ("169.254.169.123", true)]);
        assert_eq!(
            config.phcs().map(|refclock| refclock.correction_s).collect::<Vec<_>>(),
            [0.0, -37.0]
        );
        let corrections = |text: &str| parse(text).value().unwrap().refclocks[0].correction_s;
        assert_eq!(corrections("refclock PHC /dev/ptp0 tai\n"), 0.0, "no table");
        assert_eq!(corrections("refclock PHC /dev/ptp0 offset 37\n"), 37.0);
        let invalid = parse(
            "makestep 1 3 # step\n# file /etc/a.conf\npool time.example iburst prefers\n\
             server a portal.example\nserver a keySECRET\n\
             # sources /b.sources\nserver c prefers\n# file managed by hand\nserver d\n\
             server e prefers\n",
        );
        let invalid = invalid.value().unwrap();
        assert!(invalid.makestep.is_none(), "not a valid line");
        assert_eq!(
            invalid.refused,
            [
                "chrony's configuration: makestep 1 3 withheld: needs two numbers",
                "/etc/a.conf: pool withheld prefers: prefers is no option (prefer is)",
                "/etc/a.conf: server withheld withheld: withheld is no option",
                "/etc/a.conf: server withheld withheld: withheld is no option",
            ]
        );
        let skipped = "/b.sources: server withheld prefers: prefers is no option (prefer is)";
        assert_eq!((&invalid.skipped, invalid.servers.len()), (&vec![skipped.to_owned(); 2], 4));
        assert_eq!(config.refclocks[2].parameter, WITHHELD);
        assert_eq!(config.makestep, Some(MakeStep { threshold_s: 1.0, updates: 3 }));
        assert_eq!((config.max_slew_rate_ppm, config.leap_table), (Some(500.0), true));
        assert!(parse("").value().unwrap().makestep.is_none());
    }

    #[test]
    fn reduced_again_it_is_the_same() {
        let reduced = reduce(TEXT);
        assert_eq!(reduce(&reduced), reduced);
        for secret in ["debian", "keys", "sock", "zoneinfo"] {
            assert!(!reduced.contains(secret), "{reduced}");
        }
        assert_eq!(parse(&reduced), parse(TEXT));
    }
}
