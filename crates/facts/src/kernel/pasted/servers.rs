//! Tables of a time daemon's servers, as `ntpq -p` and `chronyc sources` print them.

use super::segment::LogSegment;
use crate::kernel::{LogEvent, LogLine};

/// ntpd steps the clock by more, s.
const STEP_S: f64 = 0.128;

/// Addresses of a machine's own clock.
const OWN_CLOCKS: [&str; 3] = ["LOCAL(", "127.127.1.", ".LOCL."];

/// Reads them line by line.
#[derive(Debug, Default)]
pub(super) struct ServerTables {
    /// The table has a line of a server that the daemon follows.
    is_followed: bool,
    /// Its last line, while it has none.
    unfollowed: Option<String>,
    /// The line of a server that has not answered.
    silent: Option<String>,
    /// The line that tells that there is a table which cannot be read.
    pub(super) unread: Option<String>,
}

/// A server, as one line has it.
struct Server<'t> {
    is_followed: bool,
    name: &'t str,
    refid: &'t str,
    /// How far this clock is behind it, s.
    behind_s: f64,
}

impl ServerTables {
    /// Takes a line, if it is of a table, and tells the log what it shows.
    pub(super) fn push(&mut self, text: &str, log: &mut LogSegment) -> bool {
        let text = text.trim().trim_start_matches(['>', '|', '│', '`', ' ']);
        if text.starts_with("remote ") && text.contains(" refid ") || text.starts_with("MS Name/IP")
        {
            self.end(log);
            self.unread = Some(text.to_owned());
            return true;
        }
        let Some(server) = ntpq(text).or_else(|| chronyc(text)) else {
            // The line of the server that is followed may be one that cannot be read.
            let row = text.trim_start_matches(['^', '#']).strip_prefix('*').unwrap_or_default();
            let is_table = self.unfollowed.is_some() || self.unread.is_some();
            if is_table && row.starts_with(char::is_alphanumeric) {
                self.unread = self.unfollowed.take().or(self.unread.take());
                self.is_followed = true;
            }
            return false;
        };
        self.unread.take_if(|_| !self.is_followed || server.is_followed);
        self.is_followed |= server.is_followed;
        self.unfollowed = (!self.is_followed).then(|| text.to_owned());
        let is_own = |address: &str| OWN_CLOCKS.iter().any(|own| address.starts_with(own));
        let (of, by_s) = match (server.refid, server.behind_s) {
            (".STEP.", _) => ("servers-stepped", None),
            (".INIT.", _) => {
                self.silent = Some(text.to_owned());
                return true;
            }
            _ if !server.is_followed => return true,
            _ if is_own(server.name) => ("servers-own-clock", None),
            (refid, s) if is_own(refid) && s.abs() <= STEP_S => ("servers-unset", Some(s.abs())),
            (_, s) if s > STEP_S => ("servers-behind", Some(s)),
            (_, s) if s < -STEP_S => ("servers-ahead", Some(-s)),
            (_, s) => ("servers-followed", Some(s.abs())),
        };
        log.push(stated(of, by_s, text));
        true
    }

    /// At a table's end it is known that the daemon follows none of its servers. Where it follows
    /// one, nobody misses those that are silent.
    pub(super) fn end(&mut self, log: &mut LogSegment) {
        let silent = self.silent.take().filter(|_| !self.is_followed);
        for (of, line) in [("server-silent", silent), ("servers-none", self.unfollowed.take())] {
            line.into_iter().for_each(|line| log.push(stated(of, None, &line)));
        }
        self.is_followed = false;
    }
}

/// What a command printed: a table of servers, or readings of the RTC. It is of no boot.
pub(super) fn is_output(line: &LogLine) -> bool {
    let LogEvent::Stated { of, .. } = &line.event else { return false };
    let is_of_one = ["server-silent", "rtc-stands", "rtc-same-second"].contains(&&**of);
    line.at_s.is_none() && (is_of_one || of.starts_with("servers-"))
}

pub(super) fn stated(of: &str, by_s: Option<f64>, text: &str) -> LogLine {
    let event = LogEvent::Stated { of: of.to_owned(), by_s };
    LogLine { at_s: None, text: text.to_owned(), event }
}

/// `*time.example.com 192.0.2.1  2 u   64   64  377  0.257  +148.03  72.326`, in ms: an offset is
/// the server's time less this clock's.
fn ntpq(text: &str) -> Option<Server<'_>> {
    let mut words = text.split_ascii_whitespace();
    let mut word = || words.next();
    let (name, refid, stratum) = (word()?, word()?, word()?);
    stratum.parse::<u8>().ok()?;
    let (kind, _when, _poll, reach) = (word()?, word()?, word()?, word()?);
    let (_delay, offset, _jitter) = (word()?, word()?, word()?);
    let is_row = kind.len() == 1 && reach.parse::<u16>().is_ok() && word().is_none();
    let behind_s = offset.parse::<f64>().ok()? / 1e3;
    // A PPS signal has the mark `o`, with which names of servers begin as well.
    let is_followed = name.starts_with('*') || name.starts_with('o') && stratum == "0";
    let name = name.trim_start_matches('*');
    is_row.then_some(Server { is_followed, name, refid, behind_s })
}

/// `^* time.example.com  2  6  377  23  -923us[ -924us] +/-   43ms`: a sample is this clock's time
/// less the server's.
fn chronyc(text: &str) -> Option<Server<'_>> {
    text.starts_with(['^', '=', '#']).then_some(())?;
    let words: Vec<&str> = text.split_once('[')?.0.split_ascii_whitespace().take(8).collect();
    let &[mark, name, _, _, _, _, ahead] = words.as_slice() else { return None };
    let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let in_unit = |(unit, s): &(&str, f64)| Some((ahead.strip_suffix(unit)?, *s));
    let (figure, unit_s) = units.iter().find_map(in_unit)?;
    let behind_s = -figure.parse::<f64>().ok()? * unit_s;
    let is_followed = mark.ends_with('*');
    (mark.len() == 2).then_some(Server { is_followed, name, refid: "", behind_s })
}
