//! How fast a machine's clock is on the clock of what runs it, without a measurement: both
//! count one oscillator, by scales of whole numbers that are known.
//!
//! Under emulation that is this system's clock, which QEMU's timers count in whole periods.
//! Under KVM it is the host's TSC, of which the host's clock source has a scale of some 23
//! bits, and the machine's page one of 32: which, follows from the rate in kHz that the host's
//! kernel states, and its log has a figure by which the first is checked.

use std::time::Duration;

use pvclock::{Hertz, Scale};

use crate::machine::Machine;
use crate::outcome::Result;
use crate::shell::Shell;

use super::Place;

/// How fast a clock is on that of what runs it, and how well that is known, ppm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    pub(super) ppm: f64,
    pub(super) known_ppm: f64,
}

/// QEMU's HPET (include/hw/timer/hpet.h, HPET_CLK_PERIOD: 10 ns), whose scale is exact.
const HPET_PPM: f64 = 0.0;

/// The ACPI timer, and for how long Linux has its 24 bits count (drivers/clocksource/acpi_pm.c).
const ACPI_PM_HZ: u64 = 3_579_545;
const ACPI_PM_S: u64 = (1 << 24) / ACPI_PM_HZ;

/// For how long Linux has a source of 64 bits count at most
/// (kernel/time/clocksource.c, `__clocksource_update_freq_scale`).
const LONGEST_S: u64 = 600;

/// A VMClock page's rate is written by this system's TSC, measured for 4 s between readings
/// of 60 ns at most: to 0.015 ppm; and as much for what is not known of.
const BY_OUR_TSC_PPM: f64 = 0.03;

/// The scale of a page in whole numbers is good to 0.0005 ppm.
const BY_THE_HOSTS_SCALES_PPM: f64 = 0.001;

/// What the host's kernel writes of its TSC and of its KVM, in order, and what it counts by.
const LOG: &str = "dmesg | grep -E 'tsc: |kvm_amd: '; \
    cat /sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What the kernel states of the rate: at boot, and when it knows it better.
const STATED: [&str; 2] = ["tsc: Detected ", "tsc: Refined TSC clocksource calibration: "];

/// KVM is loaded: on a TSC that is not constant it keeps the rate known by then
/// (arch/x86/kvm/x86.c, `kvmclock_cpu_online` and `get_cpu_tsc_khz`).
const LOADED: &str = "kvm_amd: ";

/// The clock source is registered with what `clocks_calc_max_nsecs` makes of its scale.
const REGISTERED: &str = "clocksource: tsc: ";

/// The host's answer.
const REPLY: Duration = Duration::from_secs(30);

impl Rate {
    /// What counts the time of what runs the machine, and nothing else: its RTC.
    pub(super) const fn exact(self) -> Self {
        Self { ppm: 0.0, ..self }
    }

    /// How fast it is on a reference that is fast itself, ppm.
    ///
    /// ```text
    /// exact, on one 50 ppm fast: 1 / 1.00005 - 1 = -49.9975 ppm
    /// ```
    pub(super) fn on(self, fast_ppm: f64) -> f64 {
        ((1.0 + self.ppm / 1e6) / (1.0 + fast_ppm / 1e6) - 1.0) * 1e6
    }
}

/// Of the clocks of a machine, but for its RTC, by the clock source in use.
pub(super) fn of(place: &Place<'_>, machine: &mut Machine) -> Result<Rate> {
    let source = machine.execute("cat $CLOCKSOURCE")?;
    match source.as_str() {
        "hpet" => Ok(Rate { ppm: HPET_PPM, known_ppm: BY_OUR_TSC_PPM }),
        "acpi_pm" => Ok(Rate { ppm: acpi_pm_ppm(), known_ppm: BY_OUR_TSC_PPM }),
        "kvm-clock" => {
            let log = Shell::connect(place.folder)?.execute(LOG, REPLY)?;
            Ok(Rate { ppm: ahead_ppm(&log)?, known_ppm: BY_THE_HOSTS_SCALES_PPM })
        }
        other => Err(format!("the true rate of {other} is not known")),
    }
}

fn acpi_pm_ppm() -> f64 {
    let scale = KernelScale::new(ACPI_PM_HZ, 1_000_000_000, ACPI_PM_S);
    (scale.ns_per_count() * ACPI_PM_HZ as f64 / 1e9 - 1.0) * 1e6
}

/// By which a kernel turns counts into ns: counts * mult >> shift.
#[derive(Debug, Clone, Copy, PartialEq)]
struct KernelScale {
    mult: u64,
    shift: u32,
}

impl KernelScale {
    /// As the kernel finds it (kernel/time/clocksource.c, `clocks_calc_mult_shift`): the finest
    /// that does not overflow in so many seconds.
    fn new(from: u64, to: u64, longest_s: u64) -> Self {
        let whole_bits = ((longest_s * from) >> 32).checked_ilog2().map_or(0, |bit| bit + 1);
        let mult = |shift: u32| ((to << shift) + from / 2) / from;
        let fits = |shift: &u32| mult(*shift) >> (32 - whole_bits) == 0;
        let shift = (1..=32).rev().find(fits).unwrap_or(0);
        Self { mult: mult(shift), shift }
    }

    fn of_tsc(khz: u64) -> Self {
        // Both in thousandths.
        Self::new(khz, 1_000_000, LONGEST_S * 1000)
    }

    fn ns_per_count(self) -> f64 {
        self.mult as f64 / 2f64.powi(self.shift as i32)
    }

    /// Counts until it overflows with the most that adjtimex may add to it, 11 %, as the kernel
    /// logs them (`clocks_calc_max_nsecs`).
    fn max_cycles(self) -> u64 {
        u64::MAX / (self.mult + self.mult * 11 / 100)
    }
}

/// How much faster a machine's kvm-clock is than its host's clock, ppm, by the host's log.
fn ahead_ppm(log: &str) -> Result<f64> {
    let stated = |lines: &[&str]| lines.iter().rev().find_map(|line| khz(line));
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    if lines.last() != Some(&"tsc") {
        return Err(format!("the host does not count by its TSC: {:?}", lines.last()));
    }
    let host_khz = stated(&lines).ok_or("the host's kernel states no rate of its TSC")?;
    let loaded = lines.iter().position(|line| line.contains(LOADED));
    let loaded = loaded.ok_or("the host's log does not show when KVM was loaded")?;
    let page_khz = stated(&lines[..loaded]).ok_or("KVM was loaded before a rate was known")?;
    let host = KernelScale::of_tsc(host_khz);
    let max_cycles = host.max_cycles();
    let registered = lines.iter().rev().find(|line| line.contains(REGISTERED));
    if registered.and_then(|line| hex(line)) != Some(max_cycles) {
        return Err(format!(
            "{host_khz} kHz make max_cycles {max_cycles:#x}, and the host's log says {registered:?}"
        ));
    }
    let page = Scale::from_hertz(Hertz(page_khz * 1000)).map_err(|error| error.to_string())?;
    let page_ns = f64::from(page.mul()) * 2f64.powi(i32::from(page.shift()) - 32);
    Ok((page_ns / host.ns_per_count() - 1.0) * 1e6)
}

/// `tsc: Refined TSC clocksource calibration: 2596.123 MHz`
fn khz(line: &str) -> Option<u64> {
    let rest = STATED.iter().find_map(|begin| Some(line.split_once(begin)?.1))?;
    let (mhz, thousandths) = rest.split(' ').next()?.split_once('.')?;
    Some(mhz.parse::<u64>().ok()? * 1000 + thousandths.parse::<u64>().ok()?)
}

/// `max_cycles: 0x256bed8d508, max_idle_ns: …`
fn hex(line: &str) -> Option<u64> {
    let (_, from) = line.split_once("max_cycles: 0x")?;
    u64::from_str_radix(from.split(',').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the capture of row kvm-amd-7.2, with KVM loaded later.
    const HOST: &str = "\
[    0.000000] tsc: Fast TSC calibration failed
[    0.000000] tsc: Detected 2596.122 MHz processor
[    4.982460] tsc: Refined TSC clocksource calibration: 2596.123 MHz
[    4.983147] clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x256bed8d508, max_idle_ns: 440795246314 ns
[    6.100000] kvm_amd: Nested Virtualization enabled
tsc
";

    /// The log of a host at such a rate.
    fn host(khz: u64) -> String {
        let cycles = KernelScale::of_tsc(khz).max_cycles();
        format!(
            "tsc: Detected {}.{:03} MHz processor\nclocksource: tsc: mask: 0xf max_cycles: \
             {cycles:#x}, max_idle_ns: 5 ns\nkvm_amd: x\ntsc\n",
            khz / 1000,
            khz % 1000
        )
    }

    #[test]
    fn scales_are_those_that_kernels_logged_and_pages_had() {
        assert_eq!(KernelScale::of_tsc(2_596_123), KernelScale { mult: 6_462_412, shift: 24 });
        // The page of the captures kvm-7.2, kvm-parachron and kvm-and-hyperv.
        let page = Scale::from_hertz(Hertz(2_596_123_000)).unwrap();
        assert_eq!((page.mul(), page.shift()), (3_308_754_859, -1));
    }

    #[test]
    fn a_kvm_clock_is_off_by_what_the_scales_are() {
        let near = |log: &str, ppm: f64| {
            let ahead_ppm = ahead_ppm(log).unwrap();
            assert!((ahead_ppm - ppm).abs() < 1e-4, "{ahead_ppm}");
        };
        near(HOST, -0.0257);
        // As `drift` found it in row kvm-7.2: -0.0025 to -0.0023, and 0.0767 to 0.0768; and
        // it and chronyd, 0.021.
        near(&host(2_596_137), -0.0024);
        near(&host(2_596_138), 0.0768);
        near(&host(2_596_151), 0.0209);
        // KVM loaded before the rate was refined by 1 kHz, 0.385 ppm.
        let (before, after) = HOST.split_at(HOST.find("[    4.98").unwrap());
        near(&format!("{before}kvm_amd: x\n{after}"), 0.3593);
    }

    #[test]
    fn what_the_log_does_not_show_is_no_truth() {
        let why = |log: &str| ahead_ppm(log).unwrap_err();
        assert!(why("tsc\n").contains("states no rate"));
        assert!(why(&HOST.replace("kvm_amd", "x")).contains("when KVM was loaded"));
        assert!(why(&HOST.replace("\ntsc\n", "\nhpet\n")).contains("count by its TSC"));
        let other = HOST.replace("256bed8d508", "256bed8d509");
        assert!(why(&other).contains("max_cycles 0x256bed8d508"));
        let early = format!("kvm_amd: x\n{HOST}");
        assert!(why(&early).contains("before a rate was known"));
    }

    #[test]
    fn a_timers_rate_is_off_by_its_scale_and_a_fast_reference_is_divided_by() {
        let acpi = acpi_pm_ppm();
        assert!(acpi != 0.0 && acpi.abs() < 0.5, "{acpi}");
        let exact = Rate { ppm: 3.0, known_ppm: 0.0 }.exact();
        assert_eq!((exact.on(0.0), exact.ppm), (0.0, 0.0));
        assert!((exact.on(50.0) + 49.9975).abs() < 1e-6);
    }
}
