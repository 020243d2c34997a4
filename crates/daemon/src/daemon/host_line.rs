//! The kernel's line held to that of the host's page ([`keeper::LineLoop`]), where the kernel's is
//! known: at samples that are taken anyway.

use std::time::Duration;

use keeper::{ClockError, LineLoop, LineSteering};
use linux::adjtimex::{self, KernelDiscipline, UNITS_PER_PPB};
use linux::system_clock::SetError;
use pvclock::vmclock::VmClockInfo;
use pvclock::vvar::KernelLine;

use super::{Daemon, monotonic_ns};
use crate::kept_clock::KeptClock;
use crate::other_daemons::FOR_A_CORRECTION;

/// A sample may come so much before a look is due, ns: by the one after it, what was to be made up in
/// half a second would be made up twice.
const EARLY_NS: u64 = 100_000_000;

/// The loop, and when it looks next.
#[derive(Debug, Default)]
pub(super) struct LineFollower {
    steering: LineLoop,
    /// 0: in this sample.
    due_ns: u64,
}

/// Sets the frequency by a look at both lines, if one is due.
pub(super) fn follow(daemon: &mut Daemon) {
    if daemon.clock.is_simulated() {
        return;
    }
    let now_ns = monotonic_ns();
    // Also between two looks: what disturbed the clock may be over by the next.
    let followed = daemon.keeper.followed_line(now_ns);
    let mut vmclock = followed.and_then(|index| daemon.sources[index].vmclock());
    let page = vmclock.as_ref().and_then(|source| source.page());
    let is_seen = page.is_some_and(|page| daemon.line.steering.has_seen(&page));
    if is_seen && now_ns + EARLY_NS < daemon.line.due_ns {
        return;
    }
    if followed.is_none() {
        daemon.line.steering.note_move();
    }
    let lines = vmclock.as_mut().and_then(|source| source.lines());
    let next_ns = lines.and_then(|lines| look(daemon, lines, now_ns));
    daemon.line.due_ns = next_ns.map_or(0, |next_ns| now_ns + next_ns);
    if next_ns.is_none() {
        daemon.keeper.leave_line(now_ns);
    }
}

/// A look at both lines; time until the next, ns.
fn look(
    daemon: &mut Daemon,
    (page, line, counter): (VmClockInfo, KernelLine, u64),
    now_ns: u64,
) -> Option<u64> {
    let found = adjtimex::read().ok()?;
    let steer = daemon.line.steering.look((&line, page), counter, found.frequency).ok()?;
    let next_ns = steer_by(daemon, &steer, &found, now_ns);
    if next_ns.is_none() {
        daemon.line.steering.note_move();
    }
    next_ns
}

/// Carries out what a look wants; time until the next, ns.
fn steer_by(
    daemon: &mut Daemon,
    steer: &LineSteering,
    found: &KernelDiscipline,
    now_ns: u64,
) -> Option<u64> {
    let ppb = steer.frequency as f64 / UNITS_PER_PPB;
    // The keeper decides about steps.
    if steer.step_ns.is_some() || !daemon.keeper.allows_line(ppb) || daemon.was_set() {
        return None;
    }
    // Looking at every process every 4 s is too much where nothing but the frequency is set.
    let calm = daemon.others.in_calm();
    if daemon.follow_others(if steer.catches_up { FOR_A_CORRECTION } else { calm }) {
        return None;
    }
    if daemon.clock.set_frequency(ppb).is_err() {
        daemon.lose_frequency(Duration::ZERO);
        return None;
    }
    daemon.keeper.note_line(now_ns, ppb);
    // The changed frequency leaves the kernel something to catch up with too.
    if steer.catches_up {
        catch_up(&mut daemon.clock, found).ok()?;
    }
    Some(steer.next_ns)
}

/// The kernel forgets what it has to catch up with, by a step of 0, and keeps its error.
fn catch_up(clock: &mut KeptClock, found: &KernelDiscipline) -> Result<(), SetError> {
    clock.step(0)?;
    let ns = |us: i64| u64::try_from(us).unwrap_or_default().saturating_mul(1000);
    let error =
        ClockError { max_ns: ns(found.max_error_us), estimated_ns: ns(found.estimated_error_us) };
    clock.restore_error(error)
}
