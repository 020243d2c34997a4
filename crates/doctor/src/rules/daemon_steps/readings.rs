//! What daemons read of a clock and its rate: ptp4l and phc2sys line by line, chronyd once.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::events::quote;
use crate::finding::Finding;
use crate::rules::statements::named;

/// A PTP clock that follows its master is never off by more, s.
const LOCKED_S: f64 = 1e-3;

/// A first correction by less is of any start, s.
const LARGE_S: f64 = 1.0;

/// No quartz is off by more, and no kernel corrects more, ppm.
const NO_QUARTZ_PPM: f64 = 500.0;

/// One line of ptp4l or phc2sys.
struct PtpLine<'l> {
    line: &'l LogLine,
    by_s: f64,
    is_step: bool,
}

/// A PTP clock that is not locked to what it follows.
pub(super) fn ptp(log: &[LogLine]) -> Option<Finding> {
    let readings: Vec<PtpLine<'_>> = log
        .iter()
        .filter_map(|line| match line.event {
            LogEvent::PtpReading { by_s, servo, .. } => {
                Some(PtpLine { line, by_s: by_s.abs(), is_step: servo == Some(1) })
            }
            _ => None,
        })
        .collect();
    if let Some(finding) = saturated(log) {
        return Some(finding);
    }
    let is_off = |reading: &&PtpLine<'_>| reading.by_s > LOCKED_S;
    let off: Vec<_> = readings.iter().filter(is_off).collect();
    let largest = off.iter().max_by(|one, other| one.by_s.total_cmp(&other.by_s))?;
    let size = figures::seconds(largest.by_s);
    let returned = readings.windows(2).find(|pair| pair[0].is_step && pair[1].by_s > LOCKED_S);
    let locked = readings.iter().position(|reading| reading.by_s <= LOCKED_S);
    let all = || off.iter().map(|reading| reading.line).collect::<Vec<_>>();
    let (name, lines) = match (returned, locked) {
        (Some(pair), _) => ("ptp-two-programs", vec![pair[0].line, pair[1].line]),
        (None, Some(at)) if off.iter().any(|reading| at < place(&readings, reading)) => {
            ("ptp-jumped", all())
        }
        // The first correction, before the lock.
        (None, Some(_)) if largest.by_s >= LARGE_S => ("ptp-stepped", all()),
        (None, Some(_)) => return None,
        (None, None) => ("ptp-never-locked", all()),
    };
    Some(quote(named(name, &[("size", size)]), &lines))
}

/// A correction that stands at its limit while the offset does not shrink.
/// 31 000 ppm would remove 31 ms a second of 23.6 ms, which grow by 4.45 µs a second instead.
fn saturated(log: &[LogLine]) -> Option<Finding> {
    const LEAST_READINGS: usize = 4;
    let readings: Vec<(&LogLine, f64, f64)> = log
        .iter()
        .filter_map(|line| match line.event {
            LogEvent::PtpReading { by_s, ppm, servo } if servo != Some(0) => {
                Some((line, by_s, ppm))
            }
            _ => None,
        })
        .collect();
    let (first, last) = (readings.first()?, readings.last()?);
    let ppm = first.2;
    let stands = readings.iter().all(|reading| reading.2 == ppm) && ppm.abs() > NO_QUARTZ_PPM;
    let span_s = Some(last.0.at_s? - first.0.at_s?).filter(|s| *s > 0.0)?;
    let shrunk_s = first.1.abs() - last.1.abs();
    let is_effective = shrunk_s >= 0.5 * span_s * ppm.abs() * 1e-6;
    // linuxptp prints a correction with the sign of the offset that it is to remove.
    let is_off = readings.iter().all(|reading| reading.1 * ppm.signum() > LOCKED_S);
    if readings.len() < LEAST_READINGS || !stands || is_effective || !is_off {
        return None;
    }
    let values = [
        ("ppm", figures::ppm(ppm)),
        ("times", readings.len().to_string()),
        ("size", figures::seconds(last.1.abs())),
        ("speed", figures::seconds(ppm.abs() * 1e-6)),
        ("rate", figures::ppm(-shrunk_s / span_s * 1e6)),
    ];
    Some(quote(named("ptp-saturated", &values), &[first.0, last.0]))
}

fn place(readings: &[PtpLine<'_>], wanted: &PtpLine<'_>) -> usize {
    readings.iter().position(|reading| std::ptr::eq(reading, wanted)).unwrap_or(0)
}

/// A correction of the rate beyond any quartz, though the clock is held by it.
/// phc2sys's freq -62509750: 62.5 million of 10^9, 62 510 ppm or 6.25 %.
pub(super) fn rate(log: &[LogLine]) -> Option<Finding> {
    let corrected = |line: &LogLine| match line.event {
        LogEvent::PtpReading { by_s, ppm, .. } if by_s.abs() <= LOCKED_S => Some(ppm),
        LogEvent::DaemonFrequency { ppm } => Some(ppm),
        _ => None,
    };
    let lines: Vec<&LogLine> = log
        .iter()
        .filter(|line| corrected(line).is_some_and(|p| p.abs() > NO_QUARTZ_PPM))
        .collect();
    let ppm = corrected(lines.last()?)?;
    let values = [("ppm", figures::ppm(ppm)), ("percent", format!("{:.2}", ppm.abs() / 1e4))];
    Some(quote(named("rate-corrected", &values), &lines))
}
