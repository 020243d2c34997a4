//! A time source as the daemon polls it.

use std::net::SocketAddr;
use std::time::Duration;

use facts::steering::chrony_config::smears;
use instruments::figures::time;
use keeper::event::Smearing;
use keeper::{Announced, AnnouncedScale, SourceKind};
use pvclock::units::{LeapSecond, OffsetBound};
use sources::duplicate_of;
use sources::phc::Smear;
use sources::{HostSource, NtpSource, Source as TimeSource, VmClockSource};

use crate::advice::with_remedy;

/// A source, and whether it replies.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    /// How long a poll of it may take.
    pub(crate) timeout: Duration,
    time: TimeSource,
    /// Whether its last reply was usable; `None` before the first.
    is_reachable: Option<bool>,
    /// Why it was not.
    why: Option<String>,
    /// An offset with a greater bound shows no time, ns.
    max_distance_ns: u64,
    /// It announced a leap second once: it shows UTC, also when that is over.
    shows_utc: bool,
}

/// A source replies again, or it does not reply any more or never did, and why.
pub(crate) type Change = Result<(), String>;

/// What came of a poll of one source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PollResult {
    /// Which source, by its index.
    pub(crate) index: usize,
    /// Its offset, if it gave a usable one.
    pub(crate) offset: Option<OffsetBound>,
    /// What has changed.
    pub(crate) change: Option<Change>,
}

/// The scale of a server where systems nearby smear, by the leap indicator of its last
/// reply, and whether it has announced a leap second before.
fn among_smeared(leap: Option<u8>, shows_utc: bool) -> AnnouncedScale {
    match leap {
        _ if shows_utc => AnnouncedScale::Utc,
        Some(0) => AnnouncedScale::Smeared,
        _ => AnnouncedScale::Unknown,
    }
}

impl Source {
    pub(crate) fn new(kind: SourceKind, time: TimeSource) -> Self {
        Self {
            name: time.name(),
            kind,
            timeout: Duration::ZERO,
            time,
            is_reachable: None,
            max_distance_ns: u64::MAX,
            shows_utc: false,
            why: None,
        }
    }

    pub(crate) fn ntp(server: &str, timeout: Duration) -> Self {
        let time = TimeSource::Ntp(NtpSource::named(server, timeout));
        Self { timeout, ..Self::new(SourceKind::Ntp, time) }
    }

    pub(crate) fn with_max_distance(self, max_distance: Duration) -> Self {
        let max_distance_ns = u64::try_from(max_distance.as_nanos()).unwrap_or(u64::MAX);
        Self { max_distance_ns, ..self }
    }

    /// Why its last poll gave nothing usable, where it did not.
    pub(crate) fn unreachable(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Whether it is a clock of the host that is read in this machine, and was
    /// the last time.
    pub(crate) fn is_cheap(&self) -> bool {
        matches!(self.kind, SourceKind::VmClock | SourceKind::Phc)
            && self.is_reachable == Some(true)
    }

    /// Its offset, of which nothing is noted.
    pub(crate) fn glance(&mut self) -> Option<OffsetBound> {
        if self.is_cheap() { self.time.offset().ok() } else { None }
    }

    /// The host's VMClock page.
    pub(crate) fn vmclock(&mut self) -> Option<&mut VmClockSource> {
        let TimeSource::VmClock(page) = &mut self.time else { return None };
        Some(page)
    }

    /// Polls those of the sources, all at the same time.
    pub(crate) fn poll_all(sources: &mut [Self], which: &[usize]) -> Vec<PollResult> {
        let is_polled = |(index, _): &(usize, &mut Self)| which.contains(index);
        let polled = sources.iter_mut().enumerate().filter(is_polled);
        let mut times: Vec<_> = polled.map(|(_, source)| &mut source.time).collect();
        let replies = TimeSource::offset_all(&mut times);
        let duplicates: Vec<_> =
            (0..sources.len()).map(|index| Self::duplicate(sources, index)).collect();
        let polled = sources.iter().enumerate().filter(|(index, _)| which.contains(index));
        let replies: Vec<_> = polled
            .zip(replies)
            .map(|((index, source), reply)| {
                let reply = reply.map_err(|why| with_remedy(&why));
                let reply = duplicates[index].clone().map_or(reply, Err);
                (index, reply.and_then(|offset| source.within_distance(offset)))
            })
            .collect();
        let is_any_referenced = sources.iter().enumerate().any(|(index, source)| {
            let reply = replies.iter().find(|(of, _)| *of == index);
            let replies =
                reply.map_or(source.is_reachable == Some(true), |(_, reply)| reply.is_ok());
            replies && source.has_reference()
        });
        replies
            .into_iter()
            .map(|(index, reply)| {
                let source = &mut sources[index];
                let reply = reply.and_then(|offset| source.usable(offset, is_any_referenced));
                let change = source.note_reply(reply.as_ref());
                PollResult { index, offset: reply.ok(), change }
            })
            .collect()
    }

    /// Whether its last reply showed the time of a reference outside the server's machine.
    fn has_reference(&self) -> bool {
        let is_server = matches!(self.kind, SourceKind::Ntp);
        is_server && !self.time.status().is_own_clock && self.time.status().stratum.is_some()
    }

    /// An offset that shows the time.
    ///
    /// # Errors
    /// Its bound is too wide to show anything.
    fn within_distance(&self, offset: OffsetBound) -> Result<OffsetBound, String> {
        // The RTC shows how long the machine was away, and a host's message without an error of its
        // own has an assumed one.
        let states_its_error = !matches!(self.kind, SourceKind::Rtc | SourceKind::HostValue);
        if states_its_error && offset.bound_ns > self.max_distance_ns {
            let [found, most] = [offset.bound_ns, self.max_distance_ns].map(|ns| time(ns as f64));
            let distance = match self.time.status().root_distance_ns {
                Some(ns) => format!(", its root distance {}", time(ns as f64)),
                None => String::new(),
            };
            return Err(format!(
                "its time is known to ± {found} only{distance}; `max-distance` allows {most}"
            ));
        }
        Ok(offset)
    }

    /// The same offset, unless the server has no vote.
    ///
    /// # Errors
    /// It follows its own clock while others that reply do not: together such servers would outvote
    /// those that know the time.
    fn usable(&self, offset: OffsetBound, is_any_referenced: bool) -> Result<OffsetBound, String> {
        if self.time.status().is_own_clock && is_any_referenced {
            return Err("it follows its own clock, and other servers do not".into());
        }
        Ok(offset)
    }

    /// How it is a duplicate of another, which has their vote: two names may
    /// turn out to be one server's.
    fn duplicate(sources: &[Self], index: usize) -> Option<String> {
        let address = sources[index].address()?;
        let are_same = sources.iter().enumerate().filter(|(_, one)| one.address() == Some(address));
        // A reachable one keeps the vote: its last reply may still count.
        let (first, votes) =
            are_same.min_by_key(|(index, one)| (one.is_reachable != Some(true), *index))?;
        if first == index {
            return None;
        }
        duplicate_of((&votes.name, Some(address)), (&sources[index].name, Some(address)))
    }

    fn address(&self) -> Option<SocketAddr> {
        self.time.address()
    }

    /// It was polled, and replied this; what has changed.
    fn note_reply(&mut self, reply: Result<&OffsetBound, &String>) -> Option<Change> {
        let before = self.is_reachable.replace(reply.is_ok());
        self.why = reply.err().cloned();
        match reply {
            Ok(_) => (before == Some(false)).then_some(Ok(())),
            Err(why) => (before != Some(false)).then_some(Err(why.clone())),
        }
    }

    /// The leap second that it announced with its last reply.
    fn leap(&self) -> Option<LeapSecond> {
        match self.time.status().leap? {
            1 => Some(LeapSecond::Inserted),
            2 => Some(LeapSecond::Deleted),
            _ => None,
        }
    }

    /// Whether it spreads leap seconds over hours.
    pub(crate) fn smearing(&self) -> Option<Smearing> {
        let is_certain = match &self.time {
            TimeSource::Phc(phc) => phc.smear()? == Smear::Certain,
            TimeSource::Ntp(server) => smears(server.name()).then_some(true)?,
            _ => return None,
        };
        Some(Smearing { source: self.name.clone(), is_certain })
    }

    /// What it stated of leap seconds last. A server that announces one does not smear
    /// it, and one that replies and does not may, where a page says that systems nearby do.
    pub(crate) fn announcement(&mut self, is_smeared_nearby: bool) -> Announced {
        let leap = self.leap();
        self.shows_utc |= leap.is_some();
        let scale = match (&self.time, self.smearing()) {
            (TimeSource::Rtc(_) | TimeSource::Host(_), _) => AnnouncedScale::Unknown,
            (_, Some(Smearing { is_certain: true, .. })) => AnnouncedScale::Smeared,
            (_, Some(_)) => AnnouncedScale::Unknown,
            (TimeSource::Ntp(server), _) if is_smeared_nearby => {
                among_smeared(server.status().leap, self.shows_utc)
            }
            _ => AnnouncedScale::Utc,
        };
        Announced { leap, scale }
    }

    /// Whether it states that systems nearby smear leap seconds.
    pub(crate) fn is_smeared_nearby(&self) -> bool {
        matches!(&self.time, TimeSource::VmClock(page) if page.is_smeared_nearby())
    }

    /// The host's channels, if this is they.
    pub(crate) fn host_mut(&mut self) -> Option<&mut HostSource> {
        match &mut self.time {
            TimeSource::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The host's channels, if this is they.
    pub(crate) fn host(&self) -> Option<&HostSource> {
        match &self.time {
            TimeSource::Host(host) => Some(host),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
