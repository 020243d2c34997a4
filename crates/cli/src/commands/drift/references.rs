//! What the clocks are compared with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use facts::Fact;
use facts::steering::ChronyTracking;
use instruments::drift::Span;
use platform::chronyd_client::{Address, ChronydClient};
use platform::clock::Clock;
use platform::reference::ntp::{NtpError, NtpServer};
use platform::reference::vmclock::VmClock;
use platform::time_source::PhcTime;

use super::clocks::{ClockName, Clocks, Compared, FIRST_PHC, within};
use super::pace::{Pace, pause_after};
use super::reference_names::{phc_name, tells_utc};
use super::report::{Failure, ReferenceReport};

/// An answer that takes longer says nothing worth the wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// A reference, and how it has answered so far.
pub(super) struct Reference {
    name: String,
    source: Source,
    /// By its name, or by that of a PTP hardware clock's driver.
    pub(super) tells_utc: bool,
    /// When to ask next.
    pub(super) due: Instant,
    interval: Duration,
    asked: u64,
    answered: u64,
    failures: BTreeMap<String, u64>,
    failed_in_a_row: u32,
    stopped: Option<String>,
}

enum Source {
    Ntp {
        server: NtpServer,
        word: Option<Word>,
    },
    /// The device, and how far it is ahead of UTC, s, which is taken off; none
    /// where nobody said what it counts, and it is taken as it is.
    Phc {
        phc: PhcTime,
        ahead_s: Option<i32>,
    },
    /// The page, and how far off it last said that it may be.
    VmClock {
        vmclock: VmClock,
        word_ns: Option<u64>,
    },
    Chrony {
        chrony: ChronydClient,
        last: Option<ChronyTracking>,
    },
    /// Another clock of this machine, read in ns.
    Clock(Box<dyn Fn() -> Option<u64>>),
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
            tells_utc: tells_utc(&name),
            name,
            source,
            due: Instant::now(),
            interval,
            asked: 0,
            answered: 0,
            failures: BTreeMap::new(),
            failed_in_a_row: 0,
            stopped: None,
        }
    }

    /// An NTP server.
    ///
    /// # Errors
    /// It has no address.
    pub(super) fn ntp(name: &str, pace: Pace) -> Result<Self, NtpError> {
        let server = NtpServer::find(name, PATIENCE)?;
        let interval = pace.server(server.address().ip());
        Ok(Self::new(format!("ntp {name}"), Source::Ntp { server, word: None }, interval))
    }

    /// A PTP hardware clock, which is so many seconds ahead of UTC all along.
    pub(super) fn phc(phc: PhcTime, ahead_s: Option<i32>, pace: Pace) -> Self {
        let name = phc_name(phc.clock_name(), phc.device(), phc.scale(), ahead_s);
        let source = Source::Phc { phc, ahead_s };
        Self { tells_utc: ahead_s.is_some(), ..Self::new(name, source, pace.near()) }
    }

    /// The host's time by its VMClock page.
    ///
    /// # Errors
    /// Why it does not tell.
    pub(super) fn vmclock(path: &Path, pace: Pace) -> Result<Self, String> {
        match VmClock::open(path) {
            Fact::Known(vmclock) => {
                let name = format!("vmclock {}", path.display());
                Ok(Self::new(name, Source::VmClock { vmclock, word_ns: None }, pace.near()))
            }
            Fact::Unknown(why) => Err(why.to_string()),
        }
    }

    /// What chronyd believes.
    pub(super) fn chrony(address: Option<SocketAddr>, pace: Pace) -> Self {
        let name = address.map_or("chrony".to_owned(), |address| format!("chrony {address}"));
        let chrony = ChronydClient::new(address.map(Address::Udp));
        let source = Source::Chrony { chrony, last: None };
        Self::new(name, source, pace.chronyd())
    }

    /// CLOCK_MONOTONIC_RAW, where there is nothing better.
    pub(super) fn raw(pace: Pace) -> Self {
        Self::clock("raw", pace.near(), Box::new(|| Clock::MonotonicRaw.read_ns()))
    }

    /// A clock that is read in ns.
    pub(super) fn clock(
        name: &str,
        interval: Duration,
        read: Box<dyn Fn() -> Option<u64>>,
    ) -> Self {
        Self::new(name.into(), Source::Clock(read), interval)
    }

    /// Its kind and name, as in records.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// An NTP server's address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match &self.source {
            Source::Ntp { server, .. } => Some(server.address()),
            _ => None,
        }
    }

    /// Which of the clocks that can be measured it is itself.
    pub(super) fn is_clock(&self) -> Option<ClockName> {
        match &self.source {
            Source::Clock(_) => Some(ClockName::Raw),
            Source::Phc { phc, .. } if phc.device() == FIRST_PHC => Some(ClockName::Phc),
            _ => None,
        }
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

    /// That its first comparison, and no other yet, was made and failed: it may
    /// be dead, which nobody should wait a long run to hear.
    pub(super) fn failed_at_first(&self) -> Option<String> {
        let why = self.complaint().filter(|_| self.asked == 1)?;
        Some(format!("the first comparison with {} failed: {why}", self.name))
    }

    /// Compares all clocks with it once, and sets the time for the next: a
    /// later one where it only kept `others_wait`ing.
    pub(super) fn compare(&mut self, clocks: &Clocks, others_wait: bool) -> Vec<Compared> {
        let begun = Instant::now();
        self.asked += 1;
        let compared = match &mut self.source {
            Source::Ntp { server, word } => compare_ntp(server, word, clocks),
            Source::Phc { phc, ahead_s } => compare_phc(phc, ahead_s.unwrap_or(0), clocks),
            Source::VmClock { vmclock, word_ns } => compare_vmclock(vmclock, word_ns, clocks),
            Source::Chrony { chrony, last } => compare_chrony(chrony, last, clocks),
            Source::Clock(read) => compare_clock(&*read, clocks),
        };
        let compared = match compared {
            Ok(compared) => {
                self.answered += 1;
                self.failed_in_a_row = 0;
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
                self.failed_in_a_row += 1;
                Vec::new()
            }
        };
        // What is overdue is left out, not made up for.
        let now = Instant::now();
        self.due = (self.due + self.interval).max(now);
        if others_wait {
            self.due = self.due.max(now + pause_after(self.failed_in_a_row, now - begun));
        }
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
            root_distance_ns: match &self.source {
                Source::VmClock { word_ns, .. } => *word_ns,
                _ => word.map(|word| word.root_distance_ns),
            },
            leap: word.map(|word| word.leap),
            compared: match &self.source {
                Source::Phc { phc, .. } => {
                    Some(format!("{:?}", phc.device_clock().way()).to_lowercase())
                }
                _ => None,
            },
            ahead_of_utc_s: match &self.source {
                Source::Phc { ahead_s, .. } => *ahead_s,
                _ => None,
            },
            driver: match &self.source {
                Source::Phc { phc, .. } => Some(phc.clock_name().to_owned()),
                _ => None,
            }
            .filter(|name| !name.is_empty()),
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

fn compare_clock(read: &dyn Fn() -> Option<u64>, clocks: &Clocks) -> Result<Vec<Compared>, Failed> {
    read().ok_or_else(|| plainly("it shows no time"))?;
    Ok(clocks.around(read))
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

fn compare_phc(phc: &PhcTime, ahead_s: i32, clocks: &Clocks) -> Result<Vec<Compared>, Failed> {
    let stamp = clocks.stamps();
    let before = stamp();
    let compared = phc.device_clock().compare();
    let after = stamp();
    let comparison = match compared {
        Fact::Known(shown) => shown.less(ahead_s),
        Fact::Unknown(why) => return Err(plainly(why)),
    };
    let comparison = comparison.ok_or_else(|| plainly("it shows a time before 1970"))?;
    let (first, last) = comparison.device_ns;
    let mut compared = within(&before, Span { before: first, after: last }, &after);
    // What the kernel compared itself is tighter than what we can.
    for one in &mut compared {
        let latched = match clocks.names().get(one.clock) {
            Some(ClockName::Realtime) => Some(comparison.realtime_ns),
            Some(ClockName::Raw) => comparison.raw_ns.map(|ns| (ns, ns)),
            _ => None,
        };
        if let Some((before, after)) = latched {
            one.reading.clock = Span { before, after };
            one.reading.reference = Span::at(comparison.device_at_realtime_ns);
        }
    }
    Ok(compared)
}

fn compare_vmclock(
    vmclock: &VmClock,
    word_ns: &mut Option<u64>,
    clocks: &Clocks,
) -> Result<Vec<Compared>, Failed> {
    let reading = vmclock.read(clocks.stamps()).map_err(plainly)?;
    let utc_ns = u64::try_from(reading.utc.since_1970_ns).map_err(plainly)?;
    *word_ns = Some(reading.utc.max_error.0);
    Ok(within(&reading.before, Span::at(utc_ns), &reading.after))
}

fn compare_chrony(
    chrony: &ChronydClient,
    last: &mut Option<ChronyTracking>,
    clocks: &Clocks,
) -> Result<Vec<Compared>, Failed> {
    let tracking = match chrony.synchronised_tracking() {
        Fact::Known(tracking) => tracking,
        Fact::Unknown(why) => return Err(plainly(why)),
    };
    // The system's clock and what chronyd still has to correct of it.
    let correction_ns = (tracking.system_offset_s * 1e9) as i64;
    *last = Some(tracking);
    Ok(clocks.around(|| Clock::Realtime.read_ns()?.checked_add_signed(correction_ns)))
}
