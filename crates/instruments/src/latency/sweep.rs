//! The host's halt-polling limit, from inside.
//!
//! A vCPU that halts is given away only after the host has polled for its next
//! interrupt for a while: KVM lets that grow to `halt_poll_ns` as long as
//! interrupts come within it, and shrink where they do not
//! (Documentation/virt/kvm/halt-polling.rst). So wake-ups after short idle gaps
//! are quick, those after longer ones late, and the step between them is the
//! limit. A guest that polls by itself (cpuidle's haltpoll) shows its own limit
//! where that is the longer one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shortest gap, ns.
pub const SHORTEST_NS: f64 = 10_000.0;
/// Longest gap, ns.
pub const LONGEST_NS: f64 = 2_000_000.0;
/// Each gap is so much longer than the one before: the limit, between two of
/// them, is known to half of that.
pub const RATIO: f64 = 1.15;

/// A step smaller than this may be noise: ns, and of the lower level.
const STEP_NS: f64 = 1_000.0;
const STEP: f64 = 0.12;

/// A limit is at least so many times the lateness below it. A sleep shorter than what it takes to
/// set a timer and to return ends before the CPU was idle, and its end is such a step too: in a
/// guest of an emulated host wake-ups were 165 µs late up to 100 µs, whatever its limit was.
const LIMIT_OF_QUICK: f64 = 2.0;

/// A step leaves at most this part of what a line leaves.
const STEP_OF_LINE: f64 = 0.7;

/// Gaps on either side, at least, to know a level by.
const SIDE: usize = 4;

/// Wake-ups after idle gaps of growing length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// (idle gap, lateness of the wake-up), ns; the lower quartile of the
    /// wake-ups after each gap, which other threads hardly touch.
    pub late_ns: Vec<(f64, f64)>,
    /// The step, where there is one.
    pub limit: Option<Limit>,
}

/// Where wake-ups become late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Idle gaps longer than this have late wake-ups, ns.
    pub ns: f64,
    /// How late shorter ones wake, ns.
    pub quick_ns: f64,
    /// How late longer ones wake, ns.
    pub slow_ns: f64,
}

/// The gaps to measure, ns.
pub fn gaps_ns() -> Vec<f64> {
    let next = |gap: &f64| Some(gap * RATIO).filter(|gap| *gap <= LONGEST_NS);
    std::iter::successors(Some(SHORTEST_NS), next).collect()
}

impl Sweep {
    /// Of these (gap, lateness), ns, in the order of the gaps.
    pub fn new(late_ns: Vec<(f64, f64)>) -> Self {
        let limit = step(&late_ns);
        Self { late_ns, limit }
    }
}

/// The two levels that explain the points best, by absolute deviations, where
/// they are far enough apart.
fn step(points: &[(f64, f64)]) -> Option<Limit> {
    let levels = |at: usize| {
        let (quick, slow) = points.split_at(at);
        (median(quick), median(slow))
    };
    let misfit = |at: usize| {
        let (quick, slow) = levels(at);
        let away = |points: &[(f64, f64)], level: f64| -> f64 {
            points.iter().map(|point| (point.1 - level).abs()).sum()
        };
        away(&points[..at], quick) + away(&points[at..], slow)
    };
    let last = points.len().checked_sub(SIDE)?;
    let at = (SIDE..=last).min_by(|a, b| misfit(*a).total_cmp(&misfit(*b)))?;
    let (quick_ns, slow_ns) = levels(at);
    let step_ns = slow_ns - quick_ns;
    // Noise that wanders has a best step too, which explains little of it.
    let scatter_ns = misfit(at) / points.len() as f64;
    // So has what grows all the time, as caches cool: a line explains that.
    let is_step = misfit(at) <= STEP_OF_LINE * misfit_of_line(points);
    let clear =
        is_step && step_ns >= STEP_NS && step_ns >= quick_ns * STEP && step_ns >= 2.0 * scatter_ns;
    let ns = (points[at - 1].0 * points[at].0).sqrt();
    let was_idle = ns >= LIMIT_OF_QUICK * quick_ns;
    (clear && was_idle).then_some(Limit { ns, quick_ns, slow_ns })
}

/// What the best line over the logarithm of the gaps leaves, by absolute
/// deviations: its slope is the median of those between far points.
fn misfit_of_line(points: &[(f64, f64)]) -> f64 {
    let half = points.len() / 2;
    let at = |(gap, late): (f64, f64)| (gap.ln(), late);
    let slopes = points.iter().zip(&points[half..]).map(|(first, then)| {
        let ((x, y), (far_x, far_y)) = (at(*first), at(*then));
        (0.0, (far_y - y) / (far_x - x))
    });
    let slope = median(&slopes.collect::<Vec<_>>());
    let rests = points.iter().map(|point| (0.0, point.1 - slope * point.0.ln()));
    let rests: Vec<(f64, f64)> = rests.collect();
    let level = median(&rests);
    rests.iter().map(|rest| (rest.1 - level).abs()).sum()
}

fn median(points: &[(f64, f64)]) -> f64 {
    let mut late: Vec<f64> = points.iter().map(|point| point.1).collect();
    late.sort_by(f64::total_cmp);
    late.get(late.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A host by the rules of halt-polling.rst, ns: what it polls for now, and
    /// how late a wake-up after each gap comes.
    struct Host {
        limit: f64,
        polls: f64,
    }

    impl Host {
        fn wakes(&mut self, gap: f64, noise: f64) -> f64 {
            let late = if gap <= self.polls { 4_000.0 } else { 11_000.0 };
            if gap > self.limit {
                self.polls = 0.0;
            } else if gap > self.polls {
                self.polls = (self.polls * 2.0).clamp(10_000.0, self.limit);
            }
            late * (1.0 + noise)
        }
    }

    /// A sweep as it is measured: each gap again and again.
    fn swept(limit: f64, noise: &[f64]) -> Sweep {
        let mut host = Host { limit, polls: 0.0 };
        let mut noise = noise.iter().cycle();
        let quartile = |mut late: Vec<f64>| {
            late.sort_by(f64::total_cmp);
            late[late.len() / 4]
        };
        let mut late_ns = Vec::new();
        for gap in gaps_ns() {
            let all = (0..20).map(|_| host.wakes(gap, *noise.next().unwrap())).skip(8);
            late_ns.push((gap, quartile(all.collect())));
        }
        Sweep::new(late_ns)
    }

    #[test]
    fn gaps_reach_from_10_us_to_2_ms() {
        let gaps = gaps_ns();
        assert_eq!((gaps[0], gaps.len()), (10_000.0, 38));
        assert!(gaps[37] > LONGEST_NS / RATIO);
    }

    #[test]
    fn a_host_that_never_polls_has_no_limit() {
        assert_eq!(swept(0.0, &[0.0, 0.1, 0.05]).limit, None);
        assert_eq!(Sweep::new(Vec::new()).limit, None);
        assert_eq!(Sweep::new(vec![(1.0, f64::NAN); 20]).limit, None);
    }

    /// Seen in a Firecracker guest: wake-ups grow later all the way.
    #[test]
    fn what_grows_slowly_has_no_limit() {
        let grows = |gap: f64| (gap, 14_000.0 + 2_400.0 * (gap / 20_000.0).max(1.0).ln());
        assert_eq!(Sweep::new(gaps_ns().into_iter().map(grows).collect()).limit, None);
    }

    /// Seen in a guest of an emulated host: sleeps up to 100 µs never idle.
    #[test]
    fn a_sleep_that_never_idled_shows_no_limit() {
        let late = |gap: f64| (gap, if gap < 100e3 { 165e3 } else { 10e6 });
        assert_eq!(Sweep::new(gaps_ns().into_iter().map(late).collect()).limit, None);
        let polled = |gap: f64| (gap, if gap < 400e3 { 165e3 } else { 10e6 });
        let limit = Sweep::new(gaps_ns().into_iter().map(polled).collect()).limit;
        assert!(limit.is_some_and(|limit| (limit.ns / 400e3 - 1.0).abs() < 0.25), "{limit:?}");
    }

    proptest! {
        /// The bar: 25 %, behind noise of a third and wake-ups of which one in
        /// five is far later.
        #[test]
        fn the_limit_is_found(
            limit in 20_000.0..1_100_000.0f64,
            mut noise in prop::collection::vec(0.0..0.3f64, 97),
            far in prop::collection::vec(1.0..50.0f64, 19),
        ) {
            noise.chunks_mut(5).zip(far).for_each(|(chunk, far)| chunk[0] = far);
            let found = swept(limit, &noise).limit.map_or(0.0, |limit| limit.ns);
            prop_assert!((found / limit - 1.0).abs() <= 0.25, "{found} for {limit}");
        }

        /// Noise alone is no limit.
        #[test]
        fn noise_has_no_limit(noise in prop::collection::vec(0.0..0.3f64, 97)) {
            prop_assert_eq!(swept(0.0, &noise).limit, None);
        }
    }
}
