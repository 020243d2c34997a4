//! What the settings' values may be, as text: on a command line and in the
//! configuration file alike.

use std::str::FromStr;

use crate::exporter::{BadListenAddress, ListenAddress};
use facts::steering::TimeKeeperKind;
use sources::NtpPeer;

use crate::settings::DiscoveredSource;

/// Where to listen; nowhere if it is empty.
///
/// # Errors
/// What was expected.
pub fn listen(text: &str) -> Result<Option<ListenAddress>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|why: BadListenAddress| why.to_string())
}

/// Something that trusts a clock.
///
/// # Errors
/// What was expected.
pub fn consumer(text: &str) -> Result<String, String> {
    let known = || crate::fleet::CONSUMERS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    match crate::fleet::consumer(text) {
        Some(consumer) => Ok(consumer.name.to_owned()),
        None => Err(format!("expected one of {}, found {text:?}", known())),
    }
}

impl FromStr for DiscoveredSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "vmclock" => Ok(Self::Vmclock),
            "phc" => Ok(Self::Phc),
            "rtc" => Ok(Self::Rtc),
            _ => Err(format!("expected vmclock, phc or rtc, found {text:?}")),
        }
    }
}

/// An NTP server, `HOST` or `HOST:PORT`.
///
/// # Errors
/// It is no such name.
pub fn server(text: &str) -> Result<String, String> {
    match NtpPeer::check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(why) => {
            Err(format!("expected HOST, HOST:PORT or [ADDRESS]:PORT, found {text:?}: {why}"))
        }
    }
}

/// Another time daemon, by its name.
///
/// # Errors
/// None is called that.
pub fn daemon_name(text: &str) -> Result<TimeKeeperKind, String> {
    TimeKeeperKind::from_name(text).ok_or_else(|| {
        let names: Vec<_> = TimeKeeperKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("expected one of {}, found {text:?}", names.join(", "))
    })
}

/// By how much the clock may gain or lose between two measurements, ppb; none: as the machine is.
///
/// ```
/// use daemon::values::max_clock_error;
/// assert_eq!((max_clock_error("15ppm"), max_clock_error("auto")), (Ok(Some(15_000)), Ok(None)));
/// ```
///
/// # Errors
/// It is no rate, or out of range.
pub fn max_clock_error(text: &str) -> Result<Option<u64>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let ppm: Option<f64> = text.strip_suffix("ppm").and_then(|number| number.parse().ok());
    match ppm.filter(|ppm| (0.001..=500.0).contains(ppm)) {
        Some(ppm) => Ok(Some((ppm * 1000.0).round() as u64)),
        None => Err(format!("expected auto, or 0.001ppm to 500ppm, found {text:?}")),
    }
}
