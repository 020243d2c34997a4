//! Those that trust the clocks of their machines, and how far these may be off.

use crate::snapshot::Snapshot;

/// Something that trusts its machine's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Consumer {
    /// Its name, as in the label.
    pub name: &'static str,
    /// The clock may be off from the truth by this, s. Where the limit is between two
    /// machines, it is half of that: both may be off, in opposite directions.
    pub limit_s: f64,
    /// What happens beyond it.
    pub beyond: &'static str,
    /// Where that is said.
    pub source: &'static str,
}

const fn consumer_of(
    name: &'static str,
    limit_s: f64,
    beyond: &'static str,
    source: &'static str,
) -> Consumer {
    Consumer { name, limit_s, beyond, source }
}

/// Those whose limits are written down.
pub const CONSUMERS: &[Consumer] = &[
    consumer_of(
        "cockroachdb",
        0.2,
        "a node ends itself: 80 % of --max-offset 500ms from half of the others",
        "CockroachDB, cockroach start: --max-offset",
    ),
    consumer_of(
        "yugabytedb",
        0.25,
        "max_clock_skew_usec 500000 between two nodes: writes fail or servers end",
        "YugabyteDB, yb-tserver: --max_clock_skew_usec",
    ),
    consumer_of(
        "ydb",
        0.0025,
        "critical: two nodes 5 ms apart",
        "YDB, troubleshooting: system clock drift",
    ),
    consumer_of(
        "kudu",
        10.0,
        "a server ends itself by the kernel's maxerror",
        "Apache Kudu, --max_clock_sync_error_usec",
    ),
    consumer_of(
        "ceph",
        0.025,
        "MON_CLOCK_SKEW: monitors 50 ms apart",
        "Ceph, mon_clock_drift_allowed",
    ),
    consumer_of("etcd", 0.5, "a warning: peers 1 s apart", "etcd, rafthttp probing_status.go"),
    consumer_of(
        "hbase",
        15.0,
        "a region server 30 s from the master is refused",
        "HBase, hbase.master.maxclockskew",
    ),
    consumer_of("finra-4590", 0.05, "beyond the rule's tolerance", "FINRA rule 4590"),
    consumer_of("totp", 15.0, "codes of half a 30 s step away", "RFC 6238, section 5.2"),
    consumer_of(
        "kerberos",
        150.0,
        "KRB_AP_ERR_SKEW: two machines 300 s apart",
        "MIT Kerberos, krb5.conf: clockskew",
    ),
    consumer_of("s3", 900.0, "RequestTimeTooSkewed", "Amazon S3, error responses"),
];

/// The one of this name.
pub fn consumer(name: &str) -> Option<&'static Consumer> {
    CONSUMERS.iter().find(|consumer| consumer.name == name)
}

/// What is left of each one's limit, s; nothing where the clock's error is not known.
pub fn margins(clock: &Snapshot) -> impl Iterator<Item = (&'static Consumer, f64)> {
    let bound_s = clock.error_bound_s;
    CONSUMERS.iter().filter_map(move |consumer| Some((consumer, consumer.limit_s - bound_s?)))
}
