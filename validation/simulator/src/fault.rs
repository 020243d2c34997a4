//! What can happen to guests.

use serde::Deserialize;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The host stops the guest and lets it go on.
    Pause,
    /// A snapshot is taken, and restored on the same host.
    Restore,
    /// To another host, whose TSC has another rate.
    Migrate,
    /// The host sleeps, and its TSC starts from 0.
    HostSleep,
    /// The host runs others, and counts that as stolen.
    Steal,
    /// For so long the guest has half of its CPU, in slices of `off_s`: the host runs
    /// others in between, and what waits for the guest waits for that.
    StealBurst,
    /// The guest boots, by an RTC that is off.
    WrongRtc,
    /// The host says another TSC frequency than the TSC has.
    WrongFrequency,
    /// The host's TSC starts from 0, and nobody says so.
    CounterReset,
    /// A server lies.
    ServerLies,
    /// No server can be reached.
    NetworkDown,
    /// Another program sets the clock.
    ClockSet,
    /// What corrects the clock does not run.
    KeeperGone,
}

/// What becomes of the time that a guest was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Absence {
    /// The clock goes on by real time.
    Advance,
    /// It stands, as KVM's does with QEMU.
    #[default]
    Freeze,
}

/// A kind of fault, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// How often, at random: a mean.
    #[serde(default)]
    pub per_day: Option<f64>,
    /// Or once, at this time, s.
    #[serde(default)]
    pub at_s: Option<f64>,
    /// At up to so much later, evenly: a night in which all are moved.
    #[serde(default)]
    pub within_s: f64,
    /// How long, from and to, s: evenly in the logarithm.
    #[serde(default)]
    pub length_s: [f64; 2],
    /// What becomes of the time away.
    #[serde(default)]
    pub away: Absence,
    /// By how much: of an RTC, a server, or a clock that is set; a stolen slice, s.
    #[serde(default)]
    pub off_s: f64,
    /// The frequency that the host says, by the right one.
    #[serde(default = "right")]
    pub factor: f64,
    /// Which server lies.
    #[serde(default)]
    pub server: u32,
}

const fn right() -> f64 {
    1.0
}

/// A fault with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    /// When, ns since the start.
    pub at_ns: i64,
    /// How long, ns.
    pub length_ns: i64,
    /// What, and with which figures.
    pub fault: Fault,
}

impl FaultKind {
    /// The guest runs on: it happens to servers, or the way to them, or beside it.
    #[must_use]
    pub const fn is_elsewhere(self) -> bool {
        matches!(self, Self::ServerLies | Self::NetworkDown | Self::KeeperGone | Self::StealBurst)
    }
}
