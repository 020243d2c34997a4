//! The system clock beside references, once.

use std::path::Path;
use std::time::Duration;

use facts::Fact;
use instruments::measurements::ComparedReference;
use linux::vmclock::VmClockDevice;
use sources::phc::{PhcScale, hosts_clocks};
use sources::{NtpSource, PhcSource, Source, VmClockSource};

/// A server that takes longer bounds nothing worth the wait.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Compares the clock with these NTP servers, and with the clock that its host shows, if any.
pub fn compare(servers: &[String]) -> Vec<ComparedReference> {
    let mut sources: Vec<Source> = servers
        .iter()
        .map(|name| Source::Ntp(NtpSource::named(name, TIMEOUT)))
        .chain(hosts_clock())
        .collect();
    let offsets = Source::offset_all(&mut sources.iter_mut().collect::<Vec<_>>());
    let compared = |(source, offset): (&Source, Result<pvclock::units::OffsetBound, _>)| {
        let why_not = match &offset {
            Ok(_) if source.status().is_own_clock => Some("it follows its own clock".to_owned()),
            Ok(_) => None,
            Err(why) => Some(sources::SourceError::to_string(why)),
        };
        let offset = offset.ok().filter(|_| why_not.is_none());
        ComparedReference {
            name: source.name(),
            offset_s: offset.map(|offset| offset.offset_ns as f64 / 1e9),
            bound_s: offset.map_or(0.0, |offset| offset.bound_ns as f64 / 1e9),
            why_not,
        }
    };
    sources.iter().zip(offsets).map(compared).collect()
}

/// A device of a driver that shows the host's time, or else its VMClock page.
fn hosts_clock() -> Option<Source> {
    if let Some(path) = hosts_clocks().first()
        && let Fact::Known(phc) = PhcSource::open(path, PhcScale::ByName)
    {
        return Some(Source::Phc(phc));
    }
    match VmClockSource::open(Path::new(VmClockDevice::PATH)) {
        Fact::Known(page) => Some(Source::VmClock(page)),
        Fact::Unknown(_) => None,
    }
}
