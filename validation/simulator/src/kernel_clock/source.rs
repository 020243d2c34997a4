//! A clock source: a counter, and how the kernel turns its counts into ns.

use crate::kernel_clock::kernel::LinuxKernel;

/// A counter as the kernel registers it. Time passes by `mult / 2^shift` ns a
/// count.
///
/// The arithmetic is that of Linux's `clocks_calc_mult_shift` and
/// `__clocksource_register_scale` (kernel/time/clocksource.c): the longest run
/// without an overflow is 600 s, or the counter's own range where that is less.
///
/// ```
/// use simulator::kernel_clock::KernelClockSource;
///
/// let hpet = KernelClockSource::hpet(100_000_000);
/// // 10 ns a count: 10 << 27 is 1 342 177 280 in 32 bits.
/// assert_eq!(u64::from(hpet.mult) >> hpet.shift, 10);
/// assert_eq!(hpet.nanos(100), 1000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelClockSource {
    /// As in `/sys/devices/system/clocksource/clocksource0/available_clocksource`.
    pub name: &'static str,
    /// Its rate, counts per second.
    pub hz: u64,
    /// ns per count, times `2^shift`.
    pub mult: u32,
    /// See `mult`.
    pub shift: u32,
    /// The bits that it counts in.
    pub mask: u64,
}

/// The longest time that a conversion has to last, s.
const LONGEST_S: u64 = 600;

/// The fastest counter that can be registered, by its kHz.
const FASTEST_HZ: u64 = u32::MAX as u64 * 1000;

const NS_PER_S: u64 = 1_000_000_000;

impl KernelClockSource {
    /// A counter of `bits` bits that counts `hz` times a second. A rate is 1 Hz at least, and at most what 32 bits of kHz
    /// hold.
    #[must_use]
    pub fn new(name: &'static str, hz: u64, bits: u32) -> Self {
        let hz = hz.clamp(1, FASTEST_HZ);
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        let (mult, shift) = scale(hz, mask);
        Self { name, hz, mult, shift, mask }
    }

    /// The TSC.
    #[must_use]
    pub fn tsc(khz: u64) -> Self {
        Self::new("tsc", khz * 1000, 64)
    }

    /// KVM's page, which counts ns (arch/x86/kernel/kvmclock.c).
    #[must_use]
    pub fn kvm_clock() -> Self {
        Self::new("kvm-clock", NS_PER_S, 64)
    }

    /// The HPET, of which 32 bits are read (arch/x86/kernel/hpet.c).
    #[must_use]
    pub fn hpet(hz: u64) -> Self {
        Self::new("hpet", hz, 32)
    }

    /// ACPI's timer: 24 bits, so 4.687 s until it starts again
    /// (drivers/clocksource/acpi_pm.c).
    #[must_use]
    pub fn acpi_pm() -> Self {
        Self::new("acpi_pm", 3_579_545, 24)
    }

    /// User-mode Linux: the monotonic clock of the machine under it, in units of
    /// 256 ns (arch/um/kernel/time.c, `TIMER_MULTIPLIER`).
    #[must_use]
    pub fn user_mode() -> Self {
        Self::new("timer", NS_PER_S / 256, 64)
    }

    /// Counts as ns.
    #[must_use]
    pub fn nanos(&self, counts: u64) -> u64 {
        let ns = (u128::from(counts) * u128::from(self.mult)) >> self.shift;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Counts between two readings, by a kernel that takes a step back as
    /// nothing.
    #[must_use]
    pub fn elapsed(&self, kernel: LinuxKernel, before: u64, now: u64) -> u64 {
        let counts = now.wrapping_sub(before) & self.mask;
        if counts > kernel.longest_delta(self.mask) { 0 } else { counts }
    }

    /// The most that `mult` may be steered by, 11 %.
    #[must_use]
    pub fn largest_adjustment(&self) -> u32 {
        largest_adjustment(self.mult)
    }
}

fn largest_adjustment(mult: u32) -> u32 {
    u32::try_from(u64::from(mult) * 11 / 100).unwrap_or(u32::MAX)
}

/// The finest `mult` and `shift` of a rate.
fn scale(hz: u64, mask: u64) -> (u32, u32) {
    let range_s = mask / hz;
    let wide = mask > u64::from(u32::MAX);
    let lasts_s = if wide { range_s.clamp(1, LONGEST_S) } else { range_s.max(1) };
    // A rate beyond 32 bits is registered in kHz, which comes to the same.
    let (from, to, lasts) = if hz > u64::from(u32::MAX) {
        (hz / 1000, NS_PER_S / 1000, lasts_s * 1000)
    } else {
        (hz, NS_PER_S, lasts_s)
    };
    let beyond = (u128::from(lasts) * u128::from(from)) >> 32;
    let bits = 32 - (u128::BITS - beyond.leading_zeros()).min(31);
    let scaled = |shift: u32| ((u128::from(to) << shift) + u128::from(from / 2)) / u128::from(from);
    let mut shift = (1..=32).rev().find(|&shift| scaled(shift) >> bits == 0).unwrap_or(0);
    let mut mult = u32::try_from(scaled(shift)).unwrap_or(u32::MAX);
    // Steered by 11 %, it still has to fit.
    while mult.checked_add(largest_adjustment(mult)).is_none() && shift > 0 {
        mult >>= 1;
        shift -= 1;
    }
    (mult, shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_clock::Version;

    /// The longest sleep without a tick in which no count is lost, ns: half of what can be converted
    /// or counted, at the slowest steering.
    fn longest_idle_ns(source: &KernelClockSource) -> u64 {
        let most = u64::MAX / (u64::from(source.mult) + u64::from(source.largest_adjustment()));
        let slowest = u128::from(source.mult - source.largest_adjustment());
        let ns = (u128::from(most.min(source.mask)) * slowest) >> source.shift;
        u64::try_from(ns >> 1).unwrap_or(u64::MAX)
    }

    #[test]
    fn the_scales_are_those_that_kernels_print() {
        // "acpi_pm: mask: 0xffffff max_cycles: 0xffffff, max_idle_ns: 2085701024 ns"
        assert_eq!(longest_idle_ns(&KernelClockSource::acpi_pm()), 2_085_701_024);
        // "hpet: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 19112604467 ns"
        assert_eq!(longest_idle_ns(&KernelClockSource::hpet(100_000_000)), 19_112_604_467);
        // "kvm-clock: … max_cycles: 0x1cd42e4dffb, max_idle_ns: 881590591483 ns"
        assert_eq!(longest_idle_ns(&KernelClockSource::kvm_clock()), 881_590_591_483);
    }

    #[test]
    fn a_counter_that_goes_back_does_not_count() {
        let (old, new) =
            (LinuxKernel::new(Version(6, 1, 0), 100), LinuxKernel::new(Version(7, 2, 0), 100));
        let timer = KernelClockSource::acpi_pm();
        assert_eq!(timer.elapsed(new, 0xff_ff00, 0x100), 0x200);
        assert_eq!(timer.elapsed(new, 0x100, 0), 0);
        assert_eq!(timer.elapsed(old, 0, 0x90_0000), 0);
        assert_eq!(timer.elapsed(new, 0, 0x90_0000), 0x90_0000);
    }
}
