//! The time that host and guest share: real, or simulated and advanced only by
//! their actions.

use std::cell::Cell;

use host::HostClocks;
use pvclock::counter::{Counter, Tsc};
use pvclock::{Hertz, Nanos, Ticks};
use units::UnixTime;
use vmm::host_clock;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A TSC and the host's clocks.
pub(crate) trait Time: Counter {
    /// The host's clocks now.
    fn reading(&self) -> HostClocks;
    /// Lets half of an exit pass.
    fn half_an_exit(&self);
}

/// The CPU's TSC and Linux's clocks.
#[derive(Debug)]
pub(crate) struct Real;

impl Counter for Real {
    #[inline(always)]
    fn read(&self) -> u64 {
        Tsc.read()
    }

    #[inline(always)]
    fn read_ordered(&self) -> u64 {
        Tsc.read_ordered()
    }
}

impl Time for Real {
    fn reading(&self) -> HostClocks {
        host_clock::read()
    }

    fn half_an_exit(&self) {}
}

/// A time that advances by 25 cycles a reading and by 4 µs an exit.
#[derive(Debug)]
pub(crate) struct Simulated {
    tsc: Cell<u64>,
    rate: Hertz,
}

/// As RDTSC takes on current CPUs.
const READ_CYCLES: u64 = 25;
/// As KVM takes to user space and back.
const EXIT: Nanos = Nanos(4_000);
/// CLOCK_REALTIME at the start: shortly after 2026-01-01.
const EPOCH_NS: u64 = 1_767_225_600_123_456_789;

impl Simulated {
    pub(crate) const fn new(rate: Hertz) -> Self {
        Self { tsc: Cell::new(1_000_000_000), rate }
    }

    /// Advances by `span`.
    pub(crate) fn pass(&self, span: Nanos) {
        let cycles = u128::from(span.0) * u128::from(self.rate.0) / NANOS_PER_SECOND;
        self.tsc.set(self.tsc.get() + cycles as u64);
    }

    /// The host's CLOCK_BOOTTIME at a TSC.
    pub(crate) fn boot(&self, tsc: u64) -> Nanos {
        Nanos((u128::from(tsc) * NANOS_PER_SECOND / u128::from(self.rate.0)) as u64)
    }
}

impl Counter for Simulated {
    fn read(&self) -> u64 {
        self.tsc.set(self.tsc.get() + READ_CYCLES);
        self.tsc.get()
    }

    fn read_ordered(&self) -> u64 {
        self.read()
    }
}

impl Time for Simulated {
    fn reading(&self) -> HostClocks {
        let tsc = self.tsc.get();
        let boot = self.boot(tsc);
        HostClocks::new(Ticks(tsc), boot, UnixTime(Nanos(EPOCH_NS + boot.0)))
    }

    fn half_an_exit(&self) {
        self.pass(Nanos(EXIT.0 / 2));
    }
}
