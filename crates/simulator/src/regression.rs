//! The regression, to compare the keeper with: the idea of chronyd (Miroslav Lichvar's
//! chrony, doc/faq.adoc, and what its sourcestats.c, reference.c and sys_generic.c
//! compute): a line through the last offsets, weighted by how much longer than the
//! shortest their delay was, its length ended by a test of runs; the frequency is set as
//! far as the line is surer of it than what was known; the offset is slewed the slower
//! the smaller it is beside its own uncertainty, at up to 83 333 ppm, and both together
//! by at most 100 000 ppm, which is the range of Linux's tick (`maxdrift` and
//! `maxslewrate` in doc/chrony.conf.adoc). A step is made in the first three updates
//! only, beyond 1 s (`makestep 1 3`). `cargo xtask bench regression` compares it with
//! chronyd.

use std::collections::VecDeque;

use kernel_clock::Timex;
use kernel_clock::timex::mode;

use crate::daemons::{announce_leap, max_error_us, median};
use crate::network::SimulatedReply;
use crate::scrape::SimulatedTracking;
use crate::world::SimulatedWorld;

/// An offset of the clock as it would be without corrections since.
#[derive(Debug, Clone, Copy)]
struct RegressionPoint {
    at_s: f64,
    offset_s: f64,
    delay_s: f64,
}

/// Points of a line.
const MOST: usize = 64;
const FEWEST: usize = 3;

/// A delay is long by the deviation of delays, which is this part of what the median is
/// above the shortest.
const DEVIATION: f64 = 0.7;

/// An offset as large as its uncertainty is slewed in so many intervals
/// (`corrtimeratio`): the triangle under it is half of that.
const CORRECTION_TIME: f64 = 3.0 * 0.5;

/// Student's t of 99.9 %, two-sided, by degrees of freedom from 1.
const STUDENT: [f64; 10] = [636.6, 31.6, 12.92, 8.61, 6.869, 5.959, 5.408, 5.041, 4.781, 4.587];

/// chronyd's fastest slew (`maxslewrate`), ppm.
const FASTEST_PPM: f64 = 83_333.333;

/// What Linux's tick can hold, of frequency and slew together, ppb.
const MOST_PPB: f64 = 1e8;

/// A frequency that is less certain is not set (`maxupdateskew`), s/s: after a jump
/// of the clock the line through both sides of it is no frequency.
const MOST_SKEW: f64 = 1e-3;

/// How a frequency that was measured weighs beside one that was known.
const MEASURED: f64 = 3.0;

/// Offsets beyond this are stepped in the first updates, s.
const MAKESTEP_S: f64 = 1.0;
const MAKESTEP_UPDATES: u32 = 3;

/// What a line says of the last point's time.
#[derive(Debug, Clone, Copy)]
struct Fit {
    offset_s: f64,
    /// Its deviation.
    uncertain_s: f64,
    slope: f64,
    /// Half of the interval that the slope is in.
    skew: f64,
}

/// The regression.
#[derive(Debug, Default)]
pub(crate) struct Regression {
    /// The last, of which the line goes through some; as many before those tell
    /// whether it is one.
    points: VecDeque<RegressionPoint>,
    used: usize,
    /// The frequency that is set, ppb, and how uncertain it is, s/s.
    ppb: f64,
    skew: Option<f64>,
    /// When it was updated last, by CLOCK_MONOTONIC, s.
    updated_s: f64,
    updates: u32,
    /// A slew's rate, ppb, its begin by CLOCK_MONOTONIC, s, and its end, true ns.
    slew: Option<(f64, f64, i64)>,
    /// The last reply, and when it came by CLOCK_MONOTONIC, s.
    last: Option<(SimulatedReply, f64)>,
    /// What the line said then.
    fit: Option<Fit>,
}

impl Regression {
    /// When the slew is to end, true ns.
    pub(crate) fn wakes_ns(&self) -> Option<i64> {
        self.slew.map(|(.., until_ns)| until_ns)
    }

    /// What `chronyc tracking` would show, once it was synchronised.
    pub(crate) fn tracking(&self, world: &SimulatedWorld) -> Option<SimulatedTracking> {
        /// `maxclockerror`.
        const WANDER: f64 = 1e-6;
        let (last, at_s) = self.last?;
        let (offset_s, uncertain_s, skew) = match self.fit {
            Some(Fit { offset_s, uncertain_s, skew, .. }) => (offset_s, uncertain_s, skew),
            None => (last.offset_ns as f64 * 1e-9, 0.0, 0.0),
        };
        let now_s = world.monotonic_ns() as f64 * 1e-9;
        // What is left of a slew, by its end.
        let left_s = self.slew.map_or(0.0, |(ppb, _, until_ns)| {
            ((until_ns - world.now_ns) as f64 * ppb * 1e-18).clamp(-1e9, 1e9)
        });
        Some(SimulatedTracking {
            left_s,
            last_offset_s: offset_s,
            root_s: last.bound_ns as f64 * 1e-9
                + uncertain_s
                + (now_s - at_s) * (WANDER + skew.min(1.0)),
            age_s: now_s - at_s,
        })
    }

    /// Another has set the clock, or the machine was away: all that was measured
    /// is dropped (`chronyc reset sources`).
    pub(crate) fn restart(&mut self, world: &mut SimulatedWorld) {
        self.end_slew(world);
        self.forget();
    }

    /// It is started again, with the frequency that it had.
    pub(crate) fn start_anew(&mut self, world: &mut SimulatedWorld) {
        self.restart(world);
        (self.updates, self.last, self.fit) = (0, None, None);
    }

    fn forget(&mut self) {
        self.points.clear();
        self.used = 0;
    }

    /// The slew ends.
    pub(crate) fn end_slew(&mut self, world: &mut SimulatedWorld) {
        if let Some((ppb, since_s, _)) = self.slew.take() {
            let now_s = world.monotonic_ns() as f64 * 1e-9;
            let slewed_s = (now_s - since_s) * ppb * 1e-9;
            for point in &mut self.points {
                point.offset_s -= slewed_s;
            }
            let _ = world.kernel.set_rate(self.ppb);
        }
    }

    pub(crate) fn poll(&mut self, world: &mut SimulatedWorld) {
        world.counts.polls += 1;
        self.end_slew(world);
        let Some(reply) = median(world) else { return };
        let (modes, status) = (mode::STATUS | mode::MAXERROR, announce_leap(world, 0));
        let max_error = max_error_us(reply);
        let _ = world.kernel.adjust(Timex { modes, status, max_error, ..Timex::default() });
        let at_s = world.monotonic_ns() as f64 * 1e-9;
        self.last = Some((reply, at_s));
        let offset_s = reply.offset_ns as f64 * 1e-9;
        self.points.push_back(RegressionPoint {
            at_s,
            offset_s,
            delay_s: reply.bound_ns as f64 * 1e-9,
        });
        self.used = MOST.min(self.used + 1);
        self.updates = self.updates.saturating_add(1);
        if offset_s.abs() > MAKESTEP_S && self.updates <= MAKESTEP_UPDATES {
            world.step(reply.offset_ns);
            return self.forget();
        }
        let interval_s = at_s - std::mem::replace(&mut self.updated_s, at_s);
        self.fit = self.fitted(at_s);
        let Some(fit) = self.fit else { return self.slew(world, offset_s, 0.0, at_s) };
        let gained = self.gain(fit);
        self.ppb = (self.ppb + gained * 1e9).clamp(-MOST_PPB, MOST_PPB);
        for point in &mut self.points {
            point.offset_s += gained * (at_s - point.at_s);
        }
        self.slew(world, fit.offset_s, CORRECTION_TIME * fit.uncertain_s * interval_s, at_s);
    }

    /// By how much the frequency is to change: what the line says and what was known, by
    /// their uncertainties.
    fn gain(&mut self, Fit { slope, skew, .. }: Fit) -> f64 {
        let known = self.skew.unwrap_or(1.0);
        let measured = MEASURED * known * known;
        let gain = if skew > MOST_SKEW { 0.0 } else { measured / (measured + skew * skew) };
        let taken = gain * slope;
        // What is left between the two is uncertain too.
        let left = slope - taken;
        let extra = (taken * taken * (1.0 - gain) + left * left * gain).sqrt();
        self.skew = Some(known + gain * (skew - known) + extra);
        taken
    }

    /// Slews an offset, the longer the smaller it is: the product of both is `area`, s².
    fn slew(&mut self, world: &mut SimulatedWorld, offset_s: f64, area: f64, at_s: f64) {
        let within_s = (area / offset_s.abs()).clamp(1.0, 1e4);
        let ppm = (offset_s / within_s * 1e6).clamp(-FASTEST_PPM, FASTEST_PPM);
        // The tick and the frequency are set in steps: what is set is counted.
        let ppb = (ppm * 1000.0 + self.ppb).round().clamp(-MOST_PPB, MOST_PPB) - self.ppb;
        let _ = world.kernel.set_rate(self.ppb + ppb);
        world.counts.slews += 1;
        if ppb != 0.0 {
            let takes_ns = (offset_s * 1e9 / (ppb * 1e-9)).clamp(0.0, 1e15) as i64;
            self.slew = Some((ppb, at_s, world.now_ns + takes_ns));
        }
    }

    /// The line through as many of the last points as it fits; none through too few.
    fn fitted(&mut self, at_s: f64) -> Option<Fit> {
        let points = self.points.make_contiguous();
        let fit = loop {
            let used = points.get(points.len() - self.used..)?;
            if used.len() < FEWEST {
                return None;
            }
            let weights = weights(used);
            let mut sums = [0.0_f64; 5];
            for (point, weight) in used.iter().zip(&weights) {
                let (x, y) = (point.at_s - at_s, point.offset_s);
                for (sum, term) in sums.iter_mut().zip([1.0, x, y, x * x, x * y]) {
                    *sum += weight * term;
                }
            }
            let [n, x, y, xx, xy] = sums;
            let slope = (n * xy - x * y) / (n * xx - x * x);
            let offset_s = (y - slope * x) / n;
            let residual = |it: &RegressionPoint| it.offset_s - offset_s - slope * (it.at_s - at_s);
            let tested = &points[points.len().saturating_sub(2 * used.len())..];
            if used.len() == FEWEST || is_noise(tested.iter().map(residual)) {
                let square = |(point, weight): (&RegressionPoint, &f64)| {
                    let residual = residual(point);
                    weight * residual * residual
                };
                let free = used.len() - 2;
                let variance = used.iter().zip(&weights).map(square).sum::<f64>() / free as f64;
                let slope_s = (variance * n / (n * xx - x * x)).sqrt();
                let of_slope = x / n * slope_s;
                let uncertain_s = (variance / n + of_slope * of_slope).sqrt();
                break Fit { offset_s, uncertain_s, slope, skew: slope_s * student(free) };
            }
            // No line: the oldest do not belong to it.
            self.used -= 1;
        };
        let outside = self.points.len().saturating_sub(2 * self.used);
        self.points.drain(..outside);
        Some(fit)
    }
}

/// 1 for the shortest delay, and a quarter for one that is a deviation longer.
fn weights(points: &[RegressionPoint]) -> Vec<f64> {
    let mut delays: Vec<f64> = points.iter().map(|point| point.delay_s).collect();
    delays.sort_by(f64::total_cmp);
    let (least_s, median_s) = (delays[0], delays[delays.len() / 2]);
    let deviation_s = ((median_s - least_s) / DEVIATION).clamp(1e-9, least_s.max(1e-9));
    let weight = |point: &RegressionPoint| {
        let apart = 1.0 + (point.delay_s - least_s) / deviation_s;
        1.0 / (apart * apart)
    };
    points.iter().map(weight).collect()
}

fn student(free: usize) -> f64 {
    let far = |last: f64| 3.29 + (last - 3.29) * STUDENT.len() as f64 / free as f64;
    STUDENT.get(free - 1).copied().unwrap_or_else(|| far(STUDENT[STUDENT.len() - 1]))
}

/// Whether these are as noise is: of n, n/2 + 1 runs of one sign are expected, with a
/// deviation of √(n − 1) / 2, and 5 % of noise has fewer than 1.645 of those less.
fn is_noise(residuals: impl Iterator<Item = f64>) -> bool {
    let signs = residuals.map(|residual| residual >= 0.0);
    let (count, runs, _) = signs.fold((0_u32, 0_u32, None), |(count, runs, last), sign| {
        (count + 1, runs + u32::from(last != Some(sign)), Some(sign))
    });
    let n = f64::from(count);
    // Of fewer than 8 nothing can be said.
    count < 8 || f64::from(runs) > (n / 2.0 + 1.0 - 1.645 * (n - 1.0).sqrt() / 2.0).floor()
}
