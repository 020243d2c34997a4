//! A daemon's status, as its socket serves it and `parachron status` shows it.

use std::collections::{BTreeMap, VecDeque};

use facts::steering::TimeKeeper;
use keeper::event::{KeeperEvent, KeeperSummary, Line};
use keeper::{
    KeeperClockState, KeeperView, KeptBound, RtcView, SLEW_PPM, SourceKind, SourceState, SourceView,
};
use pvclock::units::OffsetBound;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::{self, EventDescription};

/// What a daemon knows now. Offsets are what to add to the clock, ns: positive
/// where the clock is behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatus {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Corrections are reported and not made.
    pub dry_run: bool,
    /// By how much a dry run would have moved the clock so far, ns. Offsets are those of the real
    /// clock, which stays as it is.
    #[serde(default)]
    pub would_have_moved_ns: i64,
    /// The time of day, ns since 1970.
    pub at_unix_ns: Option<u64>,
    /// How long it has run, s, by CLOCK_MONOTONIC.
    pub running_s: f64,
    /// The clock.
    pub clock: ClockReport,
    /// The sources, the best kind first.
    pub sources: Vec<SourceStatus>,
    /// Another daemon that disciplines the clock, and its systemd unit where that is
    /// known: only steps are made beside it.
    #[serde(default)]
    pub beside: Option<TimeKeeper>,
    /// Why chronyd did not carry out the last command, or did not accept the last sample;
    /// null while it does, or where it is sent none.
    #[serde(default)]
    pub chronyd_error: Option<String>,
    /// The gate; null where none is configured.
    #[serde(default)]
    pub gate: Option<GateStatus>,
    /// What would be done now.
    pub next: NextStatus,
    /// What happened and what was done about it, the last at the end.
    pub recent: VecDeque<Recent>,
    /// How often what happened and was done, since it was started.
    #[serde(default)]
    pub counts: KeeperSummary,
    /// How long ago the last disruption of each kind was reported, s: what is counted
    /// shows nothing new to who was away meanwhile, as the machine was.
    #[serde(default)]
    pub disrupted_age_s: BTreeMap<String, f64>,
}

/// The clock, as the daemon and the kernel have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockReport {
    /// Its state.
    pub state: KeeperClockState,
    /// The selected source.
    pub selected: Option<String>,
    /// The offset that the sources which agree have together, ns.
    pub offset_ns: Option<i64>,
    /// The error of that is at most this, now, ns; null while nothing bounds it.
    pub bound_ns: Option<u64>,
    /// What the kernel reports to every program; null where it cannot be asked.
    pub kernel: Option<KernelStatus>,
}

impl ClockReport {
    /// As the keeper has it; these are its sources. In a dry run the keeper's clock is ahead of
    /// the real one, which the report is of. A clock that may be off by more than `limit_ns` is
    /// not synchronised, whatever the keeper has made of it.
    pub fn new(
        view: &KeeperView,
        sources: &[SourceStatus],
        kernel: Option<KernelStatus>,
        ahead_ns: i64,
        limit_ns: u64,
        now_ns: u64,
    ) -> Self {
        let (selected, together) = view.selected.unzip();
        // What is published, where a bound is; else what the sources show.
        let known = match view.known {
            KeptBound::Within { offset, .. } => {
                let error_ns = view.known.error_ns(now_ns).unwrap_or(u64::MAX);
                let bound_ns = error_ns.saturating_sub(offset.offset_ns.unsigned_abs());
                // A dry run's slews since that measurement are in `ahead_ns` already.
                let age_ns = now_ns.saturating_sub(offset.at_monotonic_ns);
                let slewed_ns = if ahead_ns == 0 { 0 } else { age_ns * SLEW_PPM / 1_000_000 };
                Some((offset.offset_ns, Some(bound_ns.saturating_add(slewed_ns))))
            }
            KeptBound::Unknown | KeptBound::Disrupted => {
                together.map(|offset| (offset.offset_ns, None))
            }
        };
        let mut report = Self {
            state: view.clock,
            selected: selected.and_then(|index| Some(sources.get(index)?.name.clone())),
            offset_ns: known.map(|(offset_ns, _)| offset_ns.saturating_add(ahead_ns)),
            bound_ns: known.and_then(|(_, bound_ns)| bound_ns),
            kernel,
        };
        if report.error_ns().is_none_or(|error_ns| error_ns > limit_ns) {
            report.state = KeeperClockState::Unsynchronised;
        }
        report
    }

    /// Whether the sources show now that the clock is off by this at most.
    pub fn is_right_within(&self, bound_ns: u128) -> bool {
        self.state == KeeperClockState::Synchronised
            && self.error_ns().is_some_and(|error_ns| u128::from(error_ns) <= bound_ns)
    }

    /// How far the clock may be off, ns; `None` where no source shows it.
    pub fn error_ns(&self) -> Option<u64> {
        let (offset_ns, bound_ns) = self.offset_ns.zip(self.bound_ns)?;
        Some(offset_ns.unsigned_abs().saturating_add(bound_ns))
    }
}

/// The kernel's view (`man 2 adjtimex`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelStatus {
    /// Neither TIME_ERROR nor STA_UNSYNC.
    pub synchronised: bool,
    /// The largest error, ns.
    pub max_error_ns: i64,
    /// The estimated error, ns.
    pub estimated_error_ns: i64,
    /// The frequency correction, ppm.
    pub frequency_ppm: f64,
}

/// The gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateStatus {
    /// Its state.
    pub state: GateState,
    /// It opens once the clock is off by this at most, ns.
    pub bound_ns: u64,
    /// The control groups that it may freeze, of those that existed when it was last asked.
    pub groups: Vec<String>,
    /// How many it has frozen.
    #[serde(default)]
    pub frozen: usize,
    /// Why it did not do what it is configured for, the last time.
    pub trouble: Option<String>,
}

/// The states of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// The workload runs.
    Open,
    /// It is frozen.
    Closed,
    /// It runs, though the clock was not right when the limit had passed.
    Overdue,
}

/// A source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: SourceKind,
    /// What it is used for.
    pub state: SourceState,
    /// Its last offset that counts, ns; of the RTC how long the machine was
    /// away.
    pub offset_ns: Option<i64>,
    /// The error of that is at most this, now, ns.
    pub bound_ns: Option<u64>,
    /// How long ago it was measured, s.
    pub age_s: Option<f64>,
    /// Why it is unreachable.
    pub why: Option<String>,
    /// Of the RTC: by how much it is off, and whether it has stopped.
    #[serde(default)]
    pub rtc: Option<RtcView>,
}

impl SourceStatus {
    /// As the keeper has it now, by CLOCK_MONOTONIC; its clock is ahead of the real one by this
    /// in a dry run.
    pub fn new(
        name: &str,
        kind: SourceKind,
        view: &SourceView,
        now_ns: u64,
        ahead_ns: i64,
    ) -> Self {
        // The RTC's is how long the machine was away.
        let ahead_ns = if kind == SourceKind::Rtc { 0 } else { ahead_ns };
        let age_ns = |offset: OffsetBound| now_ns.saturating_sub(offset.at_monotonic_ns);
        Self {
            name: name.to_owned(),
            kind,
            state: view.state,
            offset_ns: view.offset.map(|offset| offset.offset_ns.saturating_add(ahead_ns)),
            bound_ns: view.bound_ns,
            age_s: view.offset.map(|offset| age_ns(offset) as f64 / 1e9),
            why: None,
            rtc: view.rtc,
        }
    }
}

/// What would be done with the clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextStatus {
    /// What.
    pub action: NextAction,
    /// The offset that it would correct, or does not, ns.
    pub by_ns: Option<i64>,
    /// Why nothing would be done about it.
    pub why: Option<String>,
}

/// The kinds of what would be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NextAction {
    /// The clock is right, or what is left is chronyd's to slew.
    Nothing,
    /// No offset counts: sources are waited for.
    Wait,
    /// A step.
    Step,
    /// A slew.
    Slew,
    /// Nothing but the slew in progress: `by_ns` is what is left of it.
    Slewing,
    /// chronyd is sent `makestep`.
    Makestep,
    /// The clock is off, and is not corrected.
    Refuse,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recent {
    /// When, ns since 1970, by the clock as it was set then.
    pub at_unix_ns: Option<u64>,
    /// What, as the log has it: `disruption`, `step`, `refused`.
    pub event: String,
    /// The rest of the line.
    pub message: String,
}

/// So many lines are kept.
const MOST_RECENT: usize = 12;

/// The last disruptions and corrections.
#[derive(Debug, Default)]
pub(crate) struct Recents {
    lines: VecDeque<Recent>,
    /// When the last disruption of each kind was reported, CLOCK_MONOTONIC, ns.
    disrupted_ns: BTreeMap<String, u64>,
}

impl Recents {
    /// Keeps what happened to the clock, or was done to it or not.
    pub(crate) fn note(&mut self, line: &Line, now_ns: u64) {
        if let KeeperEvent::Disruption(disruption) = &line.event {
            self.disrupted_ns.insert(disruption.kinds.to_string(), now_ns);
        }
        let EventDescription { kind: event, is_of_the_clock, message, .. } =
            words::describe(&line.event);
        if !is_of_the_clock {
            return;
        }
        // What is repeated each minute would displace the rest.
        let lines = &mut self.lines;
        if lines.back().is_some_and(|last| last.event == event && event == "refused") {
            lines.pop_back();
        } else if lines.len() == MOST_RECENT {
            lines.pop_front();
        }
        let message = message.join("; ");
        lines.push_back(Recent { at_unix_ns: line.at_unix_ns, event, message });
    }

    pub(crate) fn lines(&self) -> VecDeque<Recent> {
        self.lines.clone()
    }

    pub(crate) fn disrupted_age_s(&self, now_ns: u64) -> BTreeMap<String, f64> {
        let age_s = |at_ns: &u64| now_ns.saturating_sub(*at_ns) as f64 / 1e9;
        self.disrupted_ns.iter().map(|(kind, at_ns)| (kind.clone(), age_s(at_ns))).collect()
    }
}

#[cfg(test)]
mod tests {
    use keeper::Refusal;
    use keeper::event::Basis;

    use super::*;

    mod called_right;

    #[test]
    fn what_is_refused_each_minute_leaves_room_for_what_happened() {
        let mut recents = Recents::default();
        let line = |event| Line { at_unix_ns: None, at_monotonic_ns: 0, event };
        let mut note = |event| recents.note(&line(event), 0);
        note(KeeperEvent::HostResumed);
        let basis = Basis {
            by_ns: 5,
            bound_ns: 1,
            source: "ntp a".into(),
            agreeing: 1,
            of_sources: 2,
            cause: None,
        };
        for _ in 0..100 {
            note(KeeperEvent::Refused { basis: basis.clone(), why: Refusal::Contradiction });
            note(KeeperEvent::SourceReachable { source: "ntp a".into() });
        }
        let events =
            |of: &Recents| of.lines.iter().map(|one| one.event.clone()).collect::<Vec<_>>();
        assert_eq!(events(&recents), ["host", "refused"]);
        for _ in 0..100 {
            recents.note(&line(KeeperEvent::HostResumed), 0);
        }
        assert_eq!(events(&recents), ["host"; MOST_RECENT]);
    }
}
