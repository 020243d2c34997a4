//! What the clocks are compared with.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use instruments::drift::Span;
use platform::clock::Clock;
use platform::fact::Fact;
use platform::facts::steering::ChronyTracking;
use platform::reference::chrony::Chrony;
use platform::reference::ntp::{NtpError, NtpServer};
use platform::reference::phc::Phc;

use super::clocks::{Clocks, Compared, within};
use super::report::{Failure, ReferenceReport};

/// An answer that takes longer says nothing worth the wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between comparisons where nobody is bothered.
pub(super) const NEAR: Duration = Duration::from_secs(1);

/// Time between requests to a server of somebody else.
const POLITE: Duration = Duration::from_secs(4);

/// Whether an address is of this machine or a private network.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// A reference, and how it has answered so far.
pub(super) struct Reference {
    name: String,
    source: Source,
    /// When to ask next.
    pub(super) due: Instant,
    interval: Duration,
    asked: u64,
    answered: u64,
    failures: BTreeMap<String, u64>,
    stopped: Option<String>,
}

enum Source {
    Ntp { server: NtpServer, word: Option<Word> },
    Phc { phc: Phc },
    Chrony { chrony: Chrony, last: Option<ChronyTracking> },
    Raw,
}

/// What an NTP server says of itself.
#[derive(Debug, Clone, Copy)]
struct Word {
    stratum: u8,
    root_distance_ns: u64,
    leap: u8,
}

impl Reference {
    fn new(name: String, source: Source, interval: Duration) -> Self {
        Self {
            name,
            source,
            due: Instant::now(),
            interval,
            asked: 0,
            answered: 0,
            failures: BTreeMap::new(),
            stopped: None,
        }
    }

    /// An NTP server.
    ///
    /// # Errors
    /// It has no address.
    pub(super) fn ntp(name: &str, interval: Option<Duration>) -> Result<Self, NtpError> {
        let server = NtpServer::find(name, PATIENCE)?;
        let usual = if is_near(server.address().ip()) { NEAR } else { POLITE };
        let interval = interval.unwrap_or(usual);
        Ok(Self::new(format!("ntp {name}"), Source::Ntp { server, word: None }, interval))
    }

    /// A PTP hardware clock.
    ///
    /// # Errors
    /// Why it cannot be compared.
    pub(super) fn phc(path: &Path, interval: Duration) -> Result<Self, String> {
        match Phc::open(path) {
            Fact::Known(phc) => {
                Ok(Self::new(format!("phc {}", path.display()), Source::Phc { phc }, interval))
            }
            Fact::Unknown(why) => Err(why.to_string()),
        }
    }

    /// What chronyd believes.
    pub(super) fn chrony(address: Option<SocketAddr>, interval: Duration) -> Self {
        let name = address.map_or("chrony".to_owned(), |address| format!("chrony {address}"));
        let source = Source::Chrony { chrony: Chrony { address }, last: None };
        Self::new(name, source, interval)
    }

    /// CLOCK_MONOTONIC_RAW, where there is nothing better.
    pub(super) fn raw(interval: Duration) -> Self {
        Self::new("raw".into(), Source::Raw, interval)
    }

    /// Its kind and name, as in records.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is CLOCK_MONOTONIC_RAW.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.source, Source::Raw)
    }

    /// Whether it must not be asked again.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The last of its failures, or the commonest.
    pub(super) fn complaint(&self) -> Option<String> {
        let commonest = self.failures.iter().max_by_key(|(_, count)| **count);
        self.stopped.clone().or(commonest.map(|(what, _)| what.clone()))
    }

    /// Compares all clocks with it once, and sets the time for the next.
    pub(super) fn compare(&mut self, clocks: &Clocks) -> Vec<Compared> {
        self.asked += 1;
        let compared = match &mut self.source {
            Source::Ntp { server, word } => compare_ntp(server, word, clocks),
            Source::Phc { phc } => compare_phc(phc, clocks),
            Source::Chrony { chrony, last } => compare_chrony(chrony, last, clocks),
            Source::Raw => Ok(clocks.around(|| Clock::MonotonicRaw.read_ns())),
        };
        let compared = match compared {
            Ok(compared) => {
                self.answered += 1;
                compared
            }
            Err(failed) => {
                match failed.consequence {
                    Consequence::Stop => self.stopped = Some(failed.what.clone()),
                    // RFC 5905, section 7.4: at RATE, reduce at once.
                    Consequence::Slower => self.interval *= 2,
                    Consequence::None => {}
                }
                *self.failures.entry(failed.what).or_default() += 1;
                Vec::new()
            }
        };
        // What is overdue is left out, not made up for.
        self.due = (self.due + self.interval).max(Instant::now());
        compared
    }

    /// How it has answered.
    pub(super) fn report(&self) -> ReferenceReport {
        let word = match &self.source {
            Source::Ntp { word, .. } => *word,
            _ => None,
        };
        let chrony = match &self.source {
            Source::Chrony { last, .. } => last.clone(),
            _ => None,
        };
        ReferenceReport {
            name: self.name.clone(),
            asked: self.asked,
            answered: self.answered,
            failures: self
                .failures
                .iter()
                .map(|(what, count)| Failure { what: what.clone(), times: *count })
                .collect(),
            agrees: None,
            stopped: self.stopped.clone(),
            interval_s: self.interval.as_secs_f64(),
            stratum: word.map(|word| word.stratum),
            root_distance_ns: word.map(|word| word.root_distance_ns),
            leap: word.map(|word| word.leap),
            compared: match &self.source {
                Source::Phc { phc } => Some(format!("{:?}", phc.way()).to_lowercase()),
                _ => None,
            },
            chrony,
        }
    }
}

struct Failed {
    what: String,
    consequence: Consequence,
}

enum Consequence {
    None,
    Slower,
    Stop,
}

fn plainly(what: impl ToString) -> Failed {
    Failed { what: what.to_string(), consequence: Consequence::None }
}

fn compare_ntp(
    server: &NtpServer,
    word: &mut Option<Word>,
    clocks: &Clocks,
) -> Result<Vec<Compared>, Failed> {
    let exchange = server.ask(clocks.stamps()).map_err(|error| Failed {
        consequence: match () {
            () if error.says_stop() => Consequence::Stop,
            () if error.says_slower() => Consequence::Slower,
            () => Consequence::None,
        },
        what: error.to_string(),
    })?;
    *word = Some(Word {
        stratum: exchange.stratum,
        root_distance_ns: exchange.root_distance_ns,
        leap: exchange.leap,
    });
    let reference = Span { before: exchange.received_ns, after: exchange.answered_ns };
    Ok(within(&exchange.sent, reference, &exchange.arrived))
}

fn compare_phc(phc: &Phc, clocks: &Clocks) -> Result<Vec<Compared>, Failed> {
    let stamp = clocks.stamps();
    let before = stamp();
    let comparison = match phc.compare() {
        Fact::Known(comparison) => comparison,
        Fact::Unknown(why) => return Err(plainly(why)),
    };
    let after = stamp();
    let (first, last) = comparison.device_ns;
    let mut compared = within(&before, Span { before: first, after: last }, &after);
    // What the kernel compared itself is tighter than what we can.
    for one in &mut compared {
        let latched = match clocks.names().get(one.clock) {
            Some(super::clocks::ClockName::Realtime) => Some(comparison.realtime_ns),
            Some(super::clocks::ClockName::Raw) => comparison.raw_ns.map(|ns| (ns, ns)),
            _ => None,
        };
        if let Some((before, after)) = latched {
            one.reading.clock = Span { before, after };
            one.reading.reference = Span::at(comparison.device_at_realtime_ns);
        }
    }
    Ok(compared)
}

fn compare_chrony(
    chrony: &Chrony,
    last: &mut Option<ChronyTracking>,
    clocks: &Clocks,
) -> Result<Vec<Compared>, Failed> {
    let tracking = match chrony.tracking() {
        Fact::Known(tracking) => tracking,
        Fact::Unknown(why) => return Err(plainly(why)),
    };
    // The system's clock and what chronyd still has to correct of it.
    let correction_ns = (tracking.system_offset_s * 1e9) as i64;
    *last = Some(tracking);
    Ok(clocks.around(|| Clock::Realtime.read_ns()?.checked_add_signed(correction_ns)))
}
