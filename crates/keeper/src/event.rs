//! What a keeper's driver reports: the types that its log, its socket and its
//! status share. An event serialises to the line of `parachron keep --format
//! json`.

use std::collections::BTreeMap;

use disruptions::{Disruption, Stamped};
use facts::steering::TimeKeeperKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::{Correction, CorrectionCause, Refusal};
use crate::gate::{GateCause, GateOpening};
use crate::policy::Policy;

/// One line: an event and its time.
pub type Line = Stamped<KeeperEvent>;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum KeeperEvent {
    /// The daemon started: the first line.
    Started(Box<KeeperStart>),
    /// Something happened to this machine's clock.
    Disruption(Disruption),
    /// The host reported on its socket that it resumed the machine.
    HostResumed,
    /// A message on the host's socket was rejected.
    HostMessageRejected {
        /// Why.
        why: String,
    },
    /// A source does not reply, or not with a usable time.
    SourceUnreachable {
        /// Its name.
        source: String,
        /// Why.
        why: String,
    },
    /// A source replies again.
    SourceReachable {
        /// Its name.
        source: String,
    },
    /// The clock was corrected.
    Corrected(Corrected),
    /// A correction failed.
    Failed {
        /// The kind of correction.
        how: CorrectionMethod,
        /// The correction, ns.
        by_ns: i64,
        /// Why it failed.
        why: String,
    },
    /// A correction was cancelled: another process set the clock while the
    /// sources were polled. All sources are polled again.
    Cancelled {
        /// The kind of correction.
        how: CorrectionMethod,
        /// The correction, ns.
        by_ns: i64,
    },
    /// The clock is off, and is not corrected.
    Refused {
        /// The correction that was not made.
        #[serde(flatten)]
        basis: Basis,
        /// Why not.
        why: Refusal,
    },
    /// Another time daemon disciplines the clock from now on, or none does:
    /// beside one only steps are made.
    DaemonBeside {
        /// That daemon.
        daemon: Option<TimeKeeperKind>,
        /// Its systemd unit, where that is known.
        unit: Option<String>,
    },
    /// Another daemon had left the kernel a tick of another length than 10 ms: a slew that
    /// it did not finish, or a rate that it held by it. It is 10 ms again.
    TickReset {
        /// What was found, us.
        tick_us: i64,
        /// The frequency that was set in its place, ppm; 0 where the kernel's frequency
        /// cannot hold so much.
        frequency_ppm: f64,
    },
    /// The learnt frequency could not be read or stored.
    FrequencyFile {
        /// The file, and why.
        why: String,
    },
    /// The kernel was told of a leap second at the end of this UTC day, as most of
    /// the sources announce one; or of none any more.
    LeapSecond {
        /// By what the day's last minute is longer, s: 1, −1 or 0.
        by_s: i8,
        /// The kernel was not told.
        dry_run: bool,
    },
    /// This machine's counter runs at another rate than it claims, beyond what an
    /// oscillator can be off by: its host says a wrong frequency, or changed it.
    WrongRate {
        /// What the clock would have to gain by its frequency, ppm: more than the kernel
        /// holds by that, so it is stepped on.
        ppm: f64,
    },
    /// The clock is right: once after each start, disruption and step.
    Synchronised(Basis),
    /// The gate closed: the workload is frozen until the clock is right.
    GateClosed {
        /// Why.
        cause: GateCause,
        /// How many control groups were frozen.
        groups: usize,
        /// They were counted and not frozen.
        dry_run: bool,
    },
    /// The gate opened: the workload is thawed.
    GateOpened {
        /// Why.
        why: GateOpening,
        /// How long it was closed, ns.
        held_ns: u64,
        /// Nothing had been frozen.
        dry_run: bool,
    },
    /// The gate did not do what it is configured for.
    GateFailed {
        /// Why.
        why: String,
    },
    /// The configuration was read again, and is in force.
    Reloaded(Box<KeeperStart>),
    /// The configuration was read again, and cannot be used: the one before
    /// stays in force.
    ReloadRefused {
        /// Why not.
        why: String,
    },
    /// The daemon ended: the last line.
    Summary(KeeperSummary),
}

/// What runs, and how.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KeeperStart {
    /// This program's version.
    pub version: String,
    /// Corrections are reported and not made.
    pub dry_run: bool,
    /// The interval of samples, s.
    pub interval_s: f64,
    /// The settings.
    pub policy: Policy,
    /// The sources, the best kind first.
    pub sources: Vec<String>,
    /// Those of the sources that spread leap seconds over hours.
    pub smearing: Vec<Smearing>,
    /// Sources that were probed for and are not used.
    pub not_used: Vec<NotUsed>,
    /// Other daemons that run and may set the clock.
    pub other_daemons: Vec<TimeKeeperKind>,
    /// The systemd units of those, where they are known.
    pub other_units: Vec<String>,
}

/// A source that is up to half a second off UTC around a leap second, which it
/// spreads over hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Smearing {
    /// Its name.
    pub source: String,
    /// Whether it certainly does; if not, it may.
    pub is_certain: bool,
}

/// A source that is not used.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NotUsed {
    /// Its name.
    pub source: String,
    /// Why not.
    pub why: String,
}

/// The ways to correct a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectionMethod {
    /// At once.
    Step,
    /// Gradually, by 500 µs a second.
    Slew,
    /// chronyd was sent `makestep`.
    Makestep,
}

/// A correction, and what it is based on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Basis {
    /// What to add to the clock, ns: positive where it is behind.
    pub by_ns: i64,
    /// The error of that is at most this, ns.
    pub bound_ns: u64,
    /// The selected source.
    pub source: String,
    /// How many sources agree, itself included.
    pub agreeing: usize,
    /// Of how many with an offset.
    pub of_sources: usize,
    /// What made the clock wrong; null for drift.
    pub cause: Option<CorrectionCause>,
}

impl Basis {
    /// Of a correction, with the name of its source.
    pub fn new(correction: &Correction, source: &str) -> Self {
        Self {
            by_ns: correction.by_ns,
            bound_ns: correction.bound_ns,
            source: source.to_owned(),
            agreeing: correction.agreeing.0,
            of_sources: correction.agreeing.1,
            cause: correction.cause,
        }
    }
}

/// A correction that was made.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Corrected {
    /// The kind of correction.
    pub how: CorrectionMethod,
    /// It was reported and not made: a dry run.
    pub dry_run: bool,
    /// The time of day just before, ns since 1970.
    pub before_unix_ns: Option<u64>,
    /// The time of day just after, ns since 1970.
    pub after_unix_ns: Option<u64>,
    /// By how much, and why.
    #[serde(flatten)]
    pub basis: Basis,
}

/// What was done in all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct KeeperSummary {
    /// How long it ran, s, by CLOCK_MONOTONIC.
    pub ran_s: f64,
    /// Samples taken.
    pub samples: u64,
    /// How often each kind of disruption was reported, or each set of kinds
    /// that fitted: `pause`, `snapshot-restored|migrated`.
    pub disruptions: BTreeMap<String, u64>,
    /// Requests to sources.
    pub requests: u64,
    /// Usable replies.
    pub replies: u64,
    /// Steps made.
    pub steps: u64,
    /// Slews begun.
    pub slews: u64,
    /// `makestep` commands that chronyd carried out.
    pub makesteps: u64,
    /// Samples that chronyd was fed.
    pub fed_chronyd: u64,
    /// Corrections that failed.
    pub failed: u64,
    /// Refusals reported.
    pub refused: u64,
    /// The largest step made, ns.
    pub largest_step_ns: u64,
}
