//! The references that the command line selects.

use std::path::{Path, PathBuf};

use facts::Fact;
use sources::PhcSource;
use sources::phc::{PhcScale, PhcSpec, UnknownScale, hosts_clocks, is_same_device};
use sources::unique::{self, duplicate_of};

use super::Args;
use super::pace::Pace;
use super::reference_names::phc_device;
use super::references::Reference;
use crate::error::CliError;
use crate::phc_advice::unknown_scale;

/// The host's clock, whatever it is called here.
const AUTO: &str = "auto";

/// What to compare with.
pub(super) struct Selected {
    pub(super) references: Vec<Reference>,
    /// Why it is not what a person may expect.
    pub(super) note: Option<String>,
}

impl Selected {
    /// By the command line; where it names none, the best there is.
    ///
    /// # Errors
    /// One cannot be read, or is named twice.
    pub(super) fn of(args: &Args) -> Result<Self, CliError> {
        let pace = Pace::of(args.interval, args.duration);
        let mut references = Vec::new();
        for name in &args.ntp {
            references.push(ntp(name, pace)?);
        }
        for named in &args.phc {
            references.push(phc(named, pace)?);
        }
        if let Some(path) = &args.vmclock {
            references.push(vmclock(path, pace)?);
        }
        if let Some(address) = args.chrony {
            references.push(Reference::chrony(address, pace));
        }
        check_unique(&references)?;
        let needs_none = args.stopwatch || args.duration.is_zero();
        if !references.is_empty() || needs_none {
            return Ok(Self { references, note: None });
        }
        Ok(Self::best(hosts_clocks().into_iter().next().as_deref(), pace))
    }

    /// The host's clock, or CLOCK_MONOTONIC_RAW.
    fn best(hosts_clock: Option<&Path>, pace: Pace) -> Self {
        let hosts = hosts_clock.map(|path| (path, PhcSource::open(path, PhcScale::ByName)));
        match hosts {
            Some((_, Fact::Known(hosts))) => {
                let ahead_s = hosts.ahead_of_utc_s().ok();
                Self { references: vec![Reference::phc(hosts, ahead_s, pace)], note: None }
            }
            Some((path, Fact::Unknown(why))) => {
                let note = format!(
                    "Compared with CLOCK_MONOTONIC_RAW: {}, which shows the host's time, cannot be \
                     read: {why}.",
                    path.display()
                );
                Self { references: vec![Reference::raw(pace)], note: Some(note) }
            }
            None => Self { references: vec![Reference::raw(pace)], note: None },
        }
    }
}

/// One that is named twice would vote twice.
fn check_unique(references: &[Reference]) -> Result<(), CliError> {
    for (index, one) in references.iter().enumerate() {
        for other in references.iter().take(index) {
            let (earlier, later) = ((other.name(), other.address()), (one.name(), one.address()));
            let cause = duplicate_of(earlier, later).or_else(|| {
                let is_same = is_one_device(one, other);
                is_same.then(|| format!("{} and {} are one device", other.name(), one.name()))
            });
            if let Some(cause) = cause {
                return Err(CliError::Failed { cause, remedy: unique::REMEDY.into() });
            }
        }
    }
    Ok(())
}

fn is_one_device(one: &Reference, other: &Reference) -> bool {
    match (phc_device(one.name()), phc_device(other.name())) {
        (Some(one), Some(other)) => is_same_device(Path::new(one), Path::new(other)),
        _ => false,
    }
}

fn ntp(name: &str, pace: Pace) -> Result<Reference, CliError> {
    Reference::ntp(name, pace).map_err(|error| CliError::Failed {
        cause: error.to_string(),
        remedy: "a name or address that this machine can resolve, and a port after a colon".into(),
    })
}

fn phc(named: &PhcSpec, pace: Pace) -> Result<Reference, CliError> {
    let is_auto = named.path.as_os_str() == AUTO;
    let path = if is_auto { hosts_clock()? } else { named.path.clone() };
    match PhcSource::open(&path, named.scale) {
        Fact::Known(phc) => match phc.ahead_of_utc_s() {
            Ok(ahead_s) => Ok(Reference::phc(phc, Some(ahead_s), pace)),
            // Its frequency means something, whatever it counts.
            Err(UnknownScale::NotNamed) => Ok(Reference::phc(phc, None, pace)),
            Err(why) => Err(unknown_scale(&phc, &why)),
        },
        Fact::Unknown(why) => Err(CliError::Failed {
            cause: format!("cannot read {}: {why}", path.display()),
            remedy: "`ls /dev/ptp*`; under KVM, CONFIG_PTP_1588_CLOCK_KVM in the guest's kernel; \
                     as root where it is not readable"
                .into(),
        }),
    }
}

fn vmclock(path: &Path, pace: Pace) -> Result<Reference, CliError> {
    Reference::vmclock(path, pace).map_err(|why| CliError::Failed {
        cause: format!("cannot read {}: {why}", path.display()),
        remedy: "Linux 6.13 or later with CONFIG_PTP_1588_CLOCK_VMCLOCK, on a host that offers \
                 the device; as root where it is not readable"
            .into(),
    })
}

/// The PTP hardware clock that shows the host's time.
fn hosts_clock() -> Result<PathBuf, CliError> {
    hosts_clocks().into_iter().next().ok_or_else(|| CliError::Failed {
        cause: "no PTP hardware clock here shows a host's time".into(),
        remedy: "`modprobe ptp_kvm` in a guest of KVM; or --phc with one of `ls /dev/ptp*`".into(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_note_shows_why_the_hosts_clock_is_not_the_reference() {
        let pace = Pace::of(None, Duration::from_secs(60));
        let selected = Selected::best(Some(Path::new("/dev/null")), pace);
        assert_eq!(selected.references[0].name(), "raw");
        let note = selected.note.unwrap();
        assert!(note.contains("/dev/null, which shows the host's time, cannot be"), "{note}");
        let selected = Selected::best(None, pace);
        assert_eq!((selected.references[0].name(), selected.note), ("raw", None));
    }

    #[test]
    fn a_server_is_selected_once_under_any_name() {
        let pace = Pace::of(None, Duration::from_secs(60));
        let server = |name| Reference::ntp(name, pace).unwrap();
        assert!(check_unique(&[server("127.0.0.1"), server("127.0.0.2")]).is_ok());
        let error = check_unique(&[server("127.0.0.1"), server("127.0.0.1:123")]).unwrap_err();
        let expected = "ntp 127.0.0.1 and ntp 127.0.0.1:123 are one server, 127.0.0.1:123";
        assert!(error.to_string().starts_with(expected), "{error}");
        let error = check_unique(&[server("127.0.0.1"), server("127.0.0.1")]).unwrap_err();
        assert!(error.to_string().starts_with("ntp 127.0.0.1 is given twice"), "{error}");
    }

    #[test]
    fn a_device_is_compared_with_once_whatever_it_counts() {
        let device = |name| Reference::clock(name, Duration::from_secs(1), Box::new(|| None));
        assert!(check_unique(&[device("phc /dev/ptp0 utc"), device("phc /dev/ptp1")]).is_ok());
        let twice = [device("phc /dev/ptp1"), device("phc /dev/ptp1 tai=37")];
        let error = check_unique(&twice).unwrap_err().to_string();
        assert_eq!(error, "phc /dev/ptp1 and phc /dev/ptp1 tai=37 are one device");
    }
}
