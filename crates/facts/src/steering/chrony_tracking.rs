//! What chronyd reports of the clock.

use schemars::JsonSchema;
use serde::Serialize;

use crate::kernel::WITHHELD;
use crate::{Fact, Unknown};

const TRACKING: &str = "parachron/chrony-tracking";

/// `chronyc -c tracking`, in plain units.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChronyTracking {
    /// The reference clock's name, a link-local address, or `withheld` for
    /// any other address; empty when unsynchronised.
    pub reference: String,
    /// Stratum; 0 when unsynchronised.
    pub stratum: u8,
    /// Correction still being applied, s (positive: the clock is slow).
    pub system_offset_s: f64,
    /// Last measured offset, s.
    pub last_offset_s: f64,
    /// Long-term average of the offset, s.
    pub rms_offset_s: f64,
    /// Error the clock would have uncorrected, ppm (positive: fast).
    pub frequency_ppm: f64,
    /// Residual frequency, ppm.
    pub residual_frequency_ppm: f64,
    /// Bound on the frequency's error, ppm.
    pub skew_ppm: f64,
    /// Root delay, s.
    pub root_delay_s: f64,
    /// Root dispersion, s.
    pub root_dispersion_s: f64,
    /// `Normal`, `Insert second`, `Delete second`, `Not synchronised`.
    pub leap_status: String,
}

impl ChronyTracking {
    /// Whether chronyd claims a time source.
    pub fn is_synchronised(&self) -> bool {
        self.stratum > 0 && self.leap_status != "Not synchronised"
    }

    /// Whether that is this machine's own clock (`local stratum`, reference 127.127.1.1), which
    /// is no source.
    pub fn is_own_clock(&self) -> bool {
        self.is_synchronised() && self.reference.is_empty()
    }
}

/// Fields of `chronyc -c tracking`, in its order (chrony's client.c): id,
/// name, stratum, time, offsets (3), frequency, residual, skew, root delay,
/// root dispersion, interval, leap status.
const TRACKING_FIELDS: usize = 14;

/// The kept part of `chronyc -c tracking`: all but servers' addresses.
/// Link-local ones stay: they identify a cloud's own clock and no person. So do
/// reference clocks' names, which are no addresses.
pub fn reduce_tracking(text: &str) -> String {
    let mut fields: Vec<&str> = text.lines().next().unwrap_or_default().trim().split(',').collect();
    if let [id, name, ..] = &mut fields[..] {
        let stays = match name.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(address)) => address.is_link_local(),
            Ok(std::net::IpAddr::V6(address)) => address.is_unicast_link_local(),
            // At most four characters make a reference clock's name.
            Err(_) => name.len() <= 4,
        };
        if !stays {
            (*id, *name) = (WITHHELD, WITHHELD);
        }
    }
    fields.join(",") + "\n"
}

/// `chronyc tracking` as people paste it, as the line that `-c` prints: there `slow` is positive of
/// the time, and negative of the frequency.
fn as_line(text: &str) -> Option<String> {
    let field = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name)
    };
    let number = |name: &str, slow: &str| {
        let (_, value) = field(name)?;
        let size = value.split_whitespace().next()?;
        let is_minus = value.contains(" fast") && slow.is_empty();
        let sign = if value.contains(" slow") { slow } else { ["", "-"][usize::from(is_minus)] };
        Some(format!("{sign}{size}"))
    };
    let (_, reference) = field("Reference ID")?;
    let name = reference.split(['(', ')']).nth(1).unwrap_or_default();
    let mut line = vec![reference.split(' ').next()?.to_owned(), name.replace(',', " ")];
    line.extend([number("Stratum", "")?, String::new()]);
    for name in ["System time", "Last offset", "RMS offset"] {
        line.push(number(name, "")?);
    }
    line.push(number("Frequency", "-")?);
    for name in ["Residual freq", "Skew", "Root delay", "Root dispersion", "Update interval"] {
        line.push(number(name, "")?);
    }
    line.push(field("Leap status")?.1.to_owned());
    Some(line.join(","))
}

/// The line of `chronyc -c tracking`.
pub fn parse_tracking(text: &str) -> Fact<ChronyTracking> {
    let pasted = as_line(text);
    let text = pasted.as_deref().unwrap_or(text);
    let malformed = || {
        let expected = format!("{TRACKING_FIELDS} fields of `chronyc -c tracking`");
        Unknown::malformed(TRACKING, &expected, text)
    };
    let parse = || {
        let fields: Vec<&str> =
            text.lines().next().unwrap_or_default().split(',').map(str::trim).collect();
        if fields.len() != TRACKING_FIELDS {
            return Err(malformed());
        }
        let number = |index: usize| {
            let value: f64 = fields[index].parse().map_err(|_| malformed())?;
            if value.is_finite() { Ok(value) } else { Err(malformed()) }
        };
        Ok(ChronyTracking {
            reference: fields[1].to_owned(),
            stratum: fields[2].parse().map_err(|_| malformed())?,
            system_offset_s: number(4)?,
            last_offset_s: number(5)?,
            rms_offset_s: number(6)?,
            frequency_ppm: number(7)?,
            residual_frequency_ppm: number(8)?,
            skew_ppm: number(9)?,
            root_delay_s: number(10)?,
            root_dispersion_s: number(11)?,
            leap_status: fields[13].to_owned(),
        })
    };
    parse().into()
}
