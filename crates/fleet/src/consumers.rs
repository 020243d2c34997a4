//! Consumers of a clock, and how far it may be off for each.

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
    /// What happens beyond the limit.
    pub beyond: &'static str,
    /// Where the limit is documented.
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

/// Consumers with a documented limit.
pub const CONSUMERS: &[Consumer] = &[
    consumer_of(
        "cockroachdb",
        0.2,
        "a node shuts down: it is 80 % of --max-offset 500ms from half of the others",
        "CockroachDB, cockroach start: --max-offset",
    ),
    consumer_of(
        "yugabytedb",
        0.25,
        "writes fail or servers shut down: max_clock_skew_usec 500000 between two nodes",
        "YugabyteDB, yb-tserver: --max_clock_skew_usec",
    ),
    consumer_of(
        "ydb",
        0.0025,
        "critical status: two nodes 5 ms apart",
        "YDB, troubleshooting: system clock drift",
    ),
    consumer_of(
        "kudu",
        10.0,
        "a server shuts down: it reads the kernel's maxerror",
        "Apache Kudu, --max_clock_sync_error_usec",
    ),
    consumer_of(
        "ceph",
        0.025,
        "MON_CLOCK_SKEW: monitors 50 ms apart",
        "Ceph, mon_clock_drift_allowed",
    ),
    consumer_of("etcd", 0.5, "a warning: two peers 1 s apart", "etcd, rafthttp probing_status.go"),
    consumer_of(
        "hbase",
        15.0,
        "a region server 30 s from the master is refused",
        "HBase, hbase.master.maxclockskew",
    ),
    consumer_of("finra-4590", 0.05, "violates the rule", "FINRA rule 4590"),
    consumer_of(
        "totp",
        15.0,
        "codes fail: they are half of a 30 s step old",
        "RFC 6238, section 5.2",
    ),
    consumer_of(
        "kerberos",
        150.0,
        "KRB_AP_ERR_SKEW: two machines 300 s apart",
        "MIT Kerberos, krb5.conf: clockskew",
    ),
    consumer_of("s3", 900.0, "RequestTimeTooSkewed", "Amazon S3, error responses"),
];

/// The consumer of this name.
pub fn consumer(name: &str) -> Option<&'static Consumer> {
    CONSUMERS.iter().find(|consumer| consumer.name == name)
}

/// What the clock's error leaves of each consumer's limit, s; empty where the error is not known.
pub fn margins(clock: &Snapshot) -> impl Iterator<Item = (&'static Consumer, f64)> {
    let bound_s = clock.error_bound_s;
    CONSUMERS.iter().filter_map(move |consumer| Some((consumer, consumer.limit_s - bound_s?)))
}
