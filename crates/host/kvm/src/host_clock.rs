//! The host's clocks, read together.
//!
//! The boot clock is KVM's own: CLOCK_MONOTONIC_RAW and the time that the
//! host slept (`get_kvmclock_base_ns`, arch/x86/kvm/x86.c, since commit
//! 53fafdbb8b21 of 2019). CLOCK_BOOTTIME is steered by NTP: with 20 ppm of
//! correction the two differ by 20 · 10^-6 · 10 s = 200 µs after 10 s.
//!
//! # Invariants
//! 1. `clock_gettime` writes one `timespec` to the pointer that it is passed;
//!    ours is a live local.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use pvclock::counter::{Counter, CpuCounter};
use pvclock::units::UnixTime;
use pvclock::{Nanos, Ticks};
use pvclock_host::HostClocks;

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Tries, of which the shortest counts: an interruption seldom hits them all.
const TRIES: u32 = 5;

/// The time that this host has slept since it booted, ns, as last measured.
static SLEPT: AtomicU64 = AtomicU64::new(0);

/// The host's clocks, and how far apart they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostReading {
    /// The clocks.
    pub clocks: HostClocks,
    /// None of the clocks differs from the TSC by more than half of these cycles.
    pub width: u64,
}

/// A reading: the tightest of a few.
pub fn read_with_width() -> HostReading {
    let slept = slept_ns();
    let mut best = once(slept);
    for _ in 1..TRIES {
        let next = once(slept);
        if next.width < best.width {
            best = next;
        }
    }
    best
}

/// The clocks of a reading.
pub fn read() -> HostClocks {
    read_with_width().clocks
}

/// The boot clock alone.
pub fn boot() -> Nanos {
    let slept = slept_ns();
    Nanos(ns(libc::CLOCK_MONOTONIC_RAW).wrapping_add(slept))
}

fn once(slept_ns: u64) -> HostReading {
    let before = CpuCounter.read_ordered();
    let raw = ns(libc::CLOCK_MONOTONIC_RAW);
    let real = ns(libc::CLOCK_REALTIME);
    let width = CpuCounter.read_ordered().wrapping_sub(before);
    let tsc = Ticks(before.wrapping_add(width / 2));
    let boot = Nanos(raw.wrapping_add(slept_ns));
    let clocks = HostClocks::new(tsc, boot, UnixTime(Nanos(real)));
    // TAI continues through a leap second: read after the time of day, it shows the
    // offset that was valid then.
    let tai_offset_s = tai_offset_s(real, ns(libc::CLOCK_TAI));
    HostReading { clocks: clocks.changed(|new| new.tai_offset_s = tai_offset_s), width }
}

/// Whole seconds; Linux keeps 0 until a daemon sets the offset.
fn tai_offset_s(real: u64, tai: u64) -> Option<i32> {
    let seconds = (tai.wrapping_sub(real).cast_signed() + 500_000_000).div_euclid(1_000_000_000);
    i32::try_from(seconds).ok().filter(|&seconds| seconds != 0)
}

/// Whether this host's clock is TSC-based, without which no page is right for all
/// vCPUs: KVM's condition of a master clock (`gtod_is_based_on_tsc`,
/// arch/x86/kvm/x86.c). Where Linux gives the TSC up, it changes the clocksource, and KVM
/// then moves each vCPU's TSC (`kvm_arch_vcpu_load`): a VMM that makes
/// pages of its own looks repeatedly, and informs its provider
/// ([`HostEvent::HostClocksource`](pvclock_host::HostEvent::HostClocksource)). `None` where it cannot be read.
pub fn clocksource_is_tsc() -> Option<bool> {
    Some(is_tsc_based(&std::fs::read_to_string(CLOCKSOURCE).ok()?))
}

/// Those whose vDSO mode is the TSC's or Hyper-V's page.
fn is_tsc_based(clocksource: &str) -> bool {
    matches!(clocksource.trim(), "tsc" | "tsc-early" | "hyperv_clocksource_tsc_page")
}

/// The random name of this boot (/proc/sys/kernel/random/boot_id), if it can be read:
/// clocks are held on one boot alone.
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Linux has all of the clocks read here since 2.6.39: no call fails.
fn ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: invariant 1.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

fn slept_ns() -> u64 {
    let before = ns(libc::CLOCK_MONOTONIC);
    let boot = ns(libc::CLOCK_BOOTTIME);
    let after = ns(libc::CLOCK_MONOTONIC);
    let slept = slept_by(SLEPT.load(Ordering::Relaxed), before, boot, after);
    SLEPT.store(slept, Ordering::Relaxed);
    slept
}

/// CLOCK_BOOTTIME less CLOCK_MONOTONIC, which only a sleep changes. The known
/// value is kept while both readings allow it: else each reading would contain
/// the time between the two, which is never the same.
fn slept_by(known: u64, before: u64, boot: u64, after: u64) -> u64 {
    let (least, most) = (boot.saturating_sub(after), boot.saturating_sub(before));
    if (least..=most).contains(&known) { known } else { least + (most - least) / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_what_the_boot_clock_is_ahead_by() {
        // Never slept: 40 ns between the two readings are no sleep.
        assert_eq!(slept_by(0, 1_000, 1_020, 1_040), 0);
        // 5 s, found first, and kept when readings are wide.
        assert_eq!(slept_by(0, 1_000, 5_000_001_020, 1_040), 5_000_000_000);
        assert_eq!(slept_by(5_000_000_000, 1_000, 5_000_009_000, 10_000), 5_000_000_000);
        // A sleep after the boot clock was read is found by the next reading.
        assert_eq!(slept_by(0, 1_000, 1_010, 5_000_001_020), 0);
    }

    #[test]
    fn a_host_without_its_tsc_as_clock_is_not_tsc_based() {
        let known =
            ["tsc\n", "tsc-early\n", "hyperv_clocksource_tsc_page\n", "hpet\n", "kvm-clock\n"];
        assert_eq!(known.map(is_tsc_based), [true, true, true, false, false]);
    }

    #[test]
    fn the_offset_of_tai_is_whole_seconds_or_unknown() {
        let real = 1_800_000_000_000_000_000;
        assert_eq!(tai_offset_s(real, real + 37_000_000_040), Some(37));
        assert_eq!(tai_offset_s(real, real + 40), None);
    }

    #[test]
    fn the_boot_clock_is_the_raw_one_and_sleep() {
        let raw = || ns(libc::CLOCK_MONOTONIC_RAW);
        let slept = slept_ns();
        let before = raw() + slept;
        let (reading, now) = (read(), boot());
        let after = raw() + slept;
        assert!((before..=after).contains(&reading.boot.0), "{before} {reading:?} {after}");
        assert!((reading.boot.0..=after).contains(&now.0), "{reading:?} {now:?} {after}");
    }
}
