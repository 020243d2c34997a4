//! The step by which a clock moves.
//!
//! Reading a clock takes longer than many a clock's step, so the difference
//! of two readings in a row is no measure of it: a nanosecond clock that
//! takes 20 ns to read shows differences of 19, 20, 21 ns. But all
//! differences are whole numbers of steps, so what lies *between* different
//! differences shows the step. A step that is no whole number of ns (an HPET
//! of 69.84 ns) shows up rounded, as pairs of neighbouring differences.

use std::collections::BTreeSet;

/// Distinct differences kept; a clock with more has long shown its step.
const DISTINCT: usize = 4096;

/// Differences between successive readings of one clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepSizes {
    last: Option<u64>,
    changes: u64,
    distinct: BTreeSet<u64>,
}

impl StepSizes {
    /// No reading yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next reading, ns.
    pub fn observe(&mut self, reading_ns: u64) {
        if let Some(step) = self.last.map(|last| reading_ns.abs_diff(last)).filter(|step| *step > 0)
        {
            self.changes += 1;
            if self.distinct.len() < DISTINCT {
                self.distinct.insert(step);
            }
        }
        self.last = Some(reading_ns);
    }

    /// How often the clock was seen to change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The clock's step, ns, within one; `None` when it never moved.
    pub fn step_ns(&self) -> Option<u64> {
        let clusters = self.clusters()?;
        let mut before = 0;
        clusters
            .into_iter()
            .map(|doubled| doubled - std::mem::replace(&mut before, doubled))
            .min()
            // Gaps are of doubled middles; a half is rounded up.
            .map(|gap| gap.div_ceil(2))
    }

    /// Twice the middle of each run of neighbouring differences. Rounding
    /// makes runs of two; a longer one means a step of 1 ns: `[2]`.
    fn clusters(&self) -> Option<Vec<u64>> {
        let mut clusters = Vec::new();
        let mut run: Option<(u64, u64)> = None;
        for &step in &self.distinct {
            run = match run {
                Some((first, last)) if step == last + 1 && step - first >= 2 => {
                    return Some(vec![2]);
                }
                Some((first, last)) if step == last + 1 => Some((first, step)),
                ended => {
                    clusters.extend(ended.map(|(first, last)| first + last));
                    Some((step, step))
                }
            };
        }
        clusters.extend(run.map(|(first, last)| first + last));
        (!clusters.is_empty()).then_some(clusters)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The step by `Steps` of a clock that shows multiples of `step` ns, rounded
    /// down to whole ns, read after each of `gaps` ns.
    fn measured(step: f64, gaps: impl IntoIterator<Item = f64>) -> Option<u64> {
        let mut steps = StepSizes::new();
        let mut now = 1e9;
        for gap in gaps {
            now += gap;
            steps.observe(((now / step).floor() * step).floor() as u64);
        }
        steps.step_ns()
    }

    /// Gaps of 20 to 45 ns, each some ns off the others, as reading takes.
    fn reading() -> impl Iterator<Item = f64> {
        (0..20_000).map(|i| 20.0 + f64::from(i * 7919 % 251) / 10.0)
    }

    #[test]
    fn a_stopped_clock_has_no_step() {
        assert_eq!(measured(1e9, [0.0; 100]), None);
        assert_eq!(StepSizes::new().step_ns(), None);
    }

    #[test]
    fn a_clock_finer_than_its_reading_shows_its_step() {
        assert_eq!(measured(1.0, reading()), Some(1));
        assert_eq!(measured(10.0, reading()), Some(10));
    }

    #[test]
    fn coarse_clocks_show_their_tick() {
        assert_eq!(measured(1000.0, reading()), Some(1000));
        assert_eq!(measured(100_000.0, reading()), Some(100_000));
    }

    #[test]
    fn an_hpet_shows_its_period_though_no_whole_number() {
        let step = measured(69.841279, reading().map(|gap| gap * 40.0)).unwrap();
        assert!((69..=71).contains(&step), "{step}");
    }

    proptest! {
        #[test]
        fn the_step_is_found(
            step in 3u64..5_000_000,
            whole in prop::collection::vec(1u64..40, 3..60),
        ) {
            // Differences of every count of steps from 1 up, and some at random.
            let mut steps = StepSizes::new();
            let mut now = step * 1000;
            steps.observe(now);
            for count in [1, 2].into_iter().chain(whole) {
                now += count * step;
                steps.observe(now);
            }
            prop_assert_eq!(steps.step_ns(), Some(step));
        }
    }
}
