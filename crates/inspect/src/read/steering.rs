//! The clock's discipline.

use facts::steering::{
    Steering, TimeKeeperKind, parse_adjtimex, parse_keepers, parse_tracking, reduce_tracking,
};
use facts::{Fact, Unknown};

use crate::probes::{adjtimex, time_keepers};
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
    let chrony = if chrony_runs {
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
    }
}
