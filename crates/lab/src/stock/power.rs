//! A kernel that boots the next one by kexec, and one that suspends: what a guest does to
//! its provider's pages by itself.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::host_line::{HostLine, signed};
use super::seen::StockReading;
use crate::initramfs;

/// Asks the first kernel for the second one.
pub(super) const KEXEC: &str = "--kexec";
/// What the second kernel is told in place of the wish for it.
const AGAIN: &str = "--again";
const INITRD: &str = "/tmp/initrd";
/// How long the kernel's test of hibernation stands (kernel/power/hibernate.c,
/// hibernation_debug_sleep).
const STANDS_NS: f64 = 5e9;
/// Its 5,000 delays of 1 ms may each end late, where others have the CPU for half of the time.
const STANDS_AT_MOST_NS: f64 = 2.0 * STANDS_NS;
/// What the kernel does between the readings of the clock that goes on and the stop and
/// start of its own, emulated, ns. Seen: 0.6 to 0.9 ms, of Linux 7.3 on an emulated host.
const STEPS_NS: f64 = 20e6;

/// Boots the kernel of the initramfs, with this program and the modules in another.
/// Does not return where that can be done.
pub(super) fn boot_again(modules: &[Vec<u8>]) -> io::Result<()> {
    let kernel = File::open(Path::new("/").join(initramfs::KERNEL))?;
    let mut archive = initramfs::archive(&fs::read("/proc/self/exe")?)?;
    initramfs::append(&mut archive, &initramfs::modules(modules)?);
    File::create_new(INITRD)?.write_all(&archive)?;
    // The kernel makes copies of both.
    drop(archive);
    let parameters = CString::new(second(&fs::read_to_string("/proc/cmdline")?))?;
    linux::kexec::boot(&kernel, &File::open(INITRD)?, &parameters)
}

fn second(parameters: &str) -> String {
    let words = parameters.split_whitespace();
    words.map(|word| if word == KEXEC { AGAIN } else { word }).collect::<Vec<_>>().join(" ")
}

/// All of hibernation but its image: devices, other CPUs and the clocks are stopped, and
/// started again some seconds later (Linux: Documentation/power/basic-pm-debugging.rst).
/// There is no sleep state of ACPI's.
pub(super) fn suspend() -> io::Result<()> {
    fs::write("/sys/power/pm_test", "core")?;
    fs::write("/sys/power/state", "disk")
}

/// What the clocks did from the first reading to the second, in between which it suspended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slept {
    /// How long CLOCK_MONOTONIC_RAW stood, ns.
    pub(super) stood_ns: f64,
    /// From the first reading to the second, by the host, ns.
    span_ns: f64,
    /// By how much the time of day is ahead of what it was against the host's, and the
    /// bound of reading all four, ns.
    pub(super) gained_ns: f64,
    bound_ns: f64,
}

impl Slept {
    pub(super) fn measure(
        (before, after): &(StockReading, StockReading),
        host: &HostLine,
        tsc_offset: u64,
    ) -> Option<Self> {
        let [first, last] = [before, after].map(|reading| host.locate(reading.tsc, tsc_offset));
        let (first, last) = first.zip(last)?;
        let span_ns = last.boot_ns - first.boot_ns;
        Some(Self {
            stood_ns: span_ns - signed(after.raw_ns, before.raw_ns),
            span_ns,
            gained_ns: signed(after.real_ns, before.real_ns) - (last.real_ns - first.real_ns),
            bound_ns: first.bound_ns + last.bound_ns,
        })
    }

    /// Whether its clock stood, no longer than it had to and never went back, and its time of
    /// day went on by a clock of this resolution.
    pub(super) fn is_right(&self, persistent_clock_ns: f64) -> bool {
        let within = persistent_clock_ns + STEPS_NS + self.bound_ns;
        let most_ns = STANDS_AT_MOST_NS.min(self.span_ns);
        (STANDS_NS..=most_ns).contains(&self.stood_ns) && self.gained_ns.abs() <= within
    }
}

#[cfg(test)]
mod tests {
    use host::HostClocks;
    use pvclock::units::UnixTime;
    use pvclock::{Nanos, Ticks};
    use vmm::host_clock;

    use super::*;

    #[test]
    fn the_second_kernel_is_told_that_it_is_the_second() {
        let first = "console=ttyS0 -- linux-inside --kexec --suspends\n";
        assert_eq!(second(first), "console=ttyS0 -- linux-inside --again --suspends");
    }

    #[test]
    fn a_clock_that_stood_and_a_date_that_went_on_are_told_apart() {
        let mut host = HostLine::default();
        for s in [0, 20] {
            let real = UnixTime(Nanos(1_800_000_000_000_000_000 + s * 1_000_000_000));
            let clocks = HostClocks::new(Ticks(s << 31), Nanos(s * 1_000_000_000), real);
            host.add(host_clock::HostReading { clocks, width: 0 });
        }
        let reading = |s: u64, raw_ns: u64, real_ns: u64| {
            let tsc = s << 31;
            StockReading { tsc: (tsc, tsc), real_ns, raw_ns }
        };
        let at = |s, raw_ns, real_ns| {
            let readings = (reading(1, 5_000_000_005, 77), reading(s, raw_ns, real_ns));
            Slept::measure(&readings, &host, 0).unwrap()
        };
        let after = |raw_ns: u64, real_ns| at(9, raw_ns + 5_000_000_000, real_ns);
        let right = after(3_000_000_005, 8_000_000_177);
        assert_eq!((right.stood_ns, right.gained_ns), (5e9, 100.0));
        assert!(right.is_right(1.0));
        let behind = after(3_000_000_005, 7_500_000_077);
        assert!(!behind.is_right(1.0) && behind.is_right(1e9));
        assert!(!after(8_000_000_005, 8_000_000_077).is_right(1e9), "did not stand");
        assert!(!at(12, 5_500_000_005, 11_000_000_077).is_right(1.0), "stood 10.5 of 11 s");
        assert!(at(12, 6_100_000_005, 11_000_000_077).is_right(1.0), "stood 9.9 s");
        assert!(!at(9, 4_900_000_005, 8_000_000_077).is_right(1.0), "went back");
        assert_eq!(Slept::measure(&(reading(1, 0, 0), reading(21, 0, 0)), &host, 0), None);
    }
}
