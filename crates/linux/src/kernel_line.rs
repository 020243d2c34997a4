//! The line by which programs compute CLOCK_REALTIME, read from the kernel's page in this
//! process ([`pvclock::vvar`]), once it was compared with `clock_gettime`.
//!
//! # Invariants
//! 1. The page is `[vvar]`'s first, which holds the time of every kernel since 5.10: the vDSO
//!    reads it at each `clock_gettime`. It is mapped read-only, and that the kernel can read it
//!    here was tried by `pvclock_page::Copier`, for which a bad address is an error, not a signal.
//! 2. It stays as long as the process: the kernel unmaps it only when the process enters another
//!    time namespace, and nothing in Parachron does that or unmaps it.
//! 3. A clock of [`pvclock::vvar`] ends within the page: it begins at byte 128 at most.
#![allow(unsafe_code)]

use std::io;

use pvclock::counter::Counter as _;
use pvclock::shared;
use pvclock::vvar::{KernelLine, LineError, OFFSETS, VvarClock};

use crate::clock::LinuxClock;
use crate::counter::{self, CpuCounter};
use crate::pvclock_page::{self, Copier};

/// How often a layout is compared with the clocks, and how often it may differ: another process
/// may set the clock meanwhile.
const COMPARED: usize = 64;
const MAY_DIFFER: usize = 4;

/// By this the kernel's own rounding may differ between two lines, ns.
const ROUNDING_NS: i128 = 2;

/// The kernel's line, to be read at any time.
#[derive(Debug, Clone, Copy)]
pub struct KernelLineReader {
    clock: &'static VvarClock,
    has_max_cycles: bool,
}

impl KernelLineReader {
    /// Finds the page and its layout.
    ///
    /// # Errors
    /// `NotFound`: no such mapping. `Unsupported`: this thread may not read the counter, the
    /// clock source is another one, the process has a time namespace, or the kernel's layout is
    /// not known; whoever needs the line then reads the clock between two readings of the counter.
    pub fn open() -> io::Result<Self> {
        let unsupported = |why: &str| io::Error::new(io::ErrorKind::Unsupported, why);
        if !counter::is_readable() {
            return Err(unsupported("this thread may not read the CPU's counter"));
        }
        let start = pvclock_page::start()?;
        Copier::new()?.copy(start)?;
        for offset in OFFSETS {
            let address = std::ptr::with_exposed_provenance_mut(start + offset);
            // SAFETY: mapped, readable, for good and long enough (invariants 1 to 3).
            let clock = unsafe { shared::page_at(address) }.map_err(io::Error::other)?;
            for has_max_cycles in [true, false] {
                let reader = Self { clock, has_max_cycles };
                if reader.fits() {
                    return Ok(reader);
                }
            }
        }
        let why = "no known layout fits the clocks, or they do not count the CPU's counter";
        Err(unsupported(why))
    }

    /// The line as the kernel wrote it last.
    ///
    /// # Errors
    /// The clock source was changed to another counter since.
    pub fn read(&self) -> Result<KernelLine, LineError> {
        self.clock.line(self.has_max_cycles)
    }

    /// Whether it is what `clock_gettime` shows, of both clocks.
    fn fits(&self) -> bool {
        let differ = (0..COMPARED).filter(|_| !self.fits_now().unwrap_or(false)).count();
        differ <= MAY_DIFFER
    }

    fn fits_now(&self) -> Option<bool> {
        let clocks = || [LinuxClock::Realtime, LinuxClock::Monotonic].map(LinuxClock::read_ns);
        let before = clocks();
        let line = self.read().ok()?;
        let count = CpuCounter.read_ordered();
        let after = clocks();
        let shown = [line.realtime_ns(count).ok()?, line.monotonic_ns(count).ok()?];
        let within = |(shown, (before, after)): (i128, (Option<u64>, Option<u64>))| {
            let (before, after) = (before?.into(), after?.into());
            Some(
                (before..=after).contains(&(shown - ROUNDING_NS))
                    || (before..=after).contains(&(shown + ROUNDING_NS)),
            )
        };
        let mut all = shown.into_iter().zip(before.into_iter().zip(after));
        Some(all.all(|clock| within(clock).unwrap_or(false)))
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    fn reader() -> Option<KernelLineReader> {
        KernelLineReader::open().map_err(|why| crate::cpus::skipped(&why.to_string())).ok()
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter has no vDSO")]
    fn the_line_goes_on_where_the_kernel_rewrites_it() {
        let Some(reader) = reader() else { return };
        let started = Instant::now();
        let mut last = reader.read().unwrap();
        let (mut updates, mut largest_ns) = (0, 0);
        while started.elapsed() < Duration::from_millis(500) {
            let line = reader.read().unwrap();
            if line != last {
                let [old, new] = [last, line].map(|it| it.monotonic_ns(line.cycle_last).unwrap());
                (updates, largest_ns) = (updates + 1, (new - old).abs().max(largest_ns));
                last = line;
            }
            sleep(Duration::from_micros(200));
        }
        assert!(updates > 0);
        // The line's kinks are none of a whole ns, whoever steers the clock.
        assert!(largest_ns <= 1, "{largest_ns} ns in {updates} updates");
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter has no vDSO")]
    fn another_layout_does_not_fit() {
        let Some(reader) = reader() else { return };
        assert!(reader.fits());
        let other = KernelLineReader { has_max_cycles: !reader.has_max_cycles, ..reader };
        assert!(other.read().is_err() || !other.fits());
    }
}
