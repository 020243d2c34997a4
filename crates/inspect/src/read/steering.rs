//! The clock's discipline.

use facts::steering::{
    Steering, TimeKeeperKind, chrony_config, ntp_config, parse_adjtimex, parse_keepers,
    parse_offset_readers, parse_tracking, reduce_tracking,
};
use facts::{Fact, Unknown};

use crate::probes::{self, adjtimex, time_keepers};
use crate::tree::Tree;
use sources::chronyd_client::{ChronydClient, tracking};

pub(super) fn steering(tree: &Tree) -> Steering {
    let keepers = tree
        .digest(
            "time-keepers",
            "time daemons and guest tools among the programs",
            time_keepers::find,
        )
        .and_then(|text| parse_keepers(&text));
    let chrony_runs = keepers
        .is_known_and(|found| found.iter().any(|k| k.kind == TimeKeeperKind::Chrony && k.running));
    let is_perhaps = !tree.is_live() && matches!(keepers, Fact::Unknown(Unknown::NotThere { .. }));
    let chrony = if chrony_runs || is_perhaps {
        let live = || tracking::line(&ChronydClient::default()).map(|text| reduce_tracking(&text));
        tree.probe_reduced("chrony-tracking", "all but servers' addresses", live)
            .and_then(|text| parse_tracking(&text))
    } else {
        match &keepers {
            Fact::Known(_) => Fact::Unknown(Unknown::not_applicable("chronyd does not run")),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        }
    };
    Steering {
        adjtimex: tree.probe("adjtimex", adjtimex::state).and_then(|text| parse_adjtimex(&text)),
        keepers,
        chrony,
        chrony_config: tree
            .digest(
                "chrony-config",
                "directives about sources and steps, no servers' names",
                probes::chrony_config::find,
            )
            .and_then(|text| chrony_config::parse(&text)),
        ntp_configs: tree
            .digest(
                "ntp-config",
                "ntpd's and timesyncd's servers, without their names",
                probes::ntp_config::find,
            )
            .and_then(|text| ntp_config::parse(&text)),
        unit_conditions: tree
            .digest(
                "unit-conditions",
                "conditions of time daemons' units",
                probes::unit_states::find,
            )
            .and_then(|text| parse_offset_readers(&text)),
        offset_readers: tree
            .digest(
                "offset-readers",
                "monitoring of the clock among the programs",
                time_keepers::offset_readers,
            )
            .and_then(|text| parse_offset_readers(&text)),
    }
}
