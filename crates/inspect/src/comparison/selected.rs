//! References by what a person names, and the best there is where none is named.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use facts::{Fact, Unknown};
use sources::duplicate_of;
use sources::phc::{PhcScale, PhcSpec, UnknownScale, hosts_clocks, is_same_device};
use sources::{NtpError, PhcSource};

use super::reference::{ComparisonReference, phc_device};
use crate::comparison::Pace;

/// The host's clock, whatever its device.
const AUTO: &str = "auto";

/// What a person names.
#[derive(Debug, Clone, Default)]
pub struct Wanted<'a> {
    /// NTP servers.
    pub ntp: &'a [String],
    /// PTP hardware clocks; `auto` is the one that shows the host's time.
    pub phc: &'a [PhcSpec],
    /// A VMClock page.
    pub vmclock: Option<&'a Path>,
    /// chronyd, at this command address or at the usual ones.
    pub chrony: Option<Option<SocketAddr>>,
}

/// Why a reference cannot be compared with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The NTP server has no address.
    #[error(transparent)]
    Ntp(#[from] NtpError),
    /// The PTP hardware clock cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Phc(PathBuf, Unknown),
    /// It is not known what the PTP hardware clock counts.
    #[error("{}: {}", .0.device(), .1)]
    Scale(Box<PhcSource>, UnknownScale),
    /// No device shows the host's time.
    #[error("no PTP hardware clock here shows a host's time")]
    NoHostsClock,
    /// The VMClock page cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    VmClock(PathBuf, Unknown),
    /// One that is named twice would vote twice.
    #[error("{0}")]
    Duplicate(String),
}

/// The references of these names.
///
/// # Errors
/// One cannot be read, or is named twice.
pub fn references(
    wanted: &Wanted<'_>,
    pace: Pace,
) -> Result<Vec<ComparisonReference>, SelectError> {
    let mut references = Vec::new();
    for name in wanted.ntp {
        references.push(ComparisonReference::ntp(name, pace)?);
    }
    for spec in wanted.phc {
        references.push(phc(spec, pace)?);
    }
    if let Some(path) = wanted.vmclock {
        let vmclock = ComparisonReference::vmclock(path, pace);
        references.push(vmclock.map_err(|why| SelectError::VmClock(path.into(), why))?);
    }
    if let Some(address) = wanted.chrony {
        references.push(ComparisonReference::chrony(address, pace));
    }
    check_unique(&references)?;
    Ok(references)
}

/// The PTP hardware clock that shows the host's time, or CLOCK_MONOTONIC_RAW;
/// with the device that cannot be read, and why.
pub fn best(pace: Pace) -> (ComparisonReference, Option<(PathBuf, Unknown)>) {
    best_of(hosts_clocks().into_iter().next(), pace)
}

fn best_of(
    hosts_clock: Option<PathBuf>,
    pace: Pace,
) -> (ComparisonReference, Option<(PathBuf, Unknown)>) {
    let Some(path) = hosts_clock else { return (ComparisonReference::raw(pace), None) };
    match PhcSource::open(&path, PhcScale::ByName) {
        Fact::Known(hosts) => {
            let ahead_s = hosts.ahead_of_utc_s().ok();
            (ComparisonReference::phc(hosts, ahead_s, pace), None)
        }
        Fact::Unknown(why) => (ComparisonReference::raw(pace), Some((path, why))),
    }
}

fn check_unique(references: &[ComparisonReference]) -> Result<(), SelectError> {
    for (index, one) in references.iter().enumerate() {
        for other in references.iter().take(index) {
            let (earlier, later) = ((other.name(), other.address()), (one.name(), one.address()));
            let duplicate = duplicate_of(earlier, later).or_else(|| {
                let is_same = is_one_device(one, other);
                is_same.then(|| format!("{} and {} are one device", other.name(), one.name()))
            });
            if let Some(duplicate) = duplicate {
                return Err(SelectError::Duplicate(duplicate));
            }
        }
    }
    Ok(())
}

fn is_one_device(one: &ComparisonReference, other: &ComparisonReference) -> bool {
    match (phc_device(one.name()), phc_device(other.name())) {
        (Some(one), Some(other)) => is_same_device(Path::new(one), Path::new(other)),
        _ => false,
    }
}

fn phc(spec: &PhcSpec, pace: Pace) -> Result<ComparisonReference, SelectError> {
    let path = if spec.path.as_os_str() == AUTO {
        hosts_clocks().into_iter().next().ok_or(SelectError::NoHostsClock)?
    } else {
        spec.path.clone()
    };
    let phc = match PhcSource::open(&path, spec.scale) {
        Fact::Known(phc) => phc,
        Fact::Unknown(why) => return Err(SelectError::Phc(path, why)),
    };
    match phc.ahead_of_utc_s() {
        Ok(ahead_s) => Ok(ComparisonReference::phc(phc, Some(ahead_s), pace)),
        // Its frequency means something, whatever it counts.
        Err(
            UnknownScale::NotNamed
            | UnknownScale::NoTimeOfDay
            | UnknownScale::AtNeither
            | UnknownScale::PageTellsNone(_),
        ) => Ok(ComparisonReference::phc(phc, None, pace)),
        Err(why) => Err(SelectError::Scale(Box::new(phc), why)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_hosts_clock_that_cannot_be_read_is_reported() {
        let pace = Pace::new(None, Duration::from_secs(60));
        let (reference, unread) = best_of(Some("/dev/null".into()), pace);
        assert_eq!(reference.name(), "raw");
        assert_eq!(unread.unwrap().0, Path::new("/dev/null"));
        let (reference, unread) = best_of(None, pace);
        assert_eq!((reference.name(), unread), ("raw", None));
    }

    #[test]
    fn a_server_is_selected_once_under_any_name() {
        let pace = Pace::new(None, Duration::from_secs(60));
        let server = |name| ComparisonReference::ntp(name, pace).unwrap();
        assert!(check_unique(&[server("127.0.0.1"), server("127.0.0.2")]).is_ok());
        let error = check_unique(&[server("127.0.0.1"), server("127.0.0.1:123")]).unwrap_err();
        let expected = "ntp 127.0.0.1 and ntp 127.0.0.1:123 are one server, 127.0.0.1:123";
        assert!(error.to_string().starts_with(expected), "{error}");
        let error = check_unique(&[server("127.0.0.1"), server("127.0.0.1")]).unwrap_err();
        assert!(error.to_string().starts_with("ntp 127.0.0.1 is given twice"), "{error}");
    }

    #[test]
    fn a_device_is_compared_with_once_whatever_it_counts() {
        let device =
            |name| ComparisonReference::clock(name, Duration::from_secs(1), Box::new(|| None));
        assert!(check_unique(&[device("phc /dev/ptp0 utc"), device("phc /dev/ptp1")]).is_ok());
        let twice = [device("phc /dev/ptp1"), device("phc /dev/ptp1 tai=37")];
        let error = check_unique(&twice).unwrap_err().to_string();
        assert_eq!(error, "phc /dev/ptp1 and phc /dev/ptp1 tai=37 are one device");
    }
}
