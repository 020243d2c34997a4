//! What a daemon records of its machine's clock each minute, for questions to a fleet.

use crate::row::row;

row! {
    /// One minute of a machine's clock. What is not known is none. Disruptions and
    /// corrections are counted since the row before; one that may have been of several
    /// kinds counts in each.
    Minute of "part", groups of 256;
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
