//! The gate: a workload that is frozen from before a snapshot, or from the first notice of
//! a restore, until the clock is right. [`keeper::Gate`] decides; this freezes and thaws.
//!
//! | killed | thawed by |
//! | --- | --- |
//! | this daemon | its watcher, whose pipe ends |
//! | the watcher | this daemon, which starts another one at its next look |
//! | both at once | `ExecStopPost=` of the unit (`parachrond --thaw`); the next start; `parachron gate thaw --force` |
//!
//! The service manager alone survives a SIGKILL of every process of the unit, so it has the
//! last word. For all of them what is frozen stands in a file before it is frozen.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use facts::Sample;
use keeper::event::{KeeperEvent, NotUsed};
use keeper::{Gate, GateAction, GateOpening, KeptBound, Policy};
use pvclock::kvm_clock::Flags;

use crate::error::DaemonError;
use crate::settings::Settings;
use crate::status::{GateState, GateStatus};

pub(crate) mod control_groups;
mod freezing;
mod frozen_list;
pub mod socket;
mod watcher;

pub use control_groups::{GateEntry, GateRefusal, GroupTree, give_right, is_frozen};
pub use frozen_list::thaw_listed;
pub use watcher::{WATCHER_OPTION, watch};

use control_groups::wait_until_frozen;
use socket::{GateRequest, GateSocket};
use watcher::GateWatcher;

/// How often the daemon looks while the gate is closed.
pub(crate) const CLOSED_LOOK: Duration = Duration::from_millis(10);

/// How often a client of the status has the groups searched for.
pub const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// What `parachron gate freeze` waits for processes to stop.
const FREEZE_LIMIT: Duration = Duration::from_secs(1);

/// This program, also where its file was replaced since.
const PROGRAM: &str = "/proc/self/exe";

/// The file with what is frozen, beside the gate's socket.
pub fn list_file(socket: &Path) -> PathBuf {
    socket.with_extension("frozen")
}

/// The lists of daemons that are gone: beside this socket, and beside the default one.
pub fn left_lists(socket: &Path) -> Vec<PathBuf> {
    let usual = Path::new(socket::PATH);
    let sockets = std::iter::once(socket).chain((socket != usual).then_some(usual));
    let left = sockets.filter(|socket| list_file(socket).exists() && !socket::is_served(socket));
    left.map(list_file).collect()
}

/// What was seen at the last sample.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Marks {
    marker: Option<u64>,
    is_stopped: bool,
}

/// The gate of this daemon.
#[derive(Debug)]
pub(crate) struct ClockGate {
    gate: Gate,
    limit: Duration,
    bound_ns: u64,
    entries: Vec<GateEntry>,
    tree: GroupTree,
    /// Those that it may freeze, when they were last searched for in the whole tree.
    groups: Vec<PathBuf>,
    searched: Instant,
    list: PathBuf,
    watcher: Option<GateWatcher>,
    frozen: Vec<PathBuf>,
    closed: Option<Instant>,
    marks: Marks,
    /// None in a dry run, which freezes nothing and reports what it would freeze.
    pub(crate) socket: Option<GateSocket>,
    /// Why it did not do what it is configured for, the last time.
    trouble: Option<String>,
}

impl ClockGate {
    /// Whether it could be what the settings want.
    ///
    /// # Errors
    /// An entry would freeze this daemon or the service manager.
    pub(crate) fn check(settings: &Settings) -> Result<(), DaemonError> {
        if !settings.gate.entries.is_empty()
            && let Ok(tree) = GroupTree::of_this_process()
        {
            settings.gate.entries.iter().try_for_each(|entry| tree.check(entry))?;
        }
        Ok(())
    }

    /// The gate that the settings want: none without cgroup v2, which is reported.
    pub(crate) fn new(settings: &Settings, not_used: &mut Vec<NotUsed>) -> Option<Self> {
        let is_wanted = !settings.gate.entries.is_empty();
        let mut refuse = |why: io::Error| {
            not_used.push(NotUsed { source: "gate".into(), why: why.to_string() });
        };
        if settings.dry_run {
            let tree = is_wanted.then(GroupTree::of_this_process)?;
            return tree.map_err(refuse).ok().map(|tree| Self::new_dry(settings, tree));
        }
        // A daemon with other settings may have been killed. Its own list is thawed below.
        let own = is_wanted.then(|| list_file(&settings.gate.socket));
        for list in left_lists(&settings.gate.socket) {
            if own.as_ref() == Some(&list) {
                continue;
            }
            GroupTree::of_this_process()
                .and_then(|tree| thaw_listed(&tree, &list))
                .map_or_else(&mut refuse, drop);
        }
        is_wanted.then(|| Self::open(settings).map_err(refuse).ok()).flatten()
    }

    fn open(settings: &Settings) -> io::Result<Self> {
        let gate = &settings.gate;
        let tree = GroupTree::of_this_process()?;
        let list = list_file(&gate.socket);
        // The socket first: only one daemon has it, and thaws what another left.
        let socket = GateSocket::bind(&gate.socket)?;
        thaw_listed(&tree, &list)?;
        let watcher = GateWatcher::start(Path::new(PROGRAM), &list, gate.limit)?;
        let mut gate = Self::new_dry(settings, tree);
        (gate.watcher, gate.socket) = (Some(watcher), Some(socket));
        Ok(gate)
    }

    /// One that freezes nothing: no socket serves it, and no process watches it.
    fn new_dry(settings: &Settings, tree: GroupTree) -> Self {
        let gate = &settings.gate;
        let in_ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            gate: Gate::new(in_ns(gate.bound), in_ns(gate.limit)),
            limit: gate.limit,
            bound_ns: in_ns(gate.bound),
            entries: gate.entries.clone(),
            groups: tree.find_writable(&gate.entries),
            searched: Instant::now(),
            tree,
            list: list_file(&gate.socket),
            watcher: None,
            frozen: Vec::new(),
            closed: None,
            marks: Marks::default(),
            socket: None,
            trouble: None,
        }
    }

    fn is_dry_run(&self) -> bool {
        self.socket.is_none()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    pub(crate) fn bound_ns(&self) -> u64 {
        self.bound_ns
    }

    /// A frozen program sees no step, and a slew of what it waits for would take minutes: while
    /// it is closed, offsets beyond half of the bound are stepped.
    pub(crate) fn limits_ns(&self, policy: &Policy) -> (u64, u64) {
        let most_ns = if self.is_closed() { self.bound_ns / 2 } else { u64::MAX };
        (policy.step_threshold_ns.min(most_ns), policy.tolerance_ns.min(most_ns))
    }

    /// Searches for its groups again, once a second at most: a client may ask at any rate.
    pub(crate) fn refresh_groups(&mut self) {
        if self.searched.elapsed() >= SEARCH_EVERY {
            (self.groups, self.searched) = (self.tree.find_writable(&self.entries), Instant::now());
        }
    }

    pub(crate) fn status(&self) -> GateStatus {
        let state = if self.gate.is_overdue() {
            GateState::Overdue
        } else if self.gate.is_closed() {
            GateState::Closed
        } else {
            GateState::Open
        };
        let shown = |path: &PathBuf| path.display().to_string();
        GateStatus {
            state,
            bound_ns: self.bound_ns,
            groups: self.groups.iter().map(shown).collect(),
            frozen: self.frozen.len(),
            trouble: self.trouble.clone(),
        }
    }

    /// Closes it where a sample shows a restore that the keeper has yet to classify.
    pub(crate) fn note_sample(&mut self, sample: &Sample, events: &mut Vec<KeeperEvent>) {
        let page = sample.page.value();
        let marks = Marks {
            marker: sample.vmclock.value().map(|page| page.disruption_marker),
            is_stopped: page.is_some_and(|page| page.flags.contains(Flags::GUEST_STOPPED)),
        };
        let before = std::mem::replace(&mut self.marks, marks);
        let is_moved = before.marker.zip(marks.marker).is_some_and(|(before, now)| before != now);
        let is_copy = sample.new_generation.value().is_some_and(|is_new| *is_new);
        if is_moved || is_copy || (marks.is_stopped && !before.is_stopped) {
            let action = self.gate.disrupt(sample.monotonic_ns);
            self.carry_out(action, events);
        }
    }

    /// Follows what the keeper knows of the clock; whether all sources are to be measured.
    pub(crate) fn follow(
        &mut self,
        known: KeptBound,
        now_ns: u64,
        events: &mut Vec<KeeperEvent>,
    ) -> bool {
        if self.closed.is_some() && !self.frozen.is_empty() && !self.list.exists() {
            // The watcher counts real time, and a look of ours may take that of many.
            self.fail("the watcher, or `gate thaw --force`, thawed the groups".into(), events);
            self.open_by_force(events);
        }
        let action = self.gate.follow(now_ns, known);
        let measures = action.is_some_and(|action| self.carry_out(action, events));
        if self.closed.is_some() {
            self.keep_watched(events);
        } else if !self.frozen.is_empty() {
            // Logged when it failed first.
            let _ = self.thaw_groups();
        }
        measures
    }

    /// Serves one client of the socket; whether all sources are to be measured.
    pub(crate) fn serve(&mut self, now_ns: u64, events: &mut Vec<KeeperEvent>) -> bool {
        let request = self.socket.as_mut().and_then(GateSocket::take_request);
        let Some((request, client)) = request else { return false };
        match request {
            GateRequest::Freeze => {
                let begun = Instant::now();
                match self.gate.request_freeze(now_ns) {
                    // What could not be frozen, and groups that came since.
                    GateAction::Renew => self.freeze_groups(events),
                    action => _ = self.carry_out(action, events),
                }
                let reply = self.freeze_reply(begun);
                socket::reply(client, &reply);
                false
            }
            GateRequest::Thaw if self.is_closed() => {
                if let Some(socket) = &mut self.socket {
                    socket.await_opening(client);
                }
                let action = self.gate.request_thaw(now_ns);
                action.is_some_and(|action| self.carry_out(action, events))
            }
            GateRequest::Thaw => {
                socket::reply(client, "open: nothing was frozen");
                false
            }
        }
    }

    fn freeze_reply(&self, begun: Instant) -> String {
        let left = wait_until_frozen(&self.frozen, FREEZE_LIMIT);
        match (left.first(), self.frozen.len(), &self.trouble) {
            (Some(group), ..) => format!(
                "error: processes of {} did not freeze within {FREEZE_LIMIT:?}",
                group.display()
            ),
            (None, 0, Some(why)) => format!("error: nothing was frozen: {why}"),
            (None, 0, None) => "error: none of the control groups could be frozen".into(),
            (None, groups, Some(why)) => format!("error: {why}; frozen: {groups}"),
            (None, groups, None) => {
                format!("closed: {groups} frozen in {:.1?}", begun.elapsed())
            }
        }
    }

    /// Thaws what is frozen, whatever the clock is.
    pub(crate) fn end(&mut self, events: &mut Vec<KeeperEvent>) {
        if self.closed.is_some() || !self.frozen.is_empty() {
            self.thaw(GateOpening::Ended, events);
        }
    }

    fn carry_out(&mut self, action: GateAction, events: &mut Vec<KeeperEvent>) -> bool {
        match action {
            GateAction::Close(cause) => self.freeze(cause, events),
            GateAction::Open(why) => self.thaw(why, events),
            GateAction::Renew | GateAction::Measure => self.renew(events),
        }
        action == GateAction::Measure
    }

    fn fail(&mut self, why: String, events: &mut Vec<KeeperEvent>) {
        self.trouble = Some(why.clone());
        events.push(KeeperEvent::GateFailed { why });
    }
}

impl Drop for ClockGate {
    fn drop(&mut self) {
        self.end(&mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use facts::Fact;
    use facts::hardware::VmClock;
    use keeper::GateCause;
    use pvclock::kvm_clock::TimeInfo;

    use super::*;

    /// Makes a program that lives as a watcher does, until its pipe ends, whatever its arguments
    /// are. A shell writes it: a file that this process has open for writing cannot be executed.
    const MAKE_WATCHER: &str =
        "printf '#!/bin/sh\\nexec cat >/dev/null\\n' >\"$0\" && chmod 755 \"$0\"";

    const LIMIT: Duration = Duration::from_secs(60);

    /// An open gate without control groups.
    fn open_gate(folder: &Path) -> ClockGate {
        let (program, list) = (folder.join("watcher"), folder.join("gate.frozen"));
        let made = Command::new("sh").args(["-c", MAKE_WATCHER]).arg(&program).status();
        assert!(made.unwrap().success());
        ClockGate {
            gate: Gate::new(1_000_000, LIMIT.as_nanos() as u64),
            limit: LIMIT,
            bound_ns: 1_000_000,
            entries: Vec::new(),
            tree: GroupTree::new(folder, ""),
            groups: Vec::new(),
            searched: Instant::now(),
            watcher: Some(GateWatcher::start(&program, &list, LIMIT).unwrap()),
            list,
            frozen: Vec::new(),
            closed: None,
            marks: Marks::default(),
            socket: Some(GateSocket::bind(&folder.join("gate.sock")).unwrap()),
            trouble: None,
        }
    }

    fn sample(disruption_marker: u64, flags: Flags, is_copy: bool) -> Sample {
        let device = String::new();
        let vmclock = VmClock { device, disruption_marker, vm_generation: None, clock_status: 0 };
        Sample {
            vmclock: Fact::Known(vmclock),
            page: Fact::Known(TimeInfo { flags, ..TimeInfo::default() }),
            new_generation: Fact::Known(is_copy),
            ..Sample::new(1)
        }
    }

    #[test]
    fn a_change_of_the_marker_the_generation_or_the_stopped_flag_closes_it_once() {
        let (runs, stopped) = (Flags::default(), Flags::GUEST_STOPPED);
        let calm = || sample(7, runs, false);
        let changes = [
            ("VMClock marker", sample(8, runs, false), sample(8, runs, false)),
            ("VM generation", sample(7, runs, true), calm()),
            ("GUEST_STOPPED", sample(7, stopped, false), sample(7, stopped, false)),
        ];
        for (what, change, unchanged) in changes {
            let folder = tempfile::tempdir().unwrap();
            let (mut gate, mut events) = (open_gate(folder.path()), Vec::new());
            // A page that is shown for the first time is no change.
            for before in [Sample::new(1), calm(), calm()] {
                gate.note_sample(&before, &mut events);
                assert!(!gate.is_closed() && events.is_empty(), "{what}: {events:?}");
            }
            gate.note_sample(&change, &mut events);
            assert!(gate.is_closed(), "{what}");
            let (cause, groups) = (GateCause::Disrupted, 0);
            let closed = KeeperEvent::GateClosed { cause, groups, dry_run: false };
            assert_eq!(events, [closed], "{what}");
            gate.open_by_force(&mut events);
            gate.note_sample(&unchanged, &mut events);
            assert!(!gate.is_closed(), "{what}: it is as it was at the sample before");
        }
    }

    /// It reports what it would freeze, and when it would thaw that.
    #[test]
    fn a_dry_run_freezes_nothing_and_reports_when_it_would() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("work.slice");
        std::fs::create_dir(&group).unwrap();
        std::fs::write(group.join("cgroup.freeze"), "0\n").unwrap();
        let mut settings = Settings { dry_run: true, ..Settings::default() };
        settings.gate.entries = vec!["work.slice".parse().unwrap()];
        settings.gate.socket = folder.path().join("gate.sock");
        let mut gate = ClockGate::new_dry(&settings, GroupTree::new(folder.path(), ""));
        let mut events = Vec::new();
        gate.note_sample(&sample(7, Flags::default(), true), &mut events);
        let offset =
            pvclock::units::OffsetBound { offset_ns: 0, bound_ns: 1000, at_monotonic_ns: 2 };
        let known =
            KeptBound::Within { offset, growth_ppb: 0, frequency_ppb: 0, is_free_running: false };
        gate.follow(known, 3, &mut events);
        let [
            KeeperEvent::GateClosed { cause: GateCause::Disrupted, groups: 1, dry_run: true },
            KeeperEvent::GateOpened { why: GateOpening::Right { .. }, dry_run: true, .. },
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(std::fs::read_to_string(group.join("cgroup.freeze")).unwrap(), "0\n");
        assert!(!settings.gate.socket.exists() && !gate.list.exists());
    }
}
