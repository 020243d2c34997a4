//! The readings of the system for a round of maintenance.
//!
//! # Invariants of the unsafe code
//! 1. `__errno_location` is the address of this thread's errno, an `int` that
//!    lives as long as the thread; nothing keeps a reference to it.
#![allow(unsafe_code)]

use std::path::Path;

use linux::counter::CLOCKSOURCES;
use linux::reread::Reread;
use linux::vmclock::MappedVmClock;

use crate::machine::clockbound::PublishedBound;
use crate::machine::counter;
use crate::machine::kernel_clock::{monotonic_ns, realtime_ns};
use crate::machine::vmclock;
use crate::timeline::bound::TimexBound;
use crate::timeline::maintenance::MaintenanceReading;
use crate::timeline::realtime::RealtimeSample;
use crate::timeline::sample::TimelineSample;
use crate::timeline::steering::Distrust;

/// Where the kernel names the clock source that it counts.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How often that is read, ns.
const TRUST_NS: u64 = 10_000_000_000;
/// How often adjtimex is called, ns: it takes a microsecond or two, and its
/// error changes when a daemon has polled its servers.
const TIMEX_NS: u64 = 250_000_000;
/// Samples at most, and at least.
const SAMPLES: (usize, usize) = (8, 3);
/// A sample wider than this, some 2 to 10 µs, means that the thread was
/// interrupted, or that the system's clock reads a slow device.
const TOO_WIDE_CYCLES: u64 = 10_000;

/// How to read the system, and what need not be read each time.
#[derive(Debug)]
pub(crate) struct SystemClocks {
    vmclock_path: &'static str,
    vmclock: Option<Option<MappedVmClock>>,
    clockbound: PublishedBound,
    distrust: Option<Distrust>,
    trust_until_ns: u64,
    timex_until_ns: u64,
}

impl SystemClocks {
    pub(crate) const fn new(vmclock_path: &'static str, clockbound_path: &'static str) -> Self {
        Self {
            vmclock_path,
            vmclock: None,
            clockbound: PublishedBound::at_path(clockbound_path),
            distrust: None,
            trust_until_ns: 0,
            timex_until_ns: 0,
        }
    }

    /// Reads everything. Nothing is allocated, and errno is preserved: a signal
    /// handler may read the time, and so maintain the clock.
    pub(crate) fn read(&mut self) -> MaintenanceReading {
        // SAFETY: invariant 1.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: invariant 1.
        let was = unsafe { *errno };
        let reading = self.read_all();
        // SAFETY: invariant 1.
        unsafe { *errno = was };
        reading
    }

    fn read_all(&mut self) -> MaintenanceReading {
        let now_ns = monotonic_ns();
        if now_ns >= self.trust_until_ns {
            self.distrust = distrust();
            self.trust_until_ns = now_ns.saturating_add(TRUST_NS);
        }
        let timex = (now_ns >= self.timex_until_ns).then(timex).flatten();
        if timex.is_some() {
            self.timex_until_ns = now_ns.saturating_add(TIMEX_NS);
        }
        let path = self.vmclock_path;
        let device = self.vmclock.get_or_insert_with(|| MappedVmClock::open(path.as_ref()).ok());
        MaintenanceReading {
            now_ns,
            sample: if self.distrust.is_none() { sample() } else { None },
            realtime: realtime(),
            timex,
            vmclock: device.as_ref().and_then(vmclock::read),
            segment: self.clockbound.read(now_ns),
            distrust: self.distrust,
            now_tsc: counter::read_ordered(),
        }
    }
}

/// The narrowest of some samples.
fn sample() -> Option<TimelineSample> {
    let mut best: Option<TimelineSample> = None;
    for count in 1..=SAMPLES.0 {
        let before = counter::read_ordered();
        let ns = monotonic_ns();
        let sample = TimelineSample { before, ns, after: counter::read_ordered() };
        if best.is_none_or(|best| sample.width() < best.width()) {
            best = Some(sample);
        }
        if count >= SAMPLES.1 && best.is_some_and(|best| best.width() <= TOO_WIDE_CYCLES) {
            return best;
        }
    }
    None
}

fn realtime() -> RealtimeSample {
    let read = || RealtimeSample {
        before_ns: monotonic_ns(),
        realtime_ns: realtime_ns(),
        after_ns: monotonic_ns(),
    };
    (0..SAMPLES.1)
        .map(|_| read())
        .min_by_key(|sample| sample.after_ns - sample.before_ns)
        .unwrap_or_else(read)
}

fn timex() -> Option<TimexBound> {
    let discipline = linux::adjtimex::read().ok()?;
    let micros = u64::try_from(discipline.max_error_us).ok()?;
    Some(TimexBound {
        max_error_ns: micros.saturating_mul(1_000),
        synchronised: discipline.is_synchronised(),
    })
}

/// Why the TSC must not be used, by CPU, process and kernel.
fn distrust() -> Option<Distrust> {
    let clocksource = || {
        let mut text = [0; 64];
        let file = Reread::open(Path::new(CLOCKSOURCE));
        let length = file.and_then(|file| file.read(&mut text)).unwrap_or(0);
        (!is_tsc_based(&text[..length])).then_some(Distrust::Clocksource)
    };
    counter::distrust().or_else(clocksource)
}

fn is_tsc_based(clocksource: &[u8]) -> bool {
    str::from_utf8(clocksource).is_ok_and(|name| CLOCKSOURCES.contains(&name.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_the_cpus_counter_by_some_names() {
        for name in CLOCKSOURCES {
            assert!(is_tsc_based(name.as_bytes()));
            assert!(is_tsc_based(format!("{name}\n").as_bytes()));
        }
        for other in [&b"hpet\n"[..], b"acpi_pm\n", b"tsc-early\n", b"", b"\xff"] {
            assert!(!is_tsc_based(other), "{other:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "adjtimex, prctl and RDTSC are not for an interpreter")]
    fn a_reading_is_of_one_moment() {
        let before = monotonic_ns();
        let reading = SystemClocks::new("/nonexistent/vmclock", "/nonexistent/shm0").read();
        let after = monotonic_ns();
        assert!(before <= reading.now_ns && reading.realtime.after_ns <= after);
        assert!(reading.realtime.before_ns <= reading.realtime.after_ns);
        assert_eq!((reading.vmclock, reading.segment), (None, None));
        if let Some(sample) = reading.sample {
            assert!(before <= sample.ns && sample.ns <= after);
            assert!(sample.width() <= TOO_WIDE_CYCLES);
        }
    }
}
