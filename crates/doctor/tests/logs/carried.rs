//! Logs as mail, pages, terminals and other lines around them change them: no finding may vanish
//! and no blame may move.

use super::corpus::cases;
use super::findings;

/// Lines of other programs, some with stamps.
const FOREIGN: [&str; 5] = [
    "[  171.250019] usb 1-1.2: new high-speed USB device number 4 using xhci_hcd",
    "Jun 10 09:12:44 host1 sshd[1201]: Accepted publickey for user from 192.0.2.7 port 50022",
    "EXT4-fs (vda1): mounted filesystem with ordered data mode",
    "[  171.250020] systemd[1]: Started Session 4 of user root.",
    "nginx: 192.0.2.9 - - \"GET /index.html HTTP/1.1\" 200 612",
];

const HEALTHY_BOOT: &str = "\
[    0.000000] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)
[    0.000000] tsc: Detected 2445.428 MHz processor
[    1.200000] clocksource: Switched to clocksource tsc
";

/// Breaks lines at blanks, as mail programs do, or after so many signs, as terminals do.
fn broken(log: &str, width: usize, at_blanks: bool) -> String {
    let mut text = String::new();
    for line in log.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > width {
            let blank = rest[1..width].iter().rposition(|c| *c == ' ').map(|at| at + 1);
            let end = blank.filter(|end| at_blanks && *end > width / 3).unwrap_or(width);
            text.extend(&rest[..end]);
            text.push('\n');
            rest.drain(..end);
            if at_blanks && rest[0] == ' ' {
                rest.remove(0);
            }
        }
        text.extend(&rest);
        text.push('\n');
    }
    text
}

fn quoted_printable(log: &str) -> String {
    let mut text = String::new();
    for line in log.lines() {
        let mut length = 0;
        for byte in line.bytes() {
            let code = match byte {
                b' '..=b'<' | b'>'..=b'~' => (byte as char).to_string(),
                other => format!("={other:02X}"),
            };
            if length + code.len() > 75 {
                text.push_str("=\n");
                length = 0;
            }
            length += code.len();
            text.push_str(&code);
        }
        text.push('\n');
    }
    text
}

fn with_entities(log: &str) -> String {
    log.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}

fn with_foreign_lines(log: &str) -> String {
    let mut text = String::new();
    let foreign = |text: &mut String, count: usize| {
        (0..count).for_each(|at| {
            text.push_str(FOREIGN[at % FOREIGN.len()]);
            text.push('\n');
        });
    };
    foreign(&mut text, 100);
    text.push_str(log.trim_end());
    text.push('\n');
    foreign(&mut text, 100);
    text
}

type Carried = (&'static str, fn(&str) -> String);

const CHANGES: [Carried; 8] = [
    ("wrapped by mail", |log| broken(log, 76, true)),
    ("80 columns", |log| broken(log, 80, false)),
    ("quoted-printable", quoted_printable),
    ("entities of HTML", with_entities),
    ("200 foreign lines", with_foreign_lines),
    ("twice", |log| format!("{}\n{log}", log.trim_end())),
    ("after an older boot", |log| format!("{HEALTHY_BOOT}-- Reboot --\n{log}")),
    ("before a newer boot", |log| format!("{}\n{HEALTHY_BOOT}", log.trim_end())),
];

/// Whose fault each finding is.
fn blames(log: &str) -> Vec<String> {
    let blame = |why: &str| {
        let sentence = why.split_once("At fault: ").map_or("", |(_, rest)| rest);
        sentence.split('.').next().unwrap_or_default().to_owned()
    };
    findings(log)
        .iter()
        .map(|finding| format!("{}: {}", finding.rule, blame(&finding.why)))
        .collect()
}

#[test]
fn no_carrier_heals_a_log_or_moves_its_blame() {
    let mut wrong = String::new();
    let mut count = 0;
    for case in cases() {
        let before = blames(&case.log);
        for (name, change) in CHANGES {
            let after = blames(&change(&case.log));
            count += 1;
            let is_lost = before.iter().any(|blame| !after.contains(blame));
            if is_lost && !WITHDRAWN.contains(&(case.name.as_str(), name)) {
                wrong += &format!("{} {name}: {before:?} became {after:?}\n", case.name);
            }
        }
    }
    let failed = wrong.lines().count();
    assert!(wrong.is_empty(), "{failed} of {count}:\n{wrong}");
}

/// Findings that are withdrawn to "not shown by these lines", and not healed: a pager cut the lines
/// off before the terminal did.
const WITHDRAWN: [(&str, &str); 1] = [("watchdog-pager-cut", "80 columns")];
