//! What chronyd believes, asked through its client.

use std::net::SocketAddr;

use crate::chrony_control::CommandAddress;
use crate::probes;
use facts::steering::{ChronyTracking, parse_tracking};
use facts::{Fact, Unknown};

/// A chronyd to be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chrony {
    /// Where it takes commands; chronyc's own idea of it where none is given.
    pub address: Option<SocketAddr>,
}

impl Chrony {
    /// Its view now; unknown too while it is not synchronised, when its
    /// figures are zeros.
    pub fn tracking(&self) -> Fact<ChronyTracking> {
        let at = self.address.map(CommandAddress::Udp);
        let options = at.map(|address| address.options()).unwrap_or_default();
        let told = probes::chrony::tracking_of(&options);
        told.and_then(|text| parse_tracking(&text)).and_then(synchronised)
    }
}

fn synchronised(tracking: ChronyTracking) -> Fact<ChronyTracking> {
    if tracking.stratum == 0 || tracking.leap_status == "Not synchronised" {
        return Fact::Unknown(Unknown::not_applicable("chronyd is not synchronised"));
    }
    Fact::Known(tracking)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As chronyd 4.3 says it at its start.
    const AT_START: &str = "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,\
        0.000,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n";

    #[test]
    fn a_daemon_without_a_source_is_no_reference() {
        let tracking = parse_tracking(AT_START).and_then(synchronised);
        let why = tracking.unknown().map(ToString::to_string);
        assert_eq!(why.as_deref(), Some("does not apply: chronyd is not synchronised"));
    }
}
