//! Whether a clock ever goes backward from one vCPU to the next.

use core::sync::atomic::{AtomicU64, Ordering};

use pvclock::counter::Counter;

use crate::clocks::GuestClocks;
use crate::hardware::Hardware;
use crate::protocol::{SharedArea, Words};
use crate::request::RequestOutcome;
use crate::source::Source;

/// A CPU that owns the shared word's cache line keeps it from others for
/// thousands of reads, and then no reads interleave: after so many reads without
/// another CPU's it waits for one, but not for long, as the others may not be
/// running.
const ALONE: u32 = 16;
/// Each wait without success doubles that, up to so many.
const ALONE_MOST: u32 = 4096;
const WAITS: u32 = 64;

/// The order of the reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MonotonicOrder {
    /// Reads made.
    pub reads: u64,
    /// Reads below a time that another vCPU had published before.
    pub backward: u64,
    /// The largest such step, ns; of the TSC cycles.
    pub worst_ns: u64,
    /// Reads at which another vCPU had published since this one's last: without
    /// those the test means nothing.
    pub meetings: u64,
}

impl MonotonicOrder {
    /// As a reply's words.
    pub fn encode(&self) -> Words {
        [self.reads, self.backward, self.worst_ns, self.meetings, 0, 0]
    }

    /// Of this vCPU's reads and another's. A guest may reply anything: sums end
    /// at the largest number.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            backward: self.backward.saturating_add(other.backward),
            worst_ns: self.worst_ns.max(other.worst_ns),
            meetings: self.meetings.saturating_add(other.meetings),
        }
    }

    /// From a reply's words.
    pub fn decode(words: &Words) -> Self {
        let [reads, backward, worst_ns, meetings, ..] = *words;
        Self { reads, backward, worst_ns, meetings }
    }
}

/// Reads `reads` times once all `participants` are ready; what another vCPU
/// has published before a reading begins must not be above it. The TSC is read in
/// cycles, as RDTSC gives it: in ns each vCPU counts its own from another zero.
///
/// # Errors
/// Why the clock cannot be read.
pub fn run(
    hardware: &impl Hardware,
    shared: &SharedArea,
    clocks: &mut GuestClocks,
    source: Source,
    reads: u64,
    guard: Guard,
) -> Result<MonotonicOrder, RequestOutcome> {
    shared.ready.fetch_add(1, Ordering::AcqRel);
    while shared.ready.load(Ordering::Acquire) < guard.participants {
        hardware.pause();
    }
    let last = &shared.last_time_ns;
    let mut order = MonotonicOrder::default();
    let mut own = last.load(Ordering::Acquire);
    let (mut alone, mut alone_most) = (0, ALONE);
    for _ in 0..reads {
        if alone == alone_most {
            wait_for_another(hardware, last, own);
            (alone, alone_most) = (0, (alone_most * 2).min(ALONE_MOST));
        }
        let published = last.load(Ordering::Acquire);
        alone += 1;
        if published != own {
            (alone, alone_most) = (0, ALONE);
        }
        let mut time = match source {
            Source::Tsc => hardware.counter().read_ordered(),
            _ => clocks.read(hardware, source)?,
        };
        if guard.on {
            time = last.fetch_max(time, Ordering::AcqRel).max(time);
        }
        order.meetings += u64::from(published != own);
        if time < published {
            order.backward += 1;
            order.worst_ns = order.worst_ns.max(published - time);
        }
        own = last.fetch_max(time, Ordering::AcqRel).max(time);
    }
    order.reads = reads;
    Ok(order)
}

fn wait_for_another(hardware: &impl Hardware, last: &AtomicU64, own: u64) {
    for _ in 0..WAITS {
        if last.load(Ordering::Acquire) != own {
            return;
        }
        hardware.pause();
    }
}

/// The settings of the test.
#[derive(Debug, Clone, Copy)]
pub struct Guard {
    /// vCPUs that take part.
    pub participants: u64,
    /// Whether a reading returns at least the published time.
    pub on: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_any_size_are_added() {
        let [usual, hostile] =
            [MonotonicOrder::decode(&[5, 1, 30, 2, 0, 0]), MonotonicOrder::decode(&[u64::MAX; 6])];
        assert_eq!(usual.and(usual), MonotonicOrder::decode(&[10, 2, 30, 4, 0, 0]));
        assert_eq!(usual.and(hostile), MonotonicOrder::decode(&[u64::MAX; 6]));
    }
}
