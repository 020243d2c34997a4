//! The kernel's line held to that of the host's page ([`keeper::LineLoop`]), where the kernel's is
//! known: at samples that are taken anyway.

use std::time::Duration;

use keeper::{ClockError, LineLoop, SystemClock as _};
use linux::adjtimex::{self, KernelDiscipline};
use linux::counter::{Counter as _, CpuCounter};
use linux::kernel_line::KernelLineReader;
use linux::system_clock::SetError;

use super::{Daemon, monotonic_ns};
use crate::kept_clock::KeptClock;
use crate::other_daemons::FOR_A_CORRECTION;

/// The kernel's units of frequency, 2^-16 ppm, in a ppb.
const UNITS_PER_PPB: f64 = 65.536;

/// The loop, and when it looks next.
#[derive(Debug, Default)]
pub(super) struct LineFollower {
    /// Not opened yet; or the kernel's line is not known.
    reader: Option<Option<KernelLineReader>>,
    steering: LineLoop,
    /// 0: in this sample.
    due_ns: u64,
}

/// Sets the frequency by a look at both lines, if one is due.
pub(super) fn follow(daemon: &mut Daemon) {
    let now_ns = monotonic_ns();
    if now_ns < daemon.line.due_ns || daemon.clock.is_simulated() {
        return;
    }
    let Some(index) = daemon.keeper.followed_line(now_ns) else {
        return daemon.line.steering.note_move();
    };
    let next_ns = look(daemon, index, now_ns);
    daemon.line.due_ns = next_ns.map_or(0, |next_ns| now_ns + next_ns);
}

/// A look at both lines; time until the next, ns.
fn look(daemon: &mut Daemon, index: usize, now_ns: u64) -> Option<u64> {
    let reader = daemon.line.reader.get_or_insert_with(|| KernelLineReader::open().ok());
    let reader = reader.as_ref()?;
    let (page, found) = (daemon.sources[index].page()?, adjtimex::read().ok()?);
    let (line, counter) = (reader.read().ok()?, CpuCounter.read_ordered());
    let both = (&line, page);
    let steer = daemon.line.steering.look(both, counter, found.frequency, false).ok()?;
    if steer.step_ns.is_some() {
        // The keeper decides about that.
        daemon.line.steering.note_move();
        return None;
    }
    if daemon.was_set() || daemon.follow_others(FOR_A_CORRECTION) {
        return None;
    }
    if steer.catches_up && catch_up(&mut daemon.clock, &found).is_err() {
        return None;
    }
    let ppb = steer.frequency as f64 / UNITS_PER_PPB;
    if daemon.clock.set_frequency(ppb).is_ok() {
        daemon.keeper.note_line(now_ns, ppb);
        return Some(steer.next_ns);
    }
    daemon.keeper.lose_line();
    // Whoever steers it may have started just now.
    daemon.follow_others(Duration::ZERO);
    daemon.start_keeper(None);
    None
}

/// The kernel forgets what it has to catch up with, by a step of 0, and keeps its error.
fn catch_up(clock: &mut KeptClock, found: &KernelDiscipline) -> Result<(), SetError> {
    clock.step(0)?;
    let ns = |us: i64| u64::try_from(us).unwrap_or_default().saturating_mul(1000);
    let error =
        ClockError { max_ns: ns(found.max_error_us), estimated_ns: ns(found.estimated_error_us) };
    clock.restore_error(error)
}
