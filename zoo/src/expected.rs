//! Everything that the checks match of what our programs print: command
//! lines, JSON names, words. A renamed option or field is changed here alone.

/// `parachron clocks`.
pub(crate) mod clocks {
    pub(crate) const COMMAND: &str = "parachron clocks --format json";
    /// Pointer to the names of the clock sources on offer.
    pub(crate) const AVAILABLE: &str = "/available/known";
}

/// `parachron doctor`.
pub(crate) mod doctor {
    pub(crate) const COMMAND: &str = "parachron doctor --format json";
    pub(crate) const ON_HPET: &str = "echo hpet >$CLOCKSOURCE && parachron doctor --format json";
    pub(crate) const ON_ACPI_PM: &str =
        "echo acpi_pm >$CLOCKSOURCE && parachron doctor --format json";
    pub(crate) const FINDINGS: &str = "/diagnosis/findings";
    pub(crate) const RULE: &str = "rule";
    /// Rules that must fire on the TSC, and that must not.
    pub(crate) const ON_FAST: (&[&str], &[&str]) = (
        &["software-emulation"],
        &["slow-clocksource", "rtc-missing", "rtc-off", "kvm-host-clock"],
    );
    /// Rules that must fire on a timer, and that must not.
    pub(crate) const ON_SLOW: (&[&str], &[&str]) = (
        &["software-emulation", "slow-clocksource", "kvm-host-clock"],
        &["rtc-missing", "rtc-off"],
    );
}

/// `parachron bench`.
pub(crate) mod bench {
    pub(crate) const COMMAND: &str = "echo tsc >$CLOCKSOURCE && \
        parachron bench --each-source --duration 1s --format json";
    /// Measures the frequency of this machine's TSC.
    pub(crate) const TSC: &[&str] =
        &["bench", "--only", "rdtsc", "--duration", "200ms", "--format", "json"];
    pub(crate) const TSC_HZ: &str = "/runs/0/tsc_rate/hz";
    pub(crate) const RUNS: &str = "runs";
    pub(crate) const CLOCKSOURCE: &str = "clocksource";
    pub(crate) const COSTS: &str = "costs";
    pub(crate) const CALL: &str = "call";
    /// Pointers from a cost.
    pub(crate) const CALLS: &str = "/path/calls";
    pub(crate) const ENTERED: &str = "/path/entered";
    pub(crate) const NS: [&str; 3] = ["/ns/median", "/ns/min", "/ns/p99"];
    pub(crate) const SAMPLES: &str = "samples";
    pub(crate) const ORDER: &str = "order";
    pub(crate) const READINGS: &str = "readings";
    pub(crate) const BACKWARD: &str = "backward";
    /// Pointers from a run.
    pub(crate) const RATE_HZ: &str = "/tsc_rate/hz";
    pub(crate) const RATE_BOUND_PPM: &str = "/tsc_rate/bound_ppm";
}

/// `parachron lab`.
pub(crate) mod lab {
    pub(crate) const AGREEMENT: &str = "parachron lab --only agreement --format json";
    pub(crate) const GUEST_IMAGE: &[&str] = &["lab", "guest-image", "--force"];
    pub(crate) const EXPERIMENTS: &str = "experiments";
    pub(crate) const CHECKS: &str = "checks";
    pub(crate) const NAME: &str = "name";
    pub(crate) const EXPECTED: &str = "expected";
    pub(crate) const FOUND: &str = "found";
    pub(crate) const VERDICT: &str = "verdict";
    pub(crate) const PASSED: &str = "passed";
    pub(crate) const NOT_MEASURED: &str = "not-measured";
}

/// The report of the lab's guest image (`crates/guest/src/report.rs`).
pub(crate) mod image {
    pub(crate) const FIRST: &str = "parachron guest report 1";
    pub(crate) const LAST: &str = "parachron guest report ends";
    pub(crate) const ABSENT: &str = "not there";
    /// Around the cycles of one reading.
    pub(crate) const CYCLES: (&str, &str) = (" ns, ", " cycles");
    pub(crate) const RTC: &str = "rtc";
}

/// `parachron watch`.
pub(crate) mod watch {
    pub(crate) const COMMAND: &str = "parachron watch --format json >$OUTPUT 2>/tmp/watch.err &";
    pub(crate) const EVENT: &str = "event";
    pub(crate) const STARTED: &str = "started";
    pub(crate) const DISRUPTION: &str = "disruption";
    pub(crate) const KIND: &str = "kind";
    pub(crate) const SIZE_NS: &str = "/size/ns";
    pub(crate) const EVIDENCE: &str = "evidence";
    pub(crate) const EVIDENCE_NAME: &str = "what";
    pub(crate) const PAUSE: &str = "pause";
    pub(crate) const MIGRATED: &str = "migrated";
    pub(crate) const SNAPSHOT_RESTORED: &str = "snapshot-restored";
    pub(crate) const SOURCE_SWITCHED: &str = "source-switched";
    pub(crate) const CLOCK_SET: &str = "clock-set";
    pub(crate) const STEERED: &str = "steered";
    pub(crate) const LEAP_SECOND: &str = "leap-second";
}

/// `parachron keep`.
pub(crate) mod keep {
    /// With the port of the NTP server after it.
    pub(crate) const COMMAND: &str = "parachron keep --format json --ntp 10.0.2.2:";
    /// For repeated attempts: the guest's clocks stop while it is paused, so
    /// the usual limits would be reached.
    pub(crate) const OFTEN: &str = "--burst 20 --min-interval 1s --poll 8s";
    pub(crate) const NEVER_BACKWARD: &str = "--never-backward";
    pub(crate) const DRY_RUN: &str = "--dry-run";
    pub(crate) const MAKESTEP: &str = "--chrony makestep";
    pub(crate) const BRIEFLY: &str = "--duration 2s";
    pub(crate) const EVENT: &str = "event";
    /// Events that state the clock's offset.
    pub(crate) const JUDGED: [&str; 3] = ["synchronised", "corrected", "refused"];
    /// Its first and last event.
    pub(crate) const FRAME: [&str; 2] = ["started", "summary"];
    pub(crate) const CORRECTED: &str = "corrected";
    pub(crate) const HOW: &str = "how";
    pub(crate) const STEP: &str = "step";
    pub(crate) const SLEW: &str = "slew";
    pub(crate) const BY_NS: &str = "by_ns";
    pub(crate) const SOURCE: &str = "source";
    pub(crate) const CAUSE: &str = "cause";
    /// In the message of a keep that refuses to start.
    pub(crate) const REFUSAL_NAMES: &str = "chronyd";
}
