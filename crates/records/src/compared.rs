//! Comparisons of clocks as rows of a folder.

use crate::record::Record;
use crate::row::row;

row! {
    /// A comparison of a clock with a reference, and when it was recorded. A time that is no
    /// number of 63 bits is none.
    Compared of "drift", groups of 16384;
    texts:
        /// The kernel's name of this boot.
        boot,
        /// What the clock was compared with.
        reference,
        /// The clock's name.
        clock,
        /// Which of the two was read around the other: `clock` or `reference`.
        outside;
    numbers:
        /// The clock's earlier reading, ns.
        clock_before_ns,
        /// The clock's later reading, ns.
        clock_after_ns,
        /// The reference's earlier reading, ns.
        reference_before_ns,
        /// The reference's later reading, ns.
        reference_after_ns;
}

impl Compared {
    /// A comparison that is recorded at this Unix time.
    pub fn new(unix_s: i64, record: &Record) -> Self {
        let [boot, reference, clock, outside] = record.names().map(|name| Some(name.to_owned()));
        let [clock_before_ns, clock_after_ns, reference_before_ns, reference_after_ns] =
            record.times_ns().map(|ns| i64::try_from(ns).ok());
        Self {
            unix_s,
            boot,
            reference,
            clock,
            outside,
            clock_before_ns,
            clock_after_ns,
            reference_before_ns,
            reference_after_ns,
        }
    }
}
