//! What the clocks are compared with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use facts::steering::ChronyTracking;
use facts::{Fact, Unknown};
use linux::clock::LinuxClock;
use schemars::JsonSchema;
use serde::Serialize;
use sources::chronyd_client::{ChronydAddress, ChronydClient};
use sources::phc::PhcScale;
use sources::{
    NtpError, NtpPeer, NtpSource, PhcSource, ReadStatus, Source, SourceError, VmClockSource,
};

use super::clocks::{ClockComparison, ClockName, ComparedClocks, FIRST_PHC};
use crate::comparison::{Pace, pause_after};

/// A reply that takes longer bounds nothing worth the wait.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A reference, and how it has replied so far.
pub struct ComparisonReference {
    name: String,
    kind: Kind,
    /// Whether it gives UTC: by its name, or by that of a PTP hardware clock's
    /// driver.
    pub gives_utc: bool,
    /// When to compare next.
    pub due: Instant,
    /// The RTC's change of second that it was last compared with.
    pub(super) rtc_seen: u64,
    interval: Duration,
    tried: u64,
    made: u64,
    failures: BTreeMap<String, u64>,
    failed_in_a_row: u32,
    stopped: Option<String>,
}

/// How a reference is read.
enum Kind {
    /// Between two stamps of all clocks.
    Source(Source),
    /// Around each clock: another clock of this machine, in ns.
    Clock(Box<dyn Fn() -> Option<u64>>),
    /// Around each clock: CLOCK_REALTIME, and what chronyd has still to correct
    /// of it.
    Chrony { chrony: ChronydClient, last: Option<ChronyTracking> },
}

impl ComparisonReference {
    fn new(name: String, kind: Kind, interval: Duration) -> Self {
        Self {
            gives_utc: gives_utc(&name),
            name,
            kind,
            due: Instant::now(),
            rtc_seen: 0,
            interval,
            tried: 0,
            made: 0,
            failures: BTreeMap::new(),
            failed_in_a_row: 0,
            stopped: None,
        }
    }

    /// An NTP server.
    ///
    /// # Errors
    /// It has no address.
    pub fn ntp(name: &str, pace: Pace) -> Result<Self, NtpError> {
        let server = NtpPeer::find(name, TIMEOUT)?;
        let interval = pace.server(server.address().ip());
        let source = Source::Ntp(NtpSource::fixed(server));
        Ok(Self::new(format!("ntp {name}"), Kind::Source(source), interval))
    }

    /// A PTP hardware clock that stays so many seconds ahead of UTC.
    pub fn phc(phc: PhcSource, ahead_s: Option<i32>, pace: Pace) -> Self {
        let name = phc_name(phc.clock_name(), phc.device(), phc.scale(), ahead_s);
        let source = Source::Phc(phc.fixed(ahead_s));
        Self { gives_utc: ahead_s.is_some(), ..Self::new(name, Kind::Source(source), pace.near()) }
    }

    /// The host's time by its VMClock page.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn vmclock(path: &Path, pace: Pace) -> Result<Self, Unknown> {
        match VmClockSource::open(path) {
            Fact::Known(vmclock) => {
                let name = format!("vmclock {}", path.display());
                Ok(Self::new(name, Kind::Source(Source::VmClock(vmclock)), pace.near()))
            }
            Fact::Unknown(why) => Err(why),
        }
    }

    /// chronyd's estimate.
    pub fn chrony(address: Option<SocketAddr>, pace: Pace) -> Self {
        let name = address.map_or("chrony".to_owned(), |address| format!("chrony {address}"));
        let kind = Kind::Chrony {
            chrony: ChronydClient::new(address.map(ChronydAddress::Udp)),
            last: None,
        };
        Self::new(name, kind, pace.chronyd())
    }

    /// CLOCK_MONOTONIC_RAW.
    pub fn raw(pace: Pace) -> Self {
        Self::clock("raw", pace.near(), Box::new(|| LinuxClock::MonotonicRaw.read_ns()))
    }

    /// A clock that is read in ns.
    pub fn clock(name: &str, interval: Duration, read: Box<dyn Fn() -> Option<u64>>) -> Self {
        Self::new(name.into(), Kind::Clock(read), interval)
    }

    /// Its kind and name, as in records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An NTP server's address.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Source(source) => source.address(),
            _ => None,
        }
    }

    /// Which of the clocks that can be measured it is itself.
    pub fn is_clock(&self) -> Option<ClockName> {
        match &self.kind {
            Kind::Clock(_) => Some(ClockName::Raw),
            Kind::Source(Source::Phc(phc)) if phc.device() == FIRST_PHC => Some(ClockName::Phc),
            _ => None,
        }
    }

    /// Whether it must not be queried again.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The failure that stopped it, or else the commonest.
    pub fn last_failure(&self) -> Option<String> {
        let commonest = self.failures.iter().max_by_key(|(_, count)| **count);
        self.stopped.clone().or(commonest.map(|(what, _)| what.clone()))
    }

    /// Why its first comparison, and no other yet, failed: if it is down, that
    /// should be known before the end of a long run.
    pub fn failed_at_first(&self) -> Option<String> {
        self.last_failure().filter(|_| self.tried == 1)
    }

    /// Compares all clocks with it once, and sets the time of the next
    /// comparison: later after failures that made `others_wait`.
    pub(super) fn compare(
        &mut self,
        clocks: &ComparedClocks,
        others_wait: bool,
    ) -> Vec<ClockComparison> {
        let begun = Instant::now();
        self.tried += 1;
        let compared = match &mut self.kind {
            Kind::Source(source) => match source.read(clocks.stamps()) {
                Ok(reading) => Ok(clocks.within(&reading)),
                Err(error) => Err(ReferenceError::from_error(&error)),
            },
            Kind::Chrony { chrony, last } => compare_chrony(chrony, last, clocks),
            Kind::Clock(read) => compare_clock(&*read, clocks),
        };
        let compared = match compared {
            Ok(compared) => {
                self.made += 1;
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
        // Comparisons that are overdue are left out.
        let now = Instant::now();
        self.due = (self.due + self.interval).max(now);
        if others_wait {
            self.due = self.due.max(now + pause_after(self.failed_in_a_row, now - begun));
        }
        compared
    }

    /// How it has replied.
    pub(super) fn report(&self) -> ReferenceReport {
        ReferenceReport {
            name: self.name.clone(),
            tried: self.tried,
            made: self.made,
            failures: self
                .failures
                .iter()
                .map(|(what, count)| Failure { what: what.clone(), times: *count })
                .collect(),
            agrees: None,
            stopped: self.stopped.clone(),
            interval_s: self.interval.as_secs_f64(),
            status: match &self.kind {
                Kind::Source(source) => source.status(),
                Kind::Chrony { last, .. } => {
                    ReadStatus { chrony: last.clone(), ..ReadStatus::default() }
                }
                Kind::Clock(_) => ReadStatus::default(),
            },
        }
    }
}

/// A reference, and how it replied.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReferenceReport {
    /// Its kind and name; of a PTP hardware clock that was specified to count UTC
    /// or TAI also what is subtracted: `phc /dev/ptp1 tai=37`.
    pub name: String,
    /// Comparisons tried in this run.
    pub tried: u64,
    /// Comparisons made.
    pub made: u64,
    /// Why others failed.
    pub failures: Vec<Failure>,
    /// Whether its time agrees with the majority of references that tell the
    /// time of day; none where there is no majority, or nothing to compare.
    pub agrees: Option<bool>,
    /// Why it was not queried any more.
    pub stopped: Option<String>,
    /// Time between comparisons at the end, s: longer than asked for where it
    /// sent kiss-o'-death RATE.
    pub interval_s: f64,
    /// What it states about itself.
    #[serde(flatten)]
    pub status: ReadStatus,
}

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Failure {
    /// What happened.
    pub what: String,
    /// How often.
    pub times: u64,
}

struct ReferenceError {
    what: String,
    consequence: Consequence,
}

enum Consequence {
    None,
    Slower,
    Stop,
}

impl ReferenceError {
    fn from_error(error: &SourceError) -> Self {
        let consequence = match error {
            SourceError::Ntp(error) if error.is_stop() => Consequence::Stop,
            SourceError::Ntp(error) if error.is_rate_limit() => Consequence::Slower,
            _ => Consequence::None,
        };
        Self { what: error.to_string(), consequence }
    }
}

fn plainly(what: impl ToString) -> ReferenceError {
    ReferenceError { what: what.to_string(), consequence: Consequence::None }
}

fn compare_clock(
    read: &dyn Fn() -> Option<u64>,
    clocks: &ComparedClocks,
) -> Result<Vec<ClockComparison>, ReferenceError> {
    read().ok_or_else(|| plainly("it shows no time"))?;
    Ok(clocks.around(read))
}

fn compare_chrony(
    chrony: &ChronydClient,
    last: &mut Option<ChronyTracking>,
    clocks: &ComparedClocks,
) -> Result<Vec<ClockComparison>, ReferenceError> {
    let tracking = match chrony.synchronised_tracking() {
        Fact::Known(tracking) => tracking,
        Fact::Unknown(why) => return Err(plainly(why)),
    };
    // The system's clock and what chronyd still has to correct of it.
    let correction_ns = (tracking.system_offset_s * 1e9) as i64;
    *last = Some(tracking);
    Ok(clocks.around(|| LinuxClock::Realtime.read_ns()?.checked_add_signed(correction_ns)))
}

/// What ptp_kvm calls its device (drivers/ptp/ptp_kvm_common.c): the host's
/// clock, by KVM clock pairing.
const KVM_CLOCK: &str = "KVM virtual PTP";

/// The name of a PTP hardware clock, with what it was specified to count: a
/// resumed record joins comparisons by the name, and must not join times that
/// differ by `ahead_s`. No comma, which ends a record's fields.
fn phc_name(clock_name: &str, device: &str, scale: PhcScale, ahead_s: Option<i32>) -> String {
    let kind = if clock_name == KVM_CLOCK { "kvm" } else { "phc" };
    match (scale, ahead_s) {
        (PhcScale::ByName, _) | (_, None) => format!("{kind} {device}"),
        (PhcScale::Utc, _) => format!("{kind} {device} utc"),
        (PhcScale::Tai | PhcScale::TaiBy(_), Some(ahead_s)) => {
            format!("{kind} {device} tai={ahead_s}")
        }
    }
}

/// A PTP hardware clock's device and what it was specified to count.
fn phc_named(name: &str) -> Option<(&str, &str)> {
    let device = name.strip_prefix("kvm ").or(name.strip_prefix("phc "))?;
    Some(device.split_once(' ').unwrap_or((device, "")))
}

/// The device of a PTP hardware clock, where a reference of that name is one.
pub(super) fn phc_device(name: &str) -> Option<&str> {
    phc_named(name).map(|(device, _)| device)
}

/// Whether it is a PTP hardware clock from which TAI - UTC is subtracted.
pub(super) fn is_less_tai(name: &str) -> bool {
    phc_named(name).is_some_and(|(_, scale)| scale.starts_with("tai="))
}

/// Whether a reference gives UTC, by its name: a network card's clock that is
/// not specified may count TAI.
pub(super) fn gives_utc(name: &str) -> bool {
    let kinds = ["ntp ", "chrony", "vmclock ", "kvm "];
    let is_specified = phc_named(name).is_some_and(|(_, scale)| !scale.is_empty());
    kinds.iter().any(|kind| name.starts_with(kind)) || is_specified
}

#[cfg(test)]
mod tests;
