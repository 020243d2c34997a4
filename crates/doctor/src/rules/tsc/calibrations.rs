//! What several boots in one log measured of the TSC's rate.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use crate::case::log_evidence;
use crate::case::trust::WRONG_RATE_PPM;
use crate::finding::Finding;
use crate::rules::statements::named;

/// Boots whose calibrations of one CPU differ by more are not all right, ppm.
const SAME_RATE_PPM: f64 = 500.0;

/// More is another machine's CPU, ppm; of other boots' rates those that differ by over 5 % are
/// left out before.
const OTHER_CPU_PPM: f64 = 9e6;

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
    if let [(low, _), (high, _)] = rates.as_slice() {
        let rates = format!("{} and {}", figures::hz(*low), figures::hz(*high));
        let values = [("off", figures::ppm((high / low - 1.0) * 1e6)), ("rates", rates)];
        return Some(named("two-rates", &values).evidence(log_evidence(line)));
    }
    let runs = if off < 0.0 { "fast" } else { "slow" };
    let values = [
        ("boots", rates.len().to_string()),
        ("off", figures::ppm(off)),
        ("rate", figures::hz(hz)),
        ("runs", runs.to_owned()),
        ("limit", WRONG_RATE_PPM.to_string()),
    ];
    Some(named("several-rates", &values).evidence(log_evidence(line)).evidence(format!(
        "the rates of all boots: {} to {}, mostly {}",
        figures::hz(rates[0].0),
        figures::hz(rates[rates.len() - 1].0),
        figures::hz(usual)
    )))
}
