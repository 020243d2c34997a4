//! Consumers of a clock, and how far it may be off for each.

use crate::fleet::snapshot::Snapshot;

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
        "a node shuts down when its clock is off by more than 80 % of --max-offset (500ms) from \
         at least half of the other nodes",
        "CockroachDB, cockroach start: --max-offset",
    ),
    consumer_of(
        "yugabytedb",
        0.25,
        "writes fail or servers shut down when two nodes' clocks differ by more than \
         max_clock_skew_usec (500000)",
        "YugabyteDB, yb-tserver: --max_clock_skew_usec",
    ),
    consumer_of(
        "ydb",
        0.0025,
        "critical status when two nodes' clocks differ by 5 ms",
        "YDB, troubleshooting: system clock drift",
    ),
    consumer_of(
        "kudu",
        10.0,
        "a server shuts down when the kernel's maxerror exceeds the limit",
        "Apache Kudu, --max_clock_sync_error_usec",
    ),
    consumer_of(
        "ceph",
        0.025,
        "MON_CLOCK_SKEW when two monitors' clocks differ by 50 ms",
        "Ceph, mon_clock_drift_allowed",
    ),
    consumer_of(
        "etcd",
        0.5,
        "a warning when two peers' clocks differ by 1 s",
        "etcd, rafthttp probing_status.go",
    ),
    consumer_of(
        "hbase",
        15.0,
        "the master refuses a region server whose clock differs by 30 s",
        "HBase, hbase.master.maxclockskew",
    ),
    consumer_of("finra-4590", 0.05, "violates the rule", "FINRA rule 4590"),
    consumer_of(
        "totp",
        15.0,
        "codes fail when the clock is off by half of a 30 s step",
        "RFC 6238, section 5.2",
    ),
    consumer_of(
        "kerberos",
        150.0,
        "KRB_AP_ERR_SKEW when two machines' clocks differ by 300 s",
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
