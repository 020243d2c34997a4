//! The time sources: those found on this machine, and those named.

use std::path::PathBuf;

use facts::Fact;
use keeper::SourceKind;
use keeper::event::NotUsed;
use sources::host::HostChannel;
use sources::phc::{PhcScale, PhcSpec, UnknownScale, hosts_clocks};
use sources::{HostSource, PhcSource, RtcSource, Source as TimeSource, VmClockSource};

use crate::error::DaemonError;
use crate::polled::Source;
use crate::settings::{DiscoveredSource, Settings, SourceSettings};

/// A source that the settings want.
#[derive(Debug)]
pub(crate) enum DiscoveredSources {
    /// One that was not in use yet.
    New(Box<Source>),
    /// One in use already, by its index: it is what it was.
    Kept(usize),
}

/// The sources found, as the settings have them, each with its index among those in use so far.
pub(crate) fn take_sources(
    found: Vec<DiscoveredSources>,
    in_use: Vec<Source>,
    named: &SourceSettings,
) -> Vec<(Source, Option<usize>)> {
    let mut in_use: Vec<_> = in_use.into_iter().map(Some).collect();
    let taken = found.into_iter().filter_map(|found| match found {
        DiscoveredSources::New(source) => Some((*source, None)),
        DiscoveredSources::Kept(index) => Some((in_use.get_mut(index)?.take()?, Some(index))),
    });
    let configured = |source: Source| {
        source.with_description(named.describe).with_max_distance(named.max_distance)
    };
    taken.map(|(source, was)| (configured(source), was)).collect()
}

/// Whether a daemon with these settings would find a source. A host's channels are not opened:
/// they may be those of the daemon that runs.
///
/// # Errors
/// It would find none, and exit.
pub fn check_sources(settings: &Settings) -> Result<(), DaemonError> {
    if channels(&settings.sources).is_empty() {
        find(settings, &[])?;
    }
    Ok(())
}

/// The sources, the best kind first, and those that were probed for and are
/// not used. Those `in_use` are not opened again.
///
/// # Errors
/// There is none, or one that was named cannot be used.
pub(crate) fn find(
    settings: &Settings,
    in_use: &[Source],
) -> Result<(Vec<DiscoveredSources>, Vec<NotUsed>), DaemonError> {
    let named = &settings.sources;
    let hosts = hosts_clocks();
    let (mut sources, mut not_used) = (Vec::new(), Vec::new());
    let kept = |key: &str| in_use.iter().position(|source| source.key == key);
    let mut add = |kind, name: &str, key: String, open: &dyn Fn() -> Fact<TimeSource>| {
        if let Some(index) = kept(&key) {
            return sources.push((kind, DiscoveredSources::Kept(index)));
        }
        match open() {
            Fact::Known(time) => sources.push(new(Source::new(kind, time), key)),
            Fact::Unknown(why) => {
                not_used.push(NotUsed { source: name.to_owned(), why: why.to_string() });
            }
        }
    };
    let is_wanted = |kind: DiscoveredSource| !named.excluded.contains(&kind);
    if is_wanted(DiscoveredSource::Vmclock) {
        let path = &settings.paths.vmclock;
        let open = || VmClockSource::open(path).map(TimeSource::VmClock);
        add(SourceKind::VmClock, "vmclock", format!("vmclock {}", path.display()), &open);
    }
    if is_wanted(DiscoveredSource::Phc) {
        let is_named = |device: &PathBuf| named.phc.iter().any(|spec| spec.is(device));
        for device in hosts.iter().filter(|device| !is_named(device)) {
            let open = || PhcSource::open(device, PhcScale::ByName).map(TimeSource::Phc);
            let name = device.display().to_string();
            add(SourceKind::Phc, &name, format!("host's {name}"), &open);
        }
    }
    if is_wanted(DiscoveredSource::Rtc) {
        // For how long the machine was away: local time does as well as UTC.
        add(SourceKind::Rtc, "rtc", "rtc".into(), &|| RtcSource::find().map(TimeSource::Rtc));
    }
    for (index, spec) in named.phc.iter().enumerate() {
        named_once(spec, &named.phc[..index])?;
        let is_hosts = hosts.iter().any(|device| spec.is(device));
        let kind = if is_hosts { SourceKind::Phc } else { SourceKind::NetworkCard };
        let key = format!("{spec:?}");
        let source = match kept(&key) {
            Some(index) => (kind, DiscoveredSources::Kept(index)),
            None => new(Source::new(kind, TimeSource::Phc(phc(spec)?)), key),
        };
        sources.push(source);
    }
    let channels = channels(named);
    if !channels.is_empty() {
        let key = format!("host {channels:?}");
        let source = match kept(&key) {
            Some(index) => (SourceKind::HostValue, DiscoveredSources::Kept(index)),
            None => new(Source::new(SourceKind::HostValue, host(&channels)?), key),
        };
        not_used.extend(channels_in_use(&source.1, in_use));
        sources.push(source);
    }
    let server = |server: &String| {
        let key = format!("ntp {server} {:?}", named.timeout);
        let known = kept(&key).map(|index| (SourceKind::Ntp, DiscoveredSources::Kept(index)));
        known.unwrap_or_else(|| new(Source::ntp(server, named.timeout), key))
    };
    sources.extend(named.ntp.iter().map(server));
    sources.sort_by_key(|(kind, _)| *kind);
    if sources.is_empty() {
        return Err(DaemonError::NoSource(not_used));
    }
    Ok((sources.into_iter().map(|(_, found)| found).collect(), not_used))
}

fn new(mut source: Source, key: String) -> (SourceKind, DiscoveredSources) {
    source.key = key;
    (source.kind, DiscoveredSources::New(Box::new(source)))
}

/// # Errors
/// The device is one of those named before.
fn named_once(spec: &PhcSpec, before: &[PhcSpec]) -> Result<(), DaemonError> {
    if before.iter().any(|other| other.is(&spec.path)) {
        let cause = format!("--phc {} is given twice", spec.path.display());
        return Err(DaemonError::DuplicateSource(cause));
    }
    Ok(())
}

/// The ways by which the host may tell the time.
fn channels(named: &SourceSettings) -> Vec<HostChannel> {
    let socket = named.host_socket.clone().map(HostChannel::Socket);
    let port = named.host_port.clone().map(HostChannel::Port);
    let channels = [socket, named.host_vsock.map(HostChannel::Vsock), port];
    channels.into_iter().flatten().collect()
}

fn host(channels: &[HostChannel]) -> Result<TimeSource, DaemonError> {
    let host = HostSource::open(channels)
        .map_err(|(channel, why)| DaemonError::UnusableChannel { channel, why: why.to_string() })?;
    Ok(TimeSource::Host(Box::new(host)))
}

/// The channels that another process has: any user may have been first, and the clock is
/// kept all the same.
fn channels_in_use(source: &DiscoveredSources, in_use: &[Source]) -> Vec<NotUsed> {
    let source = match source {
        DiscoveredSources::New(source) => Some(&**source),
        DiscoveredSources::Kept(index) => in_use.get(*index),
    };
    let channels = source.and_then(Source::host).into_iter().flat_map(HostSource::awaited);
    channels
        .map(|(channel, why)| NotUsed { source: channel.to_string(), why: why.to_owned() })
        .collect()
}

/// A PTP hardware clock.
///
/// # Errors
/// It cannot be read, or it is unknown what it counts:
/// a network card's may be as far ahead of UTC as TAI is, and would set the
/// clock wrong by that. One that only waits for the kernel's TAI offset is
/// unreachable until then: chronyd, which sets it, may start later.
fn phc(spec: &PhcSpec) -> Result<PhcSource, DaemonError> {
    match PhcSource::open(&spec.path, spec.scale) {
        Fact::Unknown(why) => {
            Err(DaemonError::UnusableSource { path: spec.path.clone(), why: why.to_string() })
        }
        Fact::Known(phc) => match phc.ahead_of_utc_s() {
            Err(why) if is_final(&why) => {
                Err(DaemonError::UnknownScale { phc: Box::new(phc), why })
            }
            _ => Ok(phc),
        },
    }
}

/// Whether it will not be known later either.
fn is_final(why: &UnknownScale) -> bool {
    matches!(why, UnknownScale::NotNamed | UnknownScale::NoTimeOfDay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tai_offset_that_the_kernel_lacks_is_waited_for() {
        assert!(is_final(&UnknownScale::NotNamed));
        assert!(!is_final(&UnknownScale::TaiNotSet));
    }
}
