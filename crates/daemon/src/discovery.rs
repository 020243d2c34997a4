//! The time sources: those found on this machine, and those named.

use std::path::PathBuf;
use std::time::Instant;

use facts::Fact;
use keeper::SourceKind;
use keeper::event::NotUsed;
use sources::host::HostChannel;
use sources::phc::{PhcScale, PhcSpec, UnknownScale, hosts_clocks};
use sources::{HostSource, PhcSource, RtcSource, Source as TimeSource, VmClockSource};

use crate::advice::unknown_scale;
use crate::error::DaemonError;
use crate::polled::Source;
use crate::settings::{DiscoveredSource, Settings, SourceSettings};

/// Whether a daemon with these settings would find a source. A host's channels are not opened:
/// they may be those of the daemon that runs.
///
/// # Errors
/// It would find none, and exit.
pub fn check_sources(settings: &Settings) -> Result<(), DaemonError> {
    if channels(&settings.sources).is_empty() {
        find(settings)?;
    }
    Ok(())
}

/// The sources, the best kind first, and those that were probed for and are not used.
///
/// # Errors
/// There is none, or one that was named cannot be used.
pub(crate) fn find(settings: &Settings) -> Result<(Vec<Source>, Vec<NotUsed>), DaemonError> {
    let named = &settings.sources;
    let hosts = hosts_clocks();
    let (mut sources, mut not_used) = (Vec::new(), Vec::new());
    let mut add = |kind, name: &str, found: Fact<TimeSource>| match found {
        Fact::Known(time) => sources.push(Source::new(kind, time)),
        Fact::Unknown(why) => {
            not_used.push(NotUsed { source: name.to_owned(), why: why.to_string() });
        }
    };
    let is_wanted = |kind: DiscoveredSource| !named.excluded.contains(&kind);
    if is_wanted(DiscoveredSource::Vmclock) {
        let page = VmClockSource::open(&settings.paths.vmclock);
        add(SourceKind::VmClock, "vmclock", page.map(TimeSource::VmClock));
    }
    if is_wanted(DiscoveredSource::Phc) {
        let is_named = |device: &PathBuf| named.phc.iter().any(|spec| spec.is(device));
        for device in hosts.iter().filter(|device| !is_named(device)) {
            let phc = PhcSource::open(device, PhcScale::ByName);
            add(SourceKind::Phc, &device.display().to_string(), phc.map(TimeSource::Phc));
        }
    }
    if is_wanted(DiscoveredSource::Rtc) {
        // For how long the machine was away: local time does as well as UTC.
        add(SourceKind::Rtc, "rtc", RtcSource::find().map(TimeSource::Rtc));
    }
    for (index, spec) in named.phc.iter().enumerate() {
        if named.phc[..index].iter().any(|other| other.is(&spec.path)) {
            let cause = format!("--phc {} is given twice", spec.path.display());
            let remedy = sources::DUPLICATE_REMEDY.to_owned();
            return Err(DaemonError::Contradiction { keys: &["phc"], cause, remedy });
        }
        let is_hosts = hosts.iter().any(|device| spec.is(device));
        let kind = if is_hosts { SourceKind::Phc } else { SourceKind::NetworkCard };
        sources.push(Source::new(kind, TimeSource::Phc(phc(spec)?)));
    }
    let channels = channels(named);
    if !channels.is_empty() {
        sources.push(Source::new(SourceKind::HostValue, host(&channels)?));
    }
    sources.extend(named.ntp.iter().map(|server| Source::ntp(server, named.timeout)));
    sources.sort_by_key(|source| source.kind);
    if sources.is_empty() {
        return Err(DaemonError::NoSource(not_used));
    }
    let configured = sources.into_iter().map(|one| one.with_max_distance(named.max_distance));
    Ok((configured.collect(), not_used))
}

/// The ways by which the host may tell the time.
fn channels(named: &SourceSettings) -> Vec<HostChannel> {
    let socket = named.host_socket.clone().map(HostChannel::Socket);
    let port = named.host_port.clone().map(HostChannel::Port);
    let channels = [socket, named.host_vsock.map(HostChannel::Vsock), port];
    channels.into_iter().flatten().collect()
}

fn host(channels: &[HostChannel]) -> Result<TimeSource, DaemonError> {
    let host = HostSource::open(channels).map_err(|(channel, why)| {
        let (option, value) = match &channel {
            HostChannel::Vsock(port) => ("--host-vsock", port.to_string()),
            HostChannel::Port(_) => ("--host-port", channel.to_string()),
            HostChannel::Socket(_) | HostChannel::None => ("--host-socket", channel.to_string()),
        };
        DaemonError::Unusable { option, value, why: why.to_string() }
    })?;
    Ok(TimeSource::Host(Box::new(host)))
}

/// The host's channels that another process has: any user may have been first, and the clock is
/// kept all the same. Those that this process had by other settings are free by now.
pub(crate) fn channels_in_use(sources: &mut [Source]) -> Vec<NotUsed> {
    let Some(host) = sources.iter_mut().find_map(Source::host_mut) else { return Vec::new() };
    host.retry(Instant::now());
    host.awaited()
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
            let (option, value) = ("--phc", spec.path.display().to_string());
            Err(DaemonError::Unusable { option, value, why: why.to_string() })
        }
        Fact::Known(phc) => match phc.ahead_of_utc_s() {
            Err(why) if is_final(&why) => {
                let (cause, remedy) = unknown_scale(&phc, &why);
                Err(DaemonError::Contradiction { keys: &["phc"], cause, remedy })
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
