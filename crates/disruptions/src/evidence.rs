//! What a disruption is told from.

use schemars::JsonSchema;
use serde::Serialize;

use crate::LateCause;
use crate::steering::Move;

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Evidence {
    /// One clock moved against another by more than its rate.
    Step {
        /// The one.
        clock: String,
        /// The other.
        against: String,
        /// By how much, ns.
        step_ns: f64,
        /// The truth is within ± this, ns.
        bound_ns: f64,
    },
    /// From one look to the next the TSC and the clock source went different
    /// ways.
    CounterWent {
        /// How far the TSC went, at the rate it had, s.
        tsc_s: f64,
        /// How far CLOCK_MONOTONIC_RAW went, s.
        raw_s: f64,
        /// When the look was due, s after the one before.
        planned_s: f64,
    },
    /// The kvm-clock page tells another time than its last contents would.
    PageStep {
        /// By how much, ns.
        step_ns: i64,
        /// What the host's NTP may have gathered since the last update, ns.
        explained_ns: u64,
    },
    /// The kvm-clock page was written anew: its version went back.
    PageAnew,
    /// The kvm-clock page tells another frequency of the TSC.
    PageRate {
        /// Before, Hz.
        before_hz: u64,
        /// Since, Hz.
        after_hz: u64,
    },
    /// The host says in the kvm-clock page that it had stopped the guest
    /// (`GUEST_STOPPED`).
    GuestStopped,
    /// The TSC runs at another rate by CLOCK_MONOTONIC_RAW.
    Rate {
        /// Before, Hz.
        before_hz: f64,
        /// Since, Hz.
        after_hz: f64,
    },
    /// VMClock: the counter was disrupted (`disruption_marker`).
    VmClockMarker {
        /// Before.
        before: u64,
        /// Since.
        after: u64,
    },
    /// VMClock: this is a copy (`vm_generation_counter`).
    VmClockGeneration {
        /// Before; null where the host did not count before.
        before: Option<u64>,
        /// Since.
        after: u64,
    },
    /// The kernel tells programs of a new generation (`NEW_VMGENID=1`).
    NewGeneration,
    /// No look was taken for longer than planned.
    Unwatched {
        /// Time without a look, s.
        unwatched_s: f64,
        /// What of it was planned, s.
        planned_s: f64,
        /// Why, as far as it can be told.
        cause: LateCause,
    },
    /// The host gave a CPU to others.
    Stolen {
        /// Which CPU.
        cpu: u32,
        /// For how long, ns, in steps of 10 ms.
        stolen_ns: u64,
    },
    /// The RTC moved against CLOCK_BOOTTIME.
    Rtc {
        /// By how much, s.
        gained_s: f64,
        /// ±, s.
        bound_s: f64,
    },
    /// The kernel logged it.
    Log {
        /// The line.
        line: String,
    },
    /// The kernel told that the time of day was set.
    WasSet,
    /// adjtimex moved.
    Adjtimex(Move),
    /// The clock source was another.
    Source {
        /// Before.
        before: String,
        /// Since.
        after: String,
    },
}
