//! What a daemon records of its machine's clock each minute, for questions to a fleet.
//!
//! A folder holds the minutes of many machines in the layout that Hive began and all
//! engines read: a day and a host are folders, and columns of the table.
//!
//! ```text
//! date=2026-11-22/host=db-1/part-1795305600.parquet   whole; the day's, till the last hour
//!                           _part-1795305600.jsonl    its lines, until the day is over
//! ```
//!
//! Engines leave out files whose name begins with `_`. Lines count: of them the Parquet
//! file is made anew each hour, and renamed into its place. A machine that dies loses what
//! Linux had not written, as in [`crate::recorder`].

pub mod folder;
pub mod lines;
pub mod packed;

use serde::{Deserialize, Serialize};

/// Makes the row and the tables of its columns.
macro_rules! columns {
    (
        texts: $($(#[doc = $text_doc:literal])+ $text:ident),+;
        numbers: $($(#[doc = $number_doc:literal])+ $number:ident),+;
    ) => {
        /// One minute of a machine's clock. What is not known is none. Disruptions and
        /// corrections are counted since the row before; one that may have been of several
        /// kinds counts in each.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Minute {
            /// When, by this clock: Unix time, s.
            pub unix_s: i64,
            $($(#[doc = $text_doc])+ #[serde(skip_serializing_if = "Option::is_none")]
            pub $text: Option<String>,)+
            $($(#[doc = $number_doc])+ #[serde(skip_serializing_if = "Option::is_none")]
            pub $number: Option<i64>,)+
        }

        /// The columns of text: name, value.
        pub const TEXTS: &[Column<Option<String>>] =
            &[$(Column { name: stringify!($text), of: |row| &row.$text }),+];

        /// The columns of numbers that may be unknown: name, value.
        pub const NUMBERS: &[Column<Option<i64>>] =
            &[$(Column { name: stringify!($number), of: |row| &row.$number }),+];

        impl Minute {
            /// The number of this column.
            pub fn number(&mut self, name: &str) -> Option<&mut Option<i64>> {
                match name {
                    $(stringify!($number) => Some(&mut self.$number),)+
                    _ => None,
                }
            }
        }
    };
}

/// A column of the table.
#[derive(Debug, Clone, Copy)]
pub struct Column<T> {
    /// Its name.
    pub name: &'static str,
    /// Its value in a row.
    pub of: fn(&Minute) -> &T,
}

columns! {
    texts:
        /// Version of Parachron.
        version,
        /// The hypervisor, or `none`.
        platform,
        /// The product, by the firmware.
        product,
        /// The kernel's release.
        kernel,
        /// The kernel's clock source.
        clocksource,
        /// `synchronised`, `holdover` or `unsynchronised`.
        state,
        /// The selected source of time.
        source;
    numbers:
        /// What to add to the clock: positive where it is behind.
        offset_ns,
        /// The offset's error is at most this.
        bound_ns,
        /// The clock is off by at most this.
        error_ns,
        /// How long ago the selected source was measured.
        measured_age_s,
        /// By how much the kernel corrects the clock's frequency, in parts per 10^9.
        frequency_ppb,
        /// What reading the clock takes, at the least.
        read_ns,
        /// Unix time of the last restore, by a source that saw it.
        restored_unix_s,
        /// CPU time that the host gave to others, of all CPUs, since the row before.
        steal_ms,
        /// CPUs.
        cpus,
        /// Disruptions of all kinds.
        disruptions,
        /// The clock was steered.
        steered,
        /// The time of day was set.
        clock_set,
        /// A leap second.
        leap_second,
        /// The machine was suspended.
        suspend,
        /// The host paused it.
        pause,
        /// It was restored from a snapshot.
        snapshot_restored,
        /// It was migrated.
        migrated,
        /// The kernel switched to another clock source.
        source_switched,
        /// The host ran others for long.
        long_steal,
        /// The host stepped the time in its page.
        host_stepped,
        /// The counter was disrupted, nobody knows by what.
        counter_disrupted,
        /// Corrections by a step.
        step,
        /// Corrections by a slew.
        slew,
        /// Steps by chronyd.
        makestep,
        /// Corrections that were refused.
        refused,
        /// Corrections that failed.
        failed,
        /// Errors and warnings of doctor.
        findings;
}
