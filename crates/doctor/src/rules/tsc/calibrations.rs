//! What several boots in one log measured of the TSC's rate.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::log_evidence;
use crate::case::trust::WRONG_RATE_PPM;
use crate::finding::{Finding, Remedy, Severity};

/// Boots whose calibrations of one CPU differ by more are not all right, ppm.
const SAME_RATE_PPM: f64 = 500.0;

/// More is another machine's CPU, ppm.
const OTHER_CPU_PPM: f64 = 50_000.0;

/// Calibrations of several boots, of which one differs from the most usual rate.
/// 2383.579 MHz among five of 2400.0 to 2400.4 MHz: -0.69 %.
pub(super) fn several_rates(log: &[LogLine]) -> Option<Finding> {
    let detected = log.iter().filter_map(|line| match line.event {
        LogEvent::TscFrequency { hz, refined: false } if line.text.contains("processor") => {
            Some((hz as f64, line))
        }
        _ => None,
    });
    let mut rates: Vec<(f64, &LogLine)> = detected.collect();
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (usual, _) = *rates.get(rates.len() / 2)?;
    let off_ppm = |hz: f64| (hz / usual - 1.0) * 1e6;
    let by_distance = |one: &&(f64, _), other: &&(f64, _)| {
        off_ppm(one.0).abs().total_cmp(&off_ppm(other.0).abs())
    };
    let (hz, line) = *rates.iter().max_by(by_distance)?;
    let off = off_ppm(hz);
    if !(SAME_RATE_PPM..OTHER_CPU_PPM).contains(&off.abs()) {
        return None;
    }
    let runs = if off < 0.0 { "fast" } else { "slow" };
    Some(
        Finding::new(
            Severity::Warning,
            format!(
                "One of {} boots measured the TSC's rate {} off: {}",
                rates.len(),
                figures::ppm(off),
                figures::hz(hz)
            ),
        )
        .evidence(log_evidence(line))
        .evidence(format!(
            "the rates of all boots: {} to {}, mostly {}",
            figures::hz(rates[0].0),
            figures::hz(rates[rates.len() - 1].0),
            figures::hz(usual)
        ))
        .explain(format!(
            "The kernel measures the rate at each boot, against a timer. In that boot a clock that              counts the TSC runs {runs} by as much; NTP corrects at most {WRONG_RATE_PPM} ppm. The              measurement was disturbed (an SMI, a busy host). At fault: that boot's calibration."
        ))
        .remedy(Remedy::advice(
            "Reboot if that boot is the present one: the next calibration is probably right. A              later line `Refined TSC clocksource calibration` has corrected it.",
        ))
        .remedy(Remedy::advice(
            "Add tsc_early_khz= with the usual rate to the kernel's command line if it returns.",
        )),
    )
}
