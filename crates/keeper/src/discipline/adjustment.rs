//! What to adjust, by what is known of the frequency and the offset.

use pvclock::units::Interval;

use crate::frequency::{FrequencyLine, History};

/// What the kernel holds by its frequency (MAXFREQ, include/linux/timex.h), ppb: no
/// oscillator is off by more.
pub(super) const LARGEST_PPB: f64 = 500_000.0;
/// A rate of an oscillator is shown so often before the frequency follows it at once, as a
/// pause that nothing else shows looks like one too.
const SHOWN: usize = 2;

/// Servers change the frequency by no more at once, ppb, however often they are polled:
/// the kernel adds five times as much to its largest error.
const SERVERS_PPB: f64 = 100_000.0;

/// Smaller changes of the frequency are not made, ppb.
pub(super) const LEAST_PPB: f64 = 1.0;

/// Offsets are slewed from here on at the latest, ns, beside a microsecond,
/// which is what the kernel slews by.
const SLEWED_FROM_NS: f64 = 5_000.0;

/// A clock that is off by this was moved, whatever its rate: an oscillator that is off by 500 ppm
/// takes half a second. It is slewed before the rate is known, ns.
const MOVED_NS: f64 = 250_000.0;

/// What the kernel slews by: it takes microseconds.
const SLEWED_BY_NS: f64 = 1_000.0;

/// Adjustments of the kernel's clock.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Adjustment {
    /// Set this frequency (ADJ_FREQUENCY), ppb.
    pub frequency_ppb: Option<f64>,
    /// Slew by this, ns: whole microseconds.
    pub slew_ns: Option<i64>,
}

/// A frequency that is nearer to all of `known` than `set` is, and as near to
/// its middle as that allows.
fn nearer(set: f64, known: Interval<f64>) -> Option<f64> {
    let aim = known.middle();
    let ppb = if set < known.low {
        aim.min(2.0 * known.low - set)
    } else if set > known.high {
        aim.max(2.0 * known.high - set)
    } else {
        return None;
    };
    let ppb = ppb.clamp(-LARGEST_PPB, LARGEST_PPB);
    ((ppb - set).abs() >= LEAST_PPB).then_some(ppb)
}

/// What puts a clock of the frequency `set` on the line of `history`, of which the slope
/// is `known_ppb` within what is proven, and within what was measured of the `offset`,
/// where that is more than the line may be off. A change of frequency moves the clock by
/// no more than the servers' bound until they are polled again, 78 ppm with 5 ms and
/// 64 s; or it is one that they showed to be nearer, one time after another.
pub(super) fn along(
    history: &History,
    line: &FrequencyLine,
    set: f64,
    known_ppb: f64,
    offset: Interval<f64>,
    poll_ns: f64,
) -> Adjustment {
    let most = (offset.bound() / poll_ns * 1e9).min(SERVERS_PPB);
    let aim = known_ppb.clamp(-LARGEST_PPB, LARGEST_PPB);
    // Whatever is beyond the middle is nearer to the aim.
    let middle = f64::midpoint(set, aim);
    let up_to_it = if aim > set {
        Interval { low: f64::NEG_INFINITY, high: middle }
    } else {
        Interval { low: middle, high: f64::INFINITY }
    };
    let is_shown = (aim - set).abs() > most && history.moves_beyond(up_to_it) >= SHOWN;
    let ppb = if is_shown { aim } else { aim.clamp(set - most, set + most) };
    let is_known = line.error_ppb * 1e-9 * poll_ns <= line.noise_ns;
    // A rate that cannot be held is not half held: it has to be undone when it ends.
    let is_held = line.ppb.abs() <= LARGEST_PPB;
    let is_other =
        is_held && (is_known || is_shown) && (ppb - set).abs() >= line.error_ppb.max(LEAST_PPB);
    let by_ns = line.offset_ns.clamp(offset.low, offset.high);
    // Half of it, as what is left is there at the next measurement too.
    let is_off = by_ns.abs() > (line.offset_error_ns / 2.0).max(SLEWED_BY_NS);
    Adjustment { frequency_ppb: is_other.then_some(ppb), slew_ns: is_off.then(|| rounded(by_ns)) }
}

fn rounded(by_ns: f64) -> i64 {
    ((by_ns / SLEWED_BY_NS).round() * SLEWED_BY_NS) as i64
}

/// What sets a clock of the frequency `set` right that is behind by `offset`, by what is known of
/// the rate.
pub(super) fn at_once(
    set: f64,
    known: Option<Interval<f64>>,
    offset: &Interval<f64>,
) -> Adjustment {
    let by = offset.middle();
    let least = if known.is_some() { offset.bound().min(SLEWED_FROM_NS) } else { MOVED_NS };
    Adjustment {
        frequency_ppb: known.and_then(|known| nearer(set, known)),
        slew_ns: (by.abs() > least + SLEWED_BY_NS).then(|| rounded(by)),
    }
}
