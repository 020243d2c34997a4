//! A PTP hardware clock as people name it: a device and what it counts,
//! `/dev/ptp0`, `/dev/ptp1,tai`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::PhcScale;

/// TAI − UTC that can be meant, s: 10 in 1972, when leap seconds began.
const TAI_S: std::ops::RangeInclusive<i32> = 10..=99;

/// A device, and what it is specified to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhcSpec {
    /// The device.
    pub path: PathBuf,
    /// What it counts.
    pub scale: PhcScale,
}

/// A text that names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a device such as /dev/ptp0, /dev/ptp1,utc, /dev/ptp1,tai or /dev/ptp1,tai=37, found \
     {found:?}"
)]
pub struct PhcSpecError {
    /// What was found instead.
    pub found: String,
}

impl PhcSpec {
    /// Whether it is that device: udev makes links such as /dev/ptp_kvm.
    pub fn is(&self, device: &Path) -> bool {
        is_same_device(&self.path, device)
    }
}

/// Whether two paths lead to one device.
fn is_same_device(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    whole(one) == whole(other)
}

impl FromStr for PhcSpec {
    type Err = PhcSpecError;

    fn from_str(text: &str) -> Result<Self, PhcSpecError> {
        let (path, scale) = match text.split_once(',') {
            Some((path, scale)) => (path, scale_named(scale)),
            None => (text, Some(PhcScale::ByName)),
        };
        // Devices' names go into records, whose lines are split at spaces.
        let is_fit = !path.is_empty()
            && !path.contains(|c: char| c == '"' || c.is_control() || c.is_whitespace());
        match scale {
            Some(scale) if is_fit => Ok(Self { path: path.into(), scale }),
            _ => Err(PhcSpecError { found: text.to_owned() }),
        }
    }
}

fn scale_named(text: &str) -> Option<PhcScale> {
    match text.split_once('=') {
        None if text == "utc" => Some(PhcScale::Utc),
        None if text == "tai" => Some(PhcScale::Tai),
        Some(("tai", seconds)) => {
            seconds.parse().ok().filter(|s| TAI_S.contains(s)).map(PhcScale::TaiBy)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_may_be_specified_to_count_utc_or_tai() {
        let scale = |text: &str| {
            let spec: PhcSpec = text.parse().unwrap();
            assert_eq!(format!("{}{}", spec.path.display(), spec.scale), text);
            spec.scale
        };
        assert_eq!(scale("/dev/ptp0"), PhcScale::ByName);
        assert_eq!(scale("/dev/ptp1,utc"), PhcScale::Utc);
        assert_eq!(scale("/dev/ptp1,tai"), PhcScale::Tai);
        assert_eq!(scale("/dev/ptp1,tai=37"), PhcScale::TaiBy(37));
    }

    #[test]
    fn nonsense_is_quoted_back() {
        for text in [
            "",
            ",tai",
            "/dev/ptp1,",
            "/dev/ptp1,gps",
            "/dev/ptp1,TAI",
            "/dev/ptp1,tai=",
            "/dev/ptp1,tai=-37",
            "/dev/ptp1,tai=370",
            "/dev/ptp1,tai=37.5",
            "/dev/ptp1,utc=0",
            "/dev/ptp1,tai,utc",
            "/dev/ptp 1",
        ] {
            let error = text.parse::<PhcSpec>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains(",tai=37"), "{error}");
        }
    }
}
