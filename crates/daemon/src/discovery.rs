//! The time sources: those found on this machine, and those named.

use std::path::{Path, PathBuf};

use facts::Fact;
use keeper::SourceKind;
use keeper::event::NotUsed;
use sources::host::Channel;
use sources::phc::{PhcScale, PhcSpec, UnknownScale, hosts_clocks};
use sources::unique::duplicate_of;
use sources::{Host, NtpServer, PhcSource, Rtc, Source as TimeSource, VmClockSource};

use crate::error::DaemonError;
use crate::polled::Source;
use crate::settings::{DiscoveredSource, Settings};

/// The sources, the best kind first, and those that were probed for and are
/// not used.
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
        let found = VmClockSource::open(&settings.paths.vmclock).map(TimeSource::VmClock);
        add(SourceKind::VmClock, "vmclock", found);
    }
    if is_wanted(DiscoveredSource::Phc) {
        let is_named = |device: &PathBuf| named.phc.iter().any(|spec| spec.is(device));
        for device in hosts.iter().filter(|device| !is_named(device)) {
            let found = PhcSource::open(device, PhcScale::ByName).map(TimeSource::Phc);
            add(SourceKind::Phc, &device.display().to_string(), found);
        }
    }
    if is_wanted(DiscoveredSource::Rtc) {
        // For how long the machine was away: local time does as well as UTC.
        add(SourceKind::Rtc, "rtc", Rtc::find().map(TimeSource::Rtc));
    }
    for (index, spec) in named.phc.iter().enumerate() {
        let phc = TimeSource::Phc(phc(spec, &named.phc[..index])?);
        let is_hosts = hosts.iter().any(|device| spec.is(device));
        let kind = if is_hosts { SourceKind::Phc } else { SourceKind::NetworkCard };
        sources.push(Source::new(kind, phc));
    }
    let socket = named.host_socket.clone().map(Channel::Socket);
    let port = named.host_port.clone().map(Channel::Port);
    let channels = [socket, named.host_vsock.map(Channel::Vsock), port];
    let channels: Vec<Channel> = channels.into_iter().flatten().collect();
    if !channels.is_empty() {
        let host = Host::open(&channels).map_err(|(channel, why)| {
            DaemonError::UnusableChannel { channel, why: why.to_string() }
        })?;
        sources.push(Source::new(SourceKind::HostValue, TimeSource::Host(Box::new(host))));
    }
    unique_servers(&named.ntp)?;
    sources.extend(named.ntp.iter().map(|server| Source::ntp(server, named.timeout)));
    sources.sort_by_key(|source| source.kind);
    if sources.is_empty() {
        return Err(DaemonError::NoSource(not_used));
    }
    let sources = sources.into_iter().map(|source| source.described_by(named.describe));
    Ok((sources.collect(), not_used))
}

/// # Errors
/// A server is named twice, as far as that shows before names are resolved.
fn unique_servers(servers: &[String]) -> Result<(), DaemonError> {
    let named = |server: &String| (format!("ntp {server}"), NtpServer::address_in(server));
    let named: Vec<_> = servers.iter().map(named).collect();
    for (index, (later, address)) in named.iter().enumerate() {
        let mut before = named.iter().take(index);
        let is_same =
            |(earlier, its): &(String, _)| duplicate_of((earlier, *its), (later, *address));
        if let Some(cause) = before.find_map(is_same) {
            return Err(DaemonError::DuplicateSource(cause));
        }
    }
    Ok(())
}

/// A PTP hardware clock, after those named `before` it.
///
/// # Errors
/// It cannot be read, has been named already, or it is unknown what it counts:
/// a network card's may be as far ahead of UTC as TAI is, and would set the
/// clock wrong by that. One that only waits for the kernel's TAI offset is
/// unreachable until then: chronyd, which sets it, may start later.
fn phc(spec: &PhcSpec, before: &[PhcSpec]) -> Result<PhcSource, DaemonError> {
    if before.iter().any(|other| other.is(&spec.path)) {
        let cause = format!("--phc {} is given twice", spec.path.display());
        return Err(DaemonError::DuplicateSource(cause));
    }
    match PhcSource::open(&spec.path, spec.scale) {
        Fact::Unknown(why) => Err(unusable(&spec.path, &why)),
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

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> DaemonError {
    DaemonError::UnusableSource { path: path.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_used_once_whatever_its_name() {
        let unique = |servers: [&str; 2]| unique_servers(&servers.map(str::to_owned));
        for two in [["127.0.0.1", "127.0.0.2"], ["a.example", "b.example"], ["::1", "[::1]:124"]] {
            assert!(unique(two).is_ok(), "{two:?}");
        }
        for (one, message) in [
            (["a.example", "a.example"], "ntp a.example is given twice"),
            (
                ["127.0.0.1", "127.0.0.1:123"],
                "ntp 127.0.0.1 and ntp 127.0.0.1:123 are one server, 127.0.0.1:123",
            ),
            (["::1", "[::1]:123"], "ntp ::1 and ntp [::1]:123 are one server, [::1]:123"),
        ] {
            assert_eq!(unique(one).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_tai_offset_that_the_kernel_lacks_is_waited_for() {
        assert!(is_final(&UnknownScale::NotNamed));
        assert!(!is_final(&UnknownScale::TaiNotSet));
    }
}
