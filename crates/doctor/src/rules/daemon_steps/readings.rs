//! What daemons read of a clock and its rate: ptp4l and phc2sys line by line, chronyd once.

use facts::kernel::{LogEvent, LogLine};
use instruments::figures;

use super::events::quote;
use crate::finding::Finding;
use crate::rules::statements::named;

/// A PTP clock that follows its master is never off by more, s.
const LOCKED_S: f64 = 1e-3;

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
        (None, Some(_)) => return None,
        (None, None) => ("ptp-never-locked", all()),
    };
    Some(quote(named(name, &[("size", size)]), &lines))
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
