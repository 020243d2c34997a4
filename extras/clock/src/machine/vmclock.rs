//! What the clock takes from the VMClock page, in which a host announces to
//! programs of its guests that the machine was restored or migrated, and
//! publishes the time.

use linux::vmclock::MappedVmClock;
use pvclock::vmclock::VmClockReader;

use crate::machine::kernel_clock::realtime_ns;
use crate::timeline::bound::VmClockBound;

/// Attempts to read the page: microseconds. The next round is soon.
const TRIES: u32 = 100;

/// The page's contents now.
pub(crate) fn read(device: &MappedVmClock) -> Option<VmClockBound> {
    let reader = device.reader().ok()?.with_tries(TRIES);
    let info = reader.info().ok()?;
    let identity = (info.disruption_marker, info.vm_generation);
    Some(VmClockBound { identity, error_ns: realtime_error_ns(&reader) })
}

/// How far CLOCK_REALTIME may be from the host's UTC.
fn realtime_error_ns(reader: &VmClockReader<'_>) -> Option<u64> {
    let before_ns = realtime_ns();
    let time = reader.time(&linux::counter::CpuCounter).ok()?;
    let after_ns = realtime_ns();
    let utc = time.utc().ok()?;
    let away = |realtime_ns: i64| realtime_ns.abs_diff(utc.since_1970_ns);
    Some(away(before_ns).max(away(after_ns)).saturating_add(utc.max_error.0))
}
