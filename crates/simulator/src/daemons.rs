//! Disciplines to compare the keeper with.
//!
//! The PLL: what ntpd does with the kernel's (RFC 5905, appendix A.5.5.6, and
//! ntpd's documentation of `tinker`): each poll's offset goes to the kernel; one
//! beyond 128 ms is stepped by after it has lasted for 300 s; one beyond 1000 s
//! ends the daemon.
//!
//! The regression: the idea of chronyd (Miroslav Lichvar's chrony,
//! doc/faq.adoc; Richard Curnow's design notes): a line through the last offsets,
//! weighted by delay, its length ended by a test of runs; frequency and offset are
//! set together, the offset by a faster or slower clock, at up to 83 333 ppm, and
//! both together by at most 100 000 ppm, which is the range of Linux's tick
//! (`maxdrift` and `maxslewrate` in doc/chrony.conf.adoc). A step is made in the
//! first three updates only, beyond 1 s (`makestep 1 3`).

use std::collections::VecDeque;

use timekeeper::Timex;
use timekeeper::timex::{mode, status};

use crate::network::Reply;
use crate::scrape::Tracking;
use crate::world::World;

/// The median of what the servers show: one that lies does not move it far.
fn median(world: &mut World) -> Option<Reply> {
    let mut replies: Vec<Reply> =
        (0..world.network.len()).filter_map(|server| world.ask(server)).collect();
    replies.sort_by_key(|reply| reply.offset_ns);
    replies.get(replies.len() / 2).copied()
}

/// Has the kernel insert the second that servers announce for today.
fn announce_leap(world: &mut World, bits: i32) -> i32 {
    const DAY_NS: i64 = 86_400_000_000_000;
    let is_near = world.truth.leap_ns().is_some_and(|leap_ns| {
        (0..DAY_NS).contains(&(leap_ns - world.now_ns)) && !world.network.smears()
    });
    if is_near { bits | status::INS } else { bits & !status::INS }
}

/// The bound that both tell the kernel, µs.
fn max_error_us(reply: Reply) -> i64 {
    let ns = reply.bound_ns.saturating_add(reply.offset_ns.unsigned_abs());
    i64::try_from(ns.div_ceil(1000)).unwrap_or(i64::MAX)
}

/// The kernel's PLL, fed.
#[derive(Debug)]
pub(crate) struct Pll {
    /// Between two polls: the loop's time constant is its log₂.
    poll_s: u64,
    /// Since when the offset has been beyond the step threshold, true ns.
    beyond_since_ns: Option<i64>,
    has_given_up: bool,
}

const STEP_NS: i64 = 128_000_000;
const STEP_AFTER_NS: i64 = 300_000_000_000;
const PANIC_NS: i64 = 1_000_000_000_000;

impl Pll {
    pub(crate) fn new(poll_s: u64) -> Self {
        Self { poll_s, beyond_since_ns: None, has_given_up: false }
    }

    pub(crate) fn poll(&mut self, world: &mut World) {
        world.counts.polls += 1;
        if self.has_given_up {
            return;
        }
        let Some(reply) = median(world) else { return };
        if reply.offset_ns.abs() > PANIC_NS {
            self.has_given_up = true;
            return;
        }
        if reply.offset_ns.abs() > STEP_NS {
            let since_ns = *self.beyond_since_ns.get_or_insert(world.now_ns);
            if world.now_ns - since_ns >= STEP_AFTER_NS {
                world.step(reply.offset_ns);
                self.beyond_since_ns = None;
            }
            return;
        }
        self.beyond_since_ns = None;
        let status = announce_leap(world, status::PLL);
        let modes = mode::OFFSET | mode::STATUS | mode::TIMECONST | mode::NANO | mode::MAXERROR;
        let constant = i64::from(self.poll_s.max(1).ilog2());
        let (offset, max_error) = (reply.offset_ns, max_error_us(reply));
        let timex = Timex { modes, status, constant, offset, max_error, ..Timex::default() };
        let _ = world.kernel.adjust(timex);
    }
}

/// An offset of the clock as it would be without corrections since.
#[derive(Debug, Clone, Copy)]
struct Point {
    at_s: f64,
    offset_s: f64,
    delay_s: f64,
}

/// Points of a line.
const MOST: usize = 32;
const FEWEST: usize = 4;

/// chronyd's fastest slew (`maxslewrate`), ppm.
const FASTEST_PPM: f64 = 83_333.333;

/// What Linux's tick can hold, of frequency and slew together, ppb.
const MOST_PPB: f64 = 1e8;

/// A frequency that is less certain is not set (`maxupdateskew`), s/s: after a jump
/// of the clock the line through both sides of it is no frequency.
const MOST_SKEW: f64 = 1e-3;

/// Offsets beyond this are stepped in the first updates, s.
const MAKESTEP_S: f64 = 1.0;
const MAKESTEP_UPDATES: u32 = 3;

/// What the line through the samples shows.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    /// The offset, and its deviation, s.
    offset_s: f64,
    offset_sd_s: f64,
    /// The frequency's, s/s.
    skew: f64,
}

/// The regression.
#[derive(Debug, Default)]
pub(crate) struct Regression {
    points: VecDeque<Point>,
    /// The frequency that is set, ppb.
    ppb: f64,
    updates: u32,
    /// A slew's rate, ppb, its begin by CLOCK_MONOTONIC, s, and its end, true ns.
    slew: Option<(f64, f64, i64)>,
    /// The last reply, and when it came by CLOCK_MONOTONIC, s.
    last: Option<(Reply, f64)>,
    fit: Fit,
}

impl Regression {
    /// When the slew is to end, true ns.
    pub(crate) fn wakes_ns(&self) -> Option<i64> {
        self.slew.map(|(.., until_ns)| until_ns)
    }

    /// What `chronyc tracking` would show, once it was synchronised.
    pub(crate) fn tracking(&self, world: &World) -> Option<Tracking> {
        /// `maxclockerror`.
        const WANDER: f64 = 1e-6;
        let (last, at_s) = self.last?;
        let Fit { offset_s, offset_sd_s, skew } = self.fit;
        let now_s = world.monotonic_ns() as f64 * 1e-9;
        // What is left of a slew, by its end.
        let left_s = self.slew.map_or(0.0, |(ppb, _, until_ns)| {
            ((until_ns - world.now_ns) as f64 * ppb * 1e-18).clamp(-1e9, 1e9)
        });
        Some(Tracking {
            left_s,
            last_offset_s: offset_s,
            root_s: last.bound_ns as f64 * 1e-9
                + offset_sd_s
                + (now_s - at_s) * (WANDER + skew.min(1.0)),
            age_s: now_s - at_s,
        })
    }

    /// Another has set the clock, or the machine was away: all that was measured
    /// is dropped (`chronyc reset sources`).
    pub(crate) fn restart(&mut self, world: &mut World) {
        self.end_slew(world);
        self.points.clear();
    }

    /// It is started again, with the frequency that it had.
    pub(crate) fn start_anew(&mut self, world: &mut World) {
        self.restart(world);
        (self.updates, self.last) = (0, None);
    }

    /// The slew ends.
    pub(crate) fn end_slew(&mut self, world: &mut World) {
        if let Some((ppb, since_s, _)) = self.slew.take() {
            let now_s = world.monotonic_ns() as f64 * 1e-9;
            let slewed_s = (now_s - since_s) * ppb * 1e-9;
            for point in &mut self.points {
                point.offset_s -= slewed_s;
            }
            let _ = world.kernel.set_rate(self.ppb);
        }
    }

    pub(crate) fn poll(&mut self, world: &mut World) {
        world.counts.polls += 1;
        self.end_slew(world);
        let Some(reply) = median(world) else { return };
        let (modes, status) = (mode::STATUS | mode::MAXERROR, announce_leap(world, 0));
        let max_error = max_error_us(reply);
        let _ = world.kernel.adjust(Timex { modes, status, max_error, ..Timex::default() });
        let at_s = world.monotonic_ns() as f64 * 1e-9;
        self.last = Some((reply, at_s));
        let offset_s = reply.offset_ns as f64 * 1e-9;
        self.points.push_back(Point { at_s, offset_s, delay_s: reply.bound_ns as f64 * 1e-9 });
        if self.points.len() > MOST {
            self.points.pop_front();
        }
        self.updates = self.updates.saturating_add(1);
        if offset_s.abs() > MAKESTEP_S && self.updates <= MAKESTEP_UPDATES {
            world.step(reply.offset_ns);
            return self.points.clear();
        }
        let (offset_s, slope) = self.fitted(at_s);
        if let Some(slope) = slope {
            self.ppb = (self.ppb + slope * 1e9).clamp(-MOST_PPB, MOST_PPB);
            for point in &mut self.points {
                point.offset_s += slope * (at_s - point.at_s);
            }
        }
        self.slew(world, offset_s, at_s);
    }

    /// Slews an offset: within a quarter of a minute if it may.
    fn slew(&mut self, world: &mut World, offset_s: f64, at_s: f64) {
        const WITHIN_S: f64 = 16.0;
        let ppm = (offset_s / WITHIN_S * 1e6).clamp(-FASTEST_PPM, FASTEST_PPM);
        // The tick and the frequency are set in steps: what is set is counted.
        let ppb = (ppm * 1000.0 + self.ppb).round().clamp(-MOST_PPB, MOST_PPB) - self.ppb;
        let _ = world.kernel.set_rate(self.ppb + ppb);
        world.counts.slews += 1;
        if ppb != 0.0 {
            let takes_ns = (offset_s * 1e9 / (ppb * 1e-9)).clamp(0.0, 1e15) as i64;
            self.slew = Some((ppb, at_s, world.now_ns + takes_ns));
        }
    }

    /// The offset now and the frequency's error, by the line through as many of
    /// the last points as it fits; the last point alone while there are too few.
    fn fitted(&mut self, at_s: f64) -> (f64, Option<f64>) {
        loop {
            let last = self.points.back().map_or(0.0, |point| point.offset_s);
            if self.points.len() < FEWEST {
                self.fit = Fit { offset_s: last, ..Fit::default() };
                return (last, None);
            }
            let least_s = self.points.iter().map(|point| point.delay_s).fold(f64::MAX, f64::min);
            let weight = |point: &Point| {
                let ratio = least_s / point.delay_s.max(1e-9);
                ratio * ratio
            };
            let mut sums = [0.0_f64; 5];
            for point in &self.points {
                let (weight, x, y) = (weight(point), point.at_s - at_s, point.offset_s);
                for (sum, term) in sums.iter_mut().zip([1.0, x, y, x * x, x * y]) {
                    *sum += weight * term;
                }
            }
            let [n, x, y, xx, xy] = sums;
            let slope = (n * xy - x * y) / (n * xx - x * x);
            let offset = (y - slope * x) / n;
            let residual = |it: &Point| it.offset_s - offset - slope * (it.at_s - at_s);
            let residuals = self.points.iter().map(residual);
            if runs(residuals) >= needed_runs(self.points.len()) || self.points.len() <= FEWEST {
                let squares: f64 =
                    self.points.iter().map(|it| weight(it) * residual(it) * residual(it)).sum();
                let free = (self.points.len() - 2) as f64;
                let skew = (squares / free * n / (n * xx - x * x)).sqrt();
                // As chronyd's root dispersion has it (sourcestats.c).
                let offset_sd_s = (squares / free * xx / (n * xx - x * x)).sqrt();
                self.fit = Fit { offset_s: offset, offset_sd_s, skew };
                return (offset, (skew <= MOST_SKEW).then_some(slope));
            }
            // No line: the oldest do not belong to it.
            self.points.pop_front();
        }
    }
}

/// Runs of one sign.
fn runs(residuals: impl Iterator<Item = f64>) -> usize {
    let signs = residuals.map(|residual| residual >= 0.0);
    let (count, _) = signs.fold((0, None), |(count, last), sign| {
        (count + usize::from(last != Some(sign)), Some(sign))
    });
    count
}

/// Fewer runs of `n` residuals than this are no noise: half of them and one are
/// expected, with a deviation of √(n − 1) / 2; two of those are allowed.
fn needed_runs(n: usize) -> usize {
    let n = n as f64;
    (n / 2.0 + 1.0 - (n - 1.0).sqrt()).floor().max(1.0) as usize
}
