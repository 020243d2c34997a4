//! What shows a disruption.

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;

use crate::LateCause;
use crate::steering::Move;

/// One observation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, IntoStaticStr)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Evidence {
    /// One clock stepped against another: it moved by more than its rate.
    Step {
        /// The clock that stepped.
        clock: String,
        /// The clock it is compared with.
        against: String,
        /// By how much, ns.
        step_ns: f64,
        /// The true value is within ± this, ns.
        bound_ns: f64,
    },
    /// The TSC and the clock source advanced differently between two samples.
    ClocksDiverged {
        /// The advance of the TSC, at the rate it had, s.
        tsc_s: f64,
        /// The advance of CLOCK_MONOTONIC_RAW, s.
        raw_s: f64,
        /// The planned time between the two samples, s.
        planned_s: f64,
    },
    /// The kvm-clock page shows another time than its last contents would.
    PageStep {
        /// By how much, ns.
        step_ns: i64,
        /// The most that the host's NTP corrects in the time since the last
        /// update, ns.
        explained_ns: u64,
    },
    /// The kvm-clock page was reinitialised: its version went back.
    PageReset,
    /// The kvm-clock page states another TSC frequency.
    PageRate {
        /// Before, Hz.
        before_hz: u64,
        /// Since, Hz.
        after_hz: u64,
    },
    /// The host set `GUEST_STOPPED` in the kvm-clock page: it had paused the
    /// guest.
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
    /// VMClock: this machine is a copy (`vm_generation_counter`).
    VmClockGeneration {
        /// Before; null where the host did not count before.
        before: Option<u64>,
        /// Since.
        after: u64,
    },
    /// The kernel announced a new generation (`NEW_VMGENID=1`).
    NewGeneration,
    /// A sample was late.
    Late {
        /// Time since the last sample, s.
        gap_s: f64,
        /// What of it was planned, s.
        planned_s: f64,
        /// Why, as far as it is known.
        cause: LateCause,
    },
    /// The host stole time from a CPU.
    Stolen {
        /// Which CPU.
        cpu: u32,
        /// How much since the last sample, ns, in steps of 10 ms.
        stolen_ns: u64,
    },
    /// The RTC stepped against CLOCK_BOOTTIME.
    Rtc {
        /// By how much, s.
        gained_s: f64,
        /// ±, s.
        bound_s: f64,
    },
    /// A line of the kernel's log.
    Log {
        /// The line.
        line: String,
    },
    /// The kernel reported that the time of day was set.
    WasSet,
    /// The kernel's clock discipline changed.
    Adjtimex {
        /// What changed.
        change: Move,
    },
    /// The kernel switched to another clock source.
    Clocksource {
        /// Before.
        before: String,
        /// Since.
        after: String,
    },
}
