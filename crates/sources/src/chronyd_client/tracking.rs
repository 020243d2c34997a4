//! chronyd's tracking reply as facts: in the form of `chronyc -c tracking`,
//! which captured trees hold.

use std::fmt::Write;

use crate::wire::chronyd::Tracking;
use facts::steering::{ChronyTracking, parse_tracking};
use facts::{Fact, Unknown};

use super::{ChronydClient, ChronydError};

/// The line that `chronyc -c -n tracking` would print.
pub fn line(client: &ChronydClient) -> Fact<String> {
    match client.tracking() {
        Ok(tracking) => Fact::Known(written(&tracking)),
        Err(ChronydError { command, cause }) => Fact::Unknown(Unknown::Unreadable {
            what: command.to_owned(),
            error: cause.to_string(),
        }),
    }
}

impl ChronydClient {
    /// What chronyd reports now; unknown while it is not synchronised, when
    /// its figures are zeroes.
    pub fn synchronised_tracking(&self) -> Fact<ChronyTracking> {
        line(self).and_then(|text| parse_tracking(&text)).and_then(synchronised)
    }
}

fn synchronised(tracking: ChronyTracking) -> Fact<ChronyTracking> {
    if !tracking.is_synchronised() {
        return Fact::Unknown(Unknown::not_applicable("chronyd is not synchronised"));
    }
    Fact::Known(tracking)
}

fn written(tracking: &Tracking) -> String {
    let Tracking { reference_id, stratum, updated: (seconds, nanos), .. } = tracking;
    let name = match tracking.address {
        Some(address) => address.to_string(),
        // The name of a reference clock. A comma would be a field more.
        None => reference_id
            .to_be_bytes()
            .into_iter()
            .map(char::from)
            .filter(|letter| letter.is_ascii_graphic() && *letter != ',')
            .collect(),
    };
    let mut line = format!("{reference_id:08X},{name},{stratum},{seconds}.{nanos:09}");
    let numbers = [
        (tracking.system_offset, 9),
        (tracking.last_offset, 9),
        (tracking.rms_offset, 9),
        (tracking.frequency, 3),
        (tracking.residual_frequency, 3),
        (tracking.skew, 3),
        (tracking.root_delay, 9),
        (tracking.root_dispersion, 9),
        (tracking.update_interval, 1),
    ];
    for (number, digits) in numbers {
        // Writing to a string cannot fail.
        let _ = write!(line, ",{:.digits$}", number.value());
    }
    line + "," + tracking.leap.name() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As chronyd 4.3 replies before its first measurement.
    fn at_start() -> Tracking {
        let mut reply = [0; crate::wire::chronyd::MAX_REPLY_BYTES];
        reply[..8].copy_from_slice(&[6, 2, 0, 0, 0, 33, 0, 5]);
        reply[55] = 3;
        for at in [92, 96] {
            reply[at..at + 4].copy_from_slice(&[0x04, 0x80, 0, 0]);
        }
        crate::wire::chronyd::tracking(&reply, 0).unwrap()
    }

    #[test]
    fn a_reply_becomes_the_line_of_chronyc() {
        let expected = "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,\
            0.000,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n";
        assert_eq!(written(&at_start()), expected);
    }

    #[test]
    fn the_line_has_the_references_name_or_address() {
        let mut tracking = at_start();
        tracking.reference_id = u32::from_be_bytes(*b"PHC0");
        tracking.leap = crate::wire::chronyd::TrackingLeap::Normal;
        assert!(written(&tracking).starts_with("50484330,PHC0,0,"));
        assert!(written(&tracking).ends_with(",Normal\n"));
        tracking.reference_id = u32::from_be_bytes(*b"A,B\0");
        assert!(written(&tracking).starts_with("412C4200,AB,0,"));
        tracking.address = Some("192.0.2.7".parse().unwrap());
        assert!(written(&tracking).starts_with("412C4200,192.0.2.7,0,"));
    }

    #[test]
    fn a_daemon_without_a_source_is_no_reference() {
        let tracking = parse_tracking(&written(&at_start())).and_then(synchronised);
        let why = tracking.unknown().map(ToString::to_string);
        assert_eq!(why.as_deref(), Some("does not apply: chronyd is not synchronised"));
    }
}
