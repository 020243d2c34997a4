//! A guest's clocks, each reading with this machine's time of day on receipt:
//! `guest-clock print` (`validation/machines/src/bin/guest-clock`).

use super::channel::Line;

/// The clocks of a line, in its order.
pub(crate) const CLOCKS: [&str; 4] = ["REALTIME", "MONOTONIC", "BOOTTIME", "MONOTONIC_RAW"];

/// All clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick {
    /// When it was received, by this machine's time of day, ns since 1970.
    pub(crate) at_ns: i64,
    /// Each clock, ns.
    pub(crate) clocks_ns: [i64; 4],
}

impl Tick {
    /// The tick on a line, if it has one.
    pub(crate) fn parse(line: &Line) -> Option<Self> {
        let mut words = line.text.strip_prefix("tick ")?.split(' ').map(str::parse);
        let mut clocks_ns = [0; 4];
        for clock_ns in &mut clocks_ns {
            *clock_ns = words.next()?.ok()?;
        }
        words.next().is_none().then_some(Self { at_ns: line.at_ns, clocks_ns })
    }

    /// The guest's time of day, ns since 1970.
    pub(crate) fn realtime_ns(&self) -> i64 {
        self.clocks_ns[0]
    }

    /// How far the guest's time of day is ahead of this machine's, s, too
    /// small by the delay of the line.
    pub(crate) fn ahead_s(&self) -> f64 {
        seconds(self.realtime_ns() - self.at_ns)
    }
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// The last ticks, of which at least one came without delay.
const LAST_TICKS: usize = 50;

/// How far the time of day is ahead at the end, s.
pub(crate) fn left_s(ticks: &[Tick]) -> f64 {
    ahead_s(&ticks[ticks.len().saturating_sub(LAST_TICKS)..], 0).unwrap_or(f64::NAN)
}

/// How far a clock is ahead of this machine's time of day, s, by the tick with
/// the smallest delay.
pub(crate) fn ahead_s(ticks: &[Tick], clock: usize) -> Option<f64> {
    ticks.iter().map(|tick| tick.clocks_ns[clock] - tick.at_ns).max().map(seconds)
}

/// The largest step back of the time of day from one tick to the next, s.
pub(crate) fn backward_s(ticks: &[Tick]) -> f64 {
    let back = ticks.windows(2).map(|pair| pair[0].realtime_ns() - pair[1].realtime_ns());
    seconds(back.max().unwrap_or(0).max(0))
}

/// The largest gain of the time of day on MONOTONIC_RAW from one tick to the
/// next, s: it shows a step, and hardly a slew.
pub(crate) fn largest_step_s(ticks: &[Tick]) -> f64 {
    let gained = |tick: &Tick| tick.clocks_ns[0] - tick.clocks_ns[3];
    let steps = ticks.windows(2).map(|pair| (gained(&pair[1]) - gained(&pair[0])).abs());
    seconds(steps.max().unwrap_or(0))
}

/// The first tick from which on all are within so many seconds of this
/// machine's time of day.
pub(crate) fn correct_from(ticks: &[Tick], within_s: f64) -> Option<Tick> {
    let correct = ticks.iter().rev().take_while(|tick| tick.ahead_s().abs() <= within_s);
    correct.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(at_ms: i64, realtime_ms: i64) -> Tick {
        let ns = |ms: i64| ms * 1_000_000;
        Tick { at_ns: ns(at_ms), clocks_ns: [ns(realtime_ms), 0, 0, ns(at_ms - 1)] }
    }

    #[test]
    fn a_line_is_a_tick_or_not() {
        let line = |text: &str| Line { at_ns: 9, text: text.to_owned() };
        let expected = Tick { at_ns: 9, clocks_ns: [1, 2, 3, -4] };
        assert_eq!(Tick::parse(&line("tick 1 2 3 -4")), Some(expected));
        for text in ["tick 1 2 3", "tick 1 2 3 4 5", "tick 1 2 3 x", "{}", ""] {
            assert_eq!(Tick::parse(&line(text)), None, "{text}");
        }
    }

    #[test]
    fn the_tick_with_the_smallest_delay_gives_the_offset() {
        let ticks = [tick(10, 8), tick(20, 19), tick(30, 23)];
        assert_eq!(ahead_s(&ticks, 0), Some(-0.001));
        assert_eq!(ahead_s(&[], 0), None);
    }

    #[test]
    fn steps_are_detected_in_both_directions() {
        let ticks = [tick(10, 10), tick(20, 15), tick(30, 12), tick(40, 22)];
        assert_eq!(backward_s(&ticks), 0.003);
        assert_eq!(largest_step_s(&ticks), 0.013);
        assert_eq!(backward_s(&ticks[2..]), 0.0);
        assert_eq!(largest_step_s(&ticks[..1]), 0.0);
    }

    #[test]
    fn correct_means_correct_to_the_end() {
        let ticks = [tick(1000, 1000), tick(2000, 500), tick(3000, 2999), tick(4000, 4004)];
        assert_eq!(correct_from(&ticks, 0.005), Some(ticks[2]));
        assert_eq!(correct_from(&ticks, 0.001), None);
        assert_eq!(correct_from(&ticks, 2.0), Some(ticks[0]));
    }
}
