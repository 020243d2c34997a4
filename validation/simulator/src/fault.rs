//! What can happen to guests.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::quantity::{Factor, Offset, PerDay, Seconds};

/// The longest run, ns: 366 days.
const MOST_NS: i64 = 366 * 86_400_000_000_000;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The host stops the guest and lets it go on.
    Pause,
    /// A snapshot is taken, and restored on the same host.
    Restore,
    /// The same, twice: the second time later, from the same snapshot.
    RestoreTwice,
    /// To another host, whose TSC has another rate.
    Migrate,
    /// The host sleeps, and its TSC starts from 0.
    HostSleep,
    /// The host runs others; the guest's timer is owed ticks.
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

/// What becomes of ticks that were not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// They are dropped.
    #[default]
    Discard,
    /// They become one.
    Merge,
    /// All are given, faster.
    CatchUp,
}

/// A kind of fault, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// How often, at random: a mean.
    #[serde(default)]
    pub per_day: Option<PerDay>,
    /// Or once, at this time, s.
    #[serde(default)]
    pub at_s: Option<Seconds>,
    /// At up to so much later, evenly: a night in which all are moved.
    #[serde(default)]
    pub within_s: Seconds,
    /// How long, from and to, s: evenly in the logarithm.
    #[serde(default)]
    pub length_s: [Seconds; 2],
    /// What becomes of the time away.
    #[serde(default)]
    pub away: Absence,
    /// What becomes of ticks that were not given.
    #[serde(default)]
    pub missed: Missed,
    /// By how much: of an RTC, a server, or a clock that is set; a stolen slice, s.
    #[serde(default)]
    pub off_s: Offset,
    /// The frequency that the host says, by the right one.
    #[serde(default = "right")]
    pub factor: Factor,
    /// Which server lies.
    #[serde(default)]
    pub server: Option<u32>,
}

const fn right() -> Factor {
    Factor(1.0)
}

/// A fault with its time.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// When, ns since the start.
    #[serde(deserialize_with = "span_ns")]
    pub at_ns: i64,
    /// How long, ns.
    #[serde(deserialize_with = "span_ns")]
    pub length_ns: i64,
    /// What.
    pub kind: FaultKind,
    /// What becomes of the time away.
    #[serde(default)]
    pub away: Absence,
    /// What becomes of ticks that were not given.
    #[serde(default)]
    pub missed: Missed,
    /// By how much, s.
    #[serde(default)]
    pub off_s: Offset,
    /// The frequency that the host says, by the right one.
    #[serde(default = "right")]
    pub factor: Factor,
    /// Which server.
    #[serde(default)]
    pub server: u32,
}

/// A time of a run, which is up to a year.
fn span_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let ns = i64::deserialize(deserializer)?;
    if (0..=MOST_NS).contains(&ns) {
        Ok(ns)
    } else {
        Err(D::Error::custom(format!("{ns}: expected 0 to {MOST_NS} ns, which are 366 days")))
    }
}

impl FaultKind {
    /// The guest runs on: it happens to servers, or the way to them, or beside it.
    #[must_use]
    pub const fn is_elsewhere(self) -> bool {
        matches!(self, Self::ServerLies | Self::NetworkDown | Self::KeeperGone | Self::StealBurst)
    }
}
