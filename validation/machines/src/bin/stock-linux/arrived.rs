//! A saved machine restored: the clocks and timers of its guest from then on.

use std::thread;
use std::time::{Duration, Instant};

use host::{HostClocks, RestorePolicy};
use pvclock::Hertz;
use vmm::{Machine, SavedMachine};

use crate::boot::{LOOK, with_log};
use crate::host_line::{HostLine, PlacedReading, signed};
use crate::report::{FiredTimer, Line, TIMERS, find};

/// How long the guest may take until each of its timers has fired again.
const LIMIT: Duration = Duration::from_secs(60);
/// Words of the kernel's log after which something was wrong with its clocks.
const COMPLAINTS: [&str; 5] = ["unstable", "lockup", "stall", "timekeeping watchdog", "Oops"];

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arrival {
    /// The host's clocks when it was saved, when the restore began, and from when on
    /// its clocks go on.
    pub(crate) taken: ArrivalHost,
    pub(crate) began: ArrivalHost,
    pub(crate) since: ArrivalHost,
    /// What the restore promises, ns.
    pub(crate) bound_ns: u64,
    /// The guest's clocks at its first line since.
    pub(crate) stamps: Vec<PlacedReading>,
    /// The timers that fired since, the first of each clock.
    pub(crate) fired: Vec<FiredTimer>,
    /// Lines of the kernel's log.
    pub(crate) complaints: Vec<String>,
}

/// Of the host's clocks, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArrivalHost {
    pub(crate) boot_ns: u64,
    pub(crate) real_ns: u64,
}

impl ArrivalHost {
    fn from_clocks(clocks: HostClocks) -> Self {
        Self { boot_ns: clocks.boot.0, real_ns: clocks.real.0.0 }
    }
}

/// Restores it by a policy, as if the saving host's TSC had another rate, and returns what
/// the guest shows then, or why it was refused. Its clocks were read before the save.
pub(crate) fn arrive(
    before: &[PlacedReading],
    saved: &SavedMachine,
    policy: RestorePolicy,
    told_ppm: i32,
) -> Result<Arrival, String> {
    let mut line = HostLine::default();
    let rate = vmm::kvm::host_tsc().map_err(|error| error.to_string())?;
    let mut saved = saved.clone();
    if told_ppm != 0 {
        let change = (rate.0 as f64 * f64::from(told_ppm) / 1e6).round() as i64;
        // In whole kHz, as KVM is told.
        saved = saved.told_rate(Hertz(rate.0.saturating_add_signed(change) / 1_000 * 1_000));
    }
    line.read();
    let (machine, clock) = Machine::restore(&saved, policy).map_err(|error| error.to_string())?;
    let (taken, since) =
        (ArrivalHost::from_clocks(saved.host_clocks()), ArrivalHost::from_clocks(clock.since));
    let tsc_offset = machine.tsc_offset(0).map_err(|error| error.to_string())?;
    let (mut serial, started) = (String::new(), Instant::now());
    loop {
        thread::sleep(LOOK);
        serial.push_str(&String::from_utf8_lossy(&machine.serial()));
        line.read();
        // What was in the port when it was saved is of before.
        let ticks = find(&serial).into_iter().filter_map(|found| {
            let Line::Tick(mut tick) = found else { return None };
            let placed = line.place_all(&tick, tsc_offset)?;
            tick.fired.retain(|timer| has_fired_since(taken.boot_ns, timer, before));
            placed.iter().all(|read| read.boot_ns >= since.boot_ns).then_some((placed, tick))
        });
        let ticks: Vec<_> = ticks.collect();
        let all: Vec<_> = ticks.iter().flat_map(|(_, tick)| &tick.fired).collect();
        let first = |clock: &str| all.iter().find(|timer| timer.clock == clock).copied().cloned();
        let fired: Vec<_> = TIMERS.iter().filter_map(|clock| first(clock.name())).collect();
        // Twice each: what is armed again after the restore fires too.
        let count = all.len();
        let all_fired = fired.len() == TIMERS.len() && count >= 2 * TIMERS.len();
        if all_fired {
            return Ok(Arrival {
                taken,
                began: ArrivalHost::from_clocks(clock.began),
                since,
                bound_ns: clock.bound.0,
                stamps: ticks[0].0.clone(),
                fired,
                complaints: complaints(&serial),
            });
        }
        let fault = machine.guest_fault().map(|fault| format!("the guest ended: {fault}"));
        if started.elapsed() > LIMIT || fault.is_some() {
            let why = fault.unwrap_or_else(|| format!("{count} timers fired in {LIMIT:?}"));
            return Err(with_log(&why, &serial));
        }
    }
}

/// What fired before the save may be reported by a tick since. Until then the host's clock shows what
/// the guest's was: `boot_ns` is when it was saved.
fn has_fired_since(boot_ns: u64, timer: &FiredTimer, before: &[PlacedReading]) -> bool {
    let read = before.iter().find(|read| read.clock == timer.clock);
    read.is_some_and(|read| signed(timer.at_ns, read.ns) > signed(boot_ns, read.boot_ns))
}

fn complaints(serial: &str) -> Vec<String> {
    let lines = serial.lines().filter(|line| COMPLAINTS.iter().any(|word| line.contains(word)));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fired_before_the_save_is_not_of_the_restore() {
        let (clock, bound_ns, ahead_ns) = ("CLOCK_BOOTTIME".to_owned(), 0.0, 0.0);
        // Read 100 ns before the save, which was at 5000 of its clock.
        let read =
            PlacedReading { clock: clock.clone(), ns: 4_900, boot_ns: 700, bound_ns, ahead_ns };
        let fired = |at_ns| FiredTimer { clock: clock.clone(), due_ns: 0, at_ns };
        assert!(has_fired_since(800, &fired(5_001), std::slice::from_ref(&read)));
        assert!(!has_fired_since(800, &fired(4_999), &[read]));
        assert!(!has_fired_since(800, &fired(5_001), &[]));
    }
}
