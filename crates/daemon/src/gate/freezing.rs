//! How the gate freezes and thaws: never anything that nobody would thaw after a kill.

use std::io;
use std::path::Path;
use std::time::Instant;

use keeper::event::KeeperEvent;
use keeper::{GateCause, GateOpening};

use super::control_groups::{is_asked_to_freeze, set_frozen};
use super::frozen_list::{self, thaw_listed};
use super::watcher::GateWatcher;
use super::{ClockGate, PROGRAM};

impl ClockGate {
    pub(super) fn freeze(&mut self, cause: GateCause, events: &mut Vec<KeeperEvent>) {
        self.closed = Some(Instant::now());
        let dry_run = self.is_dry_run();
        let groups = if dry_run {
            self.tree.find(&self.entries).len()
        } else {
            self.freeze_groups(events);
            self.frozen.len()
        };
        if self.is_closed() {
            events.push(KeeperEvent::GateClosed { cause, groups, dry_run });
        }
    }

    /// The list, then the watcher, then the groups: a kill between two of them leaves
    /// nothing frozen that nobody thaws.
    pub(super) fn freeze_groups(&mut self, events: &mut Vec<KeeperEvent>) {
        self.trouble = None;
        let mut groups = self.frozen.clone();
        for group in self.tree.find(&self.entries) {
            match is_asked_to_freeze(&group) {
                Ok(Some(false)) if !groups.contains(&group) => groups.push(group),
                // Ours; or frozen by an administrator, and not ours to thaw; or gone.
                Ok(_) => {}
                Err(why) => self.fail(format!("cannot freeze {}: {why}", group.display()), events),
            }
        }
        if let Err(why) = frozen_list::write(&self.list, &groups) {
            let why = format!("{}: {why}; nothing is frozen", self.list.display());
            return self.fail(why, events);
        }
        self.renew(events);
        if self.watcher.is_none() {
            return;
        }
        let before = std::mem::take(&mut self.frozen);
        for group in groups {
            let done = set_frozen(&group, true);
            if let Err(why) = &done {
                self.fail(format!("cannot freeze {}: {why}", group.display()), events);
            }
            // One that was removed a moment ago is left out.
            if done.unwrap_or_else(|_| before.contains(&group)) {
                self.frozen.push(group);
            }
        }
    }

    pub(super) fn thaw(&mut self, why: GateOpening, events: &mut Vec<KeeperEvent>) {
        let left = self.thaw_groups().err().map(|why| why.to_string());
        if let Some(why) = &left {
            self.fail(why.clone(), events);
        }
        let held = self.closed.take().map(|closed| closed.elapsed()).unwrap_or_default();
        let held_ns = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        if why == GateOpening::Limit {
            let why = "opened after the limit: the clock was not right";
            let before = self.trouble.take().map_or(String::new(), |before| before + "; ");
            self.trouble = Some(before + why);
        }
        let reply = match (left, why) {
            (Some(left), _) => format!("error: {left}"),
            (None, GateOpening::Right { error_ns }) => {
                let (held_ms, error_us) = (held_ns as f64 / 1e6, error_ns as f64 / 1e3);
                format!("open: after {held_ms:.1} ms, the clock is off by {error_us:.1} us at most")
            }
            (None, GateOpening::Limit | GateOpening::Forced) => {
                "error: open, but the clock is not known to be right".into()
            }
            (None, GateOpening::Ended) => "error: open, as the daemon ends".into(),
        };
        if let Some(socket) = &mut self.socket {
            socket.report_opening(&reply);
        }
        events.push(KeeperEvent::GateOpened { why, held_ns, dry_run: self.is_dry_run() });
    }

    /// What cannot be thawed stays listed, for the next look and for the watcher.
    pub(super) fn thaw_groups(&mut self) -> io::Result<()> {
        if self.is_dry_run() {
            return Ok(());
        }
        let mut failed = Ok(());
        self.frozen.retain(|group| match set_frozen(group, false) {
            Ok(_) => false,
            Err(why) => {
                let why = format!("cannot thaw {}: {why}", group.display());
                failed = Err(io::Error::other(why));
                true
            }
        });
        failed?;
        let listed = thaw_listed(&self.tree, &self.list);
        listed.map_err(|why| io::Error::other(format!("{}: {why}", self.list.display())))?;
        if let Some(watcher) = &mut self.watcher {
            watcher.open();
        }
        Ok(())
    }

    pub(super) fn open_by_force(&mut self, events: &mut Vec<KeeperEvent>) {
        self.gate.open_by_force();
        if self.closed.is_some() {
            self.thaw(GateOpening::Forced, events);
        }
    }

    pub(super) fn renew(&mut self, events: &mut Vec<KeeperEvent>) {
        self.keep_watched(events);
        if let Some(watcher) = &mut self.watcher
            && watcher.hold().is_err()
        {
            // It ended since: another one begins.
            self.watcher = None;
            self.keep_watched(events);
        }
    }

    /// Nothing is frozen without a watcher.
    pub(super) fn keep_watched(&mut self, events: &mut Vec<KeeperEvent>) {
        if self.is_dry_run() || self.watcher.as_mut().is_some_and(GateWatcher::is_alive) {
            return;
        }
        let started = GateWatcher::start(Path::new(PROGRAM), &self.list, self.limit);
        match started.and_then(|mut watcher| watcher.hold().map(|()| watcher)) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(why) => {
                self.watcher = None;
                self.fail(format!("no process can watch the gate: {why}; it stays open"), events);
                self.open_by_force(events);
            }
        }
    }
}
