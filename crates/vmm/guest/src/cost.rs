//! The cost of a reading, in cycles, against the bare TSC in the same run.

use core::hint::black_box;

use pvclock::counter::Counter;
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::TimeReader;

use crate::discovery::HV_COUNTER;
use crate::hardware::Hardware;
use crate::request::RequestOutcome;
use crate::source::Source;
use crate::{clocks::GuestClocks, hpet, pm_timer};

/// One round: the cycles that `reads` of the bare TSC took, and of `source`.
///
/// # Errors
/// The guest has no such clock, or it cannot be read repeatedly.
pub fn round(
    hardware: &impl Hardware,
    clocks: &GuestClocks,
    vcpu: usize,
    source: Source,
    reads: u64,
) -> Result<(u64, u64), RequestOutcome> {
    let counter = hardware.counter();
    let bare = timed(hardware, reads, || counter.read());
    let found = clocks.discovery();
    let pages = hardware.pages();
    let cycles = match source {
        Source::Tsc => {
            let scale = clocks.tsc_scale().ok_or(RequestOutcome::NoSuchClock)?;
            timed(hardware, reads, || scale.nanos(counter.read()))
        }
        Source::KvmClock if found.has(source) => {
            let reader = TimeReader::new(&pages.vcpus[vcpu].time);
            timed(hardware, reads, || reader.nanos(counter))
        }
        Source::HyperVPage if found.has(source) => {
            let reader = ReferenceReader::new(&pages.reference);
            timed(hardware, reads, || reader.units_100ns(counter))
        }
        Source::HyperVCounter if found.has(source) => {
            timed(hardware, reads, || hardware.read_msr(HV_COUNTER))
        }
        Source::AcpiPm if found.has(source) => timed(hardware, reads, || pm_timer::read(hardware)),
        Source::Hpet if found.has(source) => timed(hardware, reads, || hpet::read(hardware)),
        // One second a reading is not its cost, but its resolution.
        _ => return Err(RequestOutcome::NoSuchClock),
    };
    Ok((bare, cycles))
}

/// Kept out of line, so that every clock's loop is laid out alike.
#[inline(never)]
fn timed<T>(hardware: &impl Hardware, reads: u64, mut read: impl FnMut() -> T) -> u64 {
    let start = hardware.counter().read_ordered();
    for _ in 0..reads {
        black_box(read());
    }
    hardware.counter().read_ordered().wrapping_sub(start)
}
