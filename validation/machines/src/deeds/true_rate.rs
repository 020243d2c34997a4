//! How fast a machine's clock is on the clock of what runs it, without a measurement: both
//! count one oscillator, by scales of whole numbers.
//!
//! Under emulation that is this system's clock, which QEMU's timers count in whole periods.
//! Under KVM it is the host's TSC, of which the host's clock source has a scale of some 23
//! bits, and the machine's page one of 32.

use crate::machine::Machine;
use crate::outcome::Result;

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

/// A VMClock page's rate is written by this system's TSC, measured for 4 s between readings
/// of 60 ns at most: to 0.015 ppm; and as much for what is not known of.
const BY_OUR_TSC_PPM: f64 = 0.03;

/// What a scale of 23 bits and a rate in whole kHz, of 2 GHz, leave.
const BY_THE_HOSTS_SCALES_PPM: f64 = 0.5;

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
pub(super) fn of(machine: &mut Machine) -> Result<Rate> {
    let source = machine.execute("cat $CLOCKSOURCE")?;
    match source.as_str() {
        "hpet" => Ok(Rate { ppm: HPET_PPM, known_ppm: BY_OUR_TSC_PPM }),
        "acpi_pm" => Ok(Rate { ppm: acpi_pm_ppm(), known_ppm: BY_OUR_TSC_PPM }),
        "kvm-clock" => Ok(Rate { ppm: 0.0, known_ppm: BY_THE_HOSTS_SCALES_PPM }),
        other => Err(format!("the true rate of {other} is not known")),
    }
}

/// As the kernel finds its scale, counts * mult >> shift (kernel/time/clocksource.c,
/// `clocks_calc_mult_shift`): the finest that does not overflow in so many seconds.
fn acpi_pm_ppm() -> f64 {
    let whole_bits = ((ACPI_PM_S * ACPI_PM_HZ) >> 32).checked_ilog2().map_or(0, |bit| bit + 1);
    let mult = |shift: u32| ((1_000_000_000 << shift) + ACPI_PM_HZ / 2) / ACPI_PM_HZ;
    let fits = |shift: &u32| mult(*shift) >> (32 - whole_bits) == 0;
    let shift = (1..=32).rev().find(fits).unwrap_or(0);
    (mult(shift) as f64 / 2f64.powi(shift as i32) * ACPI_PM_HZ as f64 / 1e9 - 1.0) * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timers_rate_is_off_by_its_scale_and_a_fast_reference_is_divided_by() {
        let acpi = acpi_pm_ppm();
        assert!(acpi != 0.0 && acpi.abs() < 0.5, "{acpi}");
        let exact = Rate { ppm: 3.0, known_ppm: 0.0 }.exact();
        assert_eq!((exact.on(0.0), exact.ppm), (0.0, 0.0));
        assert!((exact.on(50.0) + 49.9975).abs() < 1e-6);
    }
}
