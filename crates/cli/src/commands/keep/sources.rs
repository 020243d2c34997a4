//! The sources of the time: found on this machine, or named.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use facts::Fact;
use keeper::{Reading, SourceKind};
use sources::phc::advice::with_remedy;
use sources::phc::{PhcScale, PhcSpec, UnknownScale, hosts_clocks};
use sources::unique::duplicate_of;
use sources::{
    HostSocket, NtpServer, NtpSource, PhcSource, Rtc, Source as TimeSource, SourceError,
    VmClockSource,
};
use units::OffsetBound;

use super::apart::Apart;
use super::line::NotUsed;
use super::options::{Args, Found};
use crate::error::CliError;
use crate::source_error::{unknown_scale, would_vote_twice};

/// A source, and whether it answers.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) kind: SourceKind,
    /// For so long it may keep us waiting.
    pub(super) timeout: Duration,
    /// How the clock stood just before it was compared last; none where it was
    /// not yet, or gave no answer.
    pub(super) apart: Option<Apart>,
    time: TimeSource,
    /// Whether its last answer was one; none before the first.
    answers: Option<bool>,
}

/// What is to be said of a source's answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// It does not answer any more, or never did.
    Silent(String),
    /// It answers again.
    Back,
}

impl Source {
    fn new(kind: SourceKind, time: TimeSource) -> Self {
        Self { name: time.name(), kind, timeout: Duration::ZERO, apart: None, time, answers: None }
    }

    fn ntp(server: &str, timeout: Duration) -> Self {
        let time = TimeSource::Ntp(NtpSource::named(server, timeout));
        Self { timeout, ..Self::new(SourceKind::Ntp, time) }
    }

    /// We stepped the clock ourselves.
    pub(super) fn stepped(&mut self, by_ns: i64) {
        self.apart = self.apart.map(|apart| apart.stepped(by_ns));
    }

    /// Asks those of the sources, all at the same time: each with what it says,
    /// and what has changed about its answering.
    pub(super) fn measure_all(
        sources: &mut [Self],
        which: &[usize],
    ) -> Vec<(usize, Option<Reading>, Option<Change>)> {
        // Before, so that what happens meanwhile shows.
        let apart = Apart::now();
        let is_asked = |(index, _): &(usize, &mut Self)| which.contains(index);
        let asked = sources.iter_mut().enumerate().filter(is_asked);
        let mut times: Vec<_> = asked.map(|(_, source)| &mut source.time).collect();
        let told = TimeSource::offset_all(&mut times);
        let same: Vec<_> = (0..sources.len()).map(|index| Self::same(sources, index)).collect();
        let asked = sources.iter_mut().enumerate().filter(is_asked);
        let heard =
            |((index, source), told): ((usize, &mut Self), Result<OffsetBound, SourceError>)| {
                let told = told.map_err(|why| with_remedy(&why));
                let told = same[index].clone().map_or(told, Err);
                let (reading, change) = source.heard(apart, told);
                (index, reading, change)
            };
        asked.zip(told).map(heard).collect()
    }

    /// In which way it is the same as another, which has their vote: two names
    /// may turn out to be one server's.
    fn same(sources: &[Self], index: usize) -> Option<String> {
        let address = sources[index].address()?;
        let are_same = sources.iter().enumerate().filter(|(_, one)| one.address() == Some(address));
        // Who answers keeps the vote: its last answer may still count.
        let (first, votes) =
            are_same.min_by_key(|(index, one)| (one.answers != Some(true), *index))?;
        if first == index {
            return None;
        }
        duplicate_of((&votes.name, Some(address)), (&sources[index].name, Some(address)))
    }

    fn address(&self) -> Option<SocketAddr> {
        self.time.address()
    }

    /// It was asked when the clock stood like this, and told that.
    fn heard(
        &mut self,
        apart: Option<Apart>,
        told: Result<OffsetBound, String>,
    ) -> (Option<Reading>, Option<Change>) {
        if told.is_ok() {
            self.apart = apart;
        }
        let change = match (&told, self.answers) {
            (Ok(_), Some(false)) => Some(Change::Back),
            (Err(why), None | Some(true)) => Some(Change::Silent(why.clone())),
            _ => None,
        };
        self.answers = Some(told.is_ok());
        let reading = told.ok().map(|offset| Reading {
            offset_ns: offset.offset_ns,
            bound_ns: offset.bound_ns,
            at_ns: offset.at_monotonic_ns,
        });
        (reading, change)
    }

    /// The host's socket, if this is it.
    pub(super) fn host_mut(&mut self) -> Option<&mut HostSocket> {
        match &mut self.time {
            TimeSource::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The host's socket, if this is it.
    pub(super) fn host(&self) -> Option<&HostSocket> {
        match &self.time {
            TimeSource::Host(host) => Some(host),
            _ => None,
        }
    }
}

/// The sources found and named, the best kind first, and what was looked for
/// in vain.
///
/// # Errors
/// There is none, or one that was named cannot be used.
pub(super) fn find(args: &Args) -> Result<(Vec<Source>, Vec<NotUsed>), CliError> {
    let (mut sources, mut not_used) = (Vec::new(), Vec::new());
    let mut put = |kind, name: &str, found: Fact<TimeSource>| match found {
        Fact::Known(time) => sources.push(Source::new(kind, time)),
        Fact::Unknown(why) => {
            not_used.push(NotUsed { source: name.to_owned(), why: why.to_string() });
        }
    };
    let is_wanted = |kind: Found| !args.without.contains(&kind);
    if is_wanted(Found::Vmclock) {
        let found = VmClockSource::open(&args.places.vmclock).map(TimeSource::VmClock);
        put(SourceKind::VmClock, "vmclock", found);
    }
    if is_wanted(Found::Phc) {
        let is_named = |device: &PathBuf| args.phc.iter().any(|named| named.is(device));
        for device in hosts_clocks().into_iter().filter(|device| !is_named(device)) {
            let found = PhcSource::open(&device, PhcScale::ByName).map(TimeSource::Phc);
            put(SourceKind::Phc, &device.display().to_string(), found);
        }
    }
    if is_wanted(Found::Rtc) {
        put(SourceKind::Rtc, "rtc", Rtc::find_utc().map(TimeSource::Rtc));
    }
    for (index, named) in args.phc.iter().enumerate() {
        let phc = TimeSource::Phc(phc(named, &args.phc[..index])?);
        sources.push(Source::new(SourceKind::Phc, phc));
    }
    if let Some(path) = &args.host_socket {
        let host = HostSocket::bind(path).map_err(|why| unusable("--host-socket", path, &why))?;
        sources.push(Source::new(SourceKind::HostValue, TimeSource::Host(host)));
    }
    each_server_once(&args.ntp)?;
    sources.extend(args.ntp.iter().map(|server| Source::ntp(server, args.timeout)));
    sources.sort_by_key(|source| source.kind);
    if sources.is_empty() {
        return Err(none_found(&not_used));
    }
    Ok((sources, not_used))
}

/// # Errors
/// A server is named twice, as far as that shows before names are looked up.
fn each_server_once(servers: &[String]) -> Result<(), CliError> {
    let named = |server: &String| (format!("ntp {server}"), NtpServer::address_in(server));
    let named: Vec<_> = servers.iter().map(named).collect();
    for (index, (later, address)) in named.iter().enumerate() {
        let mut before = named.iter().take(index);
        let same =
            before.find_map(|(earlier, its)| duplicate_of((earlier, *its), (later, *address)));
        if let Some(cause) = same {
            return Err(would_vote_twice(cause));
        }
    }
    Ok(())
}

/// A PTP hardware clock, beside those named before it.
///
/// # Errors
/// It is not to be read, has been named already, or counts nobody knows what:
/// a network card's, which may be ahead of UTC by as much as TAI is, would set
/// the clock wrong by that. One of which only the kernel has yet to be told how
/// far TAI is ahead is silent until then: chronyd may start after keep.
fn phc(named: &PhcSpec, before: &[PhcSpec]) -> Result<PhcSource, CliError> {
    if before.iter().any(|other| other.is(&named.path)) {
        return Err(CliError::Failed {
            cause: format!("--phc {} is given twice", named.path.display()),
            remedy: "each device once: it would vote twice".into(),
        });
    }
    match PhcSource::open(&named.path, named.scale) {
        Fact::Unknown(why) => Err(unusable("--phc", &named.path, &why)),
        Fact::Known(phc) => match phc.ahead_of_utc_s() {
            Err(why) if refuses(&why) => Err(unknown_scale(&phc, &why)),
            _ => Ok(phc),
        },
    }
}

/// Whether that will not be known later either.
fn refuses(why: &UnknownScale) -> bool {
    matches!(why, UnknownScale::NotNamed)
}

fn unusable(option: &str, path: &Path, why: &dyn std::fmt::Display) -> CliError {
    CliError::Failed {
        cause: format!("{option} {}: {why}", path.display()),
        remedy: "another path, or without it".into(),
    }
}

fn none_found(not_used: &[NotUsed]) -> CliError {
    let tried: Vec<String> =
        not_used.iter().map(|one| format!("{}: {}", one.source, one.why)).collect();
    let tried = if tried.is_empty() { "none was looked for".to_owned() } else { tried.join("; ") };
    CliError::Failed {
        cause: format!("no source of the time ({tried})"),
        remedy: "name an NTP server with --ntp HOST; or give the guest VMClock or ptp_kvm \
                 (modprobe ptp_kvm)"
            .into(),
    }
}

#[cfg(test)]
mod tests;
