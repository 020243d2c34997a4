//! From samples of the system's clock to segments of time: calibration,
//! steering, and what to do when TSC and system disagree.

use crate::timeline::bound::growth_ns;
use crate::timeline::sample::{RateBounds, TimelineSample};
use crate::timeline::segment::{LONGEST_NS, Segment, SegmentRate};

/// How long the TSC is measured before its rate is used: the uncertainty
/// of two samples, some 50 ns each, is then 10 ppm, or 200 ns over a segment.
pub const BASELINE_NS: u64 = 10_000_000;
/// How far the system may be from where it is expected: no correction of its
/// rate moves it as far within a segment.
pub const JUMP_NS: u64 = 100_000;
/// And how much farther for each ns since the last sample: twice what the
/// kernel permits a daemon.
const JUMP_PPM: u64 = 1_000;
/// How long segments are added without a good sample.
const COAST_NS: u64 = 1_000_000_000;
/// Disruptions in a row after which the TSC is not used for a while.
const STRIKES: u32 = 4;
/// For how long.
const PENALTY_NS: u64 = 60_000_000_000;
/// Good steps after which earlier disruptions are forgiven.
const GOOD_STEPS: u32 = 50;
/// Rates of a counter that can be a TSC: 50 MHz to 50 GHz.
const PLAUSIBLE: core::ops::RangeInclusive<SegmentRate> =
    SegmentRate((1 << 32) / 50)..=SegmentRate((1 << 32) * 20);

/// Why the TSC is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// This machine has no counter that a program can read.
    NoCounter,
    /// The CPU does not promise a constant rate in all its states: CPUID
    /// 8000_0007h EDX bit 8, "invariant TSC".
    NotInvariant,
    /// The kernel's own clock source does not count the TSC.
    Clocksource,
    /// It disagreed with the system's clock repeatedly.
    Disagrees,
}

/// What was wrong with a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SteeringDisruption {
    /// The TSC went back.
    WentBack,
    /// The system's clock was this much later than the TSC predicted, ns.
    Jumped {
        /// Negative for earlier.
        by_ns: i64,
    },
    /// The host announced, in the VMClock page, that the machine was restored
    /// from a snapshot or migrated.
    Announced,
}

/// The state of the steering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SteeringPhase {
    /// The rate is being measured, from this sample on.
    Calibrating(Option<TimelineSample>),
    /// The rate is known, as of this sample.
    Tracking { last: TimelineSample, rate: SegmentRate },
    /// The TSC is not used before this time.
    Distrusted { why: Distrust, until_ns: u64 },
}

/// The shape of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteeringLimits {
    /// How long a segment is, ns.
    pub segment_ns: u64,
    /// How much faster or slower than the system a segment may go to meet it.
    pub slew_ppm: u32,
}

/// The state machine: samples in, segments out.
#[derive(Debug)]
pub struct ClockSteering {
    limits: SteeringLimits,
    phase: SteeringPhase,
    /// The last segment created, and the one before.
    pub newest: Segment,
    /// See `newest`.
    pub older: Segment,
    /// How far our time was from the system's at the last sample, with the
    /// uncertainty of the sample, ns.
    pub tracking_ns: u64,
    /// How far our time may be from the system's until the next sample, ns, if
    /// the system keeps the rate of the last one.
    bound_ns: u64,
    /// When that was, ns.
    sampled_at_ns: u64,
    /// How often TSC and system disagreed.
    pub disruptions: u64,
    /// The last disruption.
    pub last_disruption: Option<SteeringDisruption>,
    strikes: u32,
    good_steps: u32,
}

impl ClockSteering {
    /// Nothing known, except that times up to `floor_ns` may have been returned.
    pub const fn new(limits: SteeringLimits, floor_ns: u64) -> Self {
        Self {
            limits,
            phase: SteeringPhase::Calibrating(None),
            newest: Segment::none(floor_ns),
            older: Segment::none(floor_ns),
            tracking_ns: 0,
            bound_ns: 0,
            sampled_at_ns: u64::MAX,
            disruptions: 0,
            last_disruption: None,
            strikes: 0,
            good_steps: 0,
        }
    }

    /// No time returned so far exceeds this, ns.
    pub const fn floor_ns(&self) -> u64 {
        self.newest.end_ns()
    }

    /// The rate, while there is one.
    pub const fn rate(&self) -> Option<SegmentRate> {
        match self.phase {
            SteeringPhase::Tracking { rate, .. } => Some(rate),
            _ => None,
        }
    }

    /// Why the TSC is not used, if it is not.
    pub const fn distrust(&self) -> Option<Distrust> {
        match self.phase {
            SteeringPhase::Distrusted { why, .. } => Some(why),
            _ => None,
        }
    }

    /// How far our time on the segments may be from the system's at `now_ns`;
    /// more from then on by 500 ppm, as all errors.
    pub const fn error_ns(&self, now_ns: u64) -> u64 {
        self.bound_ns.saturating_add(growth_ns(self.sampled_at_ns, now_ns))
    }

    /// Stops using the TSC for so long, for this reason.
    pub fn suspend(&mut self, why: Distrust, now_ns: u64, for_ns: u64) {
        self.phase = SteeringPhase::Distrusted { why, until_ns: now_ns.saturating_add(for_ns) };
        self.close();
    }

    /// The host announced a disruption.
    pub fn disruption_announced(&mut self) {
        self.disrupt(SteeringDisruption::Announced, None);
        // This is no evidence that the TSC is bad.
        self.strikes = 0;
    }

    /// Takes a sample, and creates the next segment if it can. Returns whether
    /// TSC and system agreed.
    pub fn step(&mut self, sample: &TimelineSample) -> bool {
        match self.phase {
            SteeringPhase::Distrusted { until_ns, .. } if sample.ns < until_ns => true,
            SteeringPhase::Distrusted { .. } | SteeringPhase::Calibrating(None) => {
                self.phase = SteeringPhase::Calibrating(Some(*sample));
                true
            }
            SteeringPhase::Calibrating(Some(first)) => self.calibrate(&first, sample),
            SteeringPhase::Tracking { last, rate } => self.track(&last, rate, sample),
        }
    }

    /// There was no usable sample: continues as before for a while.
    pub fn coast(&mut self, now_tsc: u64) {
        let SteeringPhase::Tracking { last, rate } = self.phase else { return };
        let since_ns = rate.ns(now_tsc.wrapping_sub(last.middle()));
        if self.newest.contains(now_tsc) && since_ns < COAST_NS {
            self.append(rate);
        }
    }

    fn calibrate(&mut self, first: &TimelineSample, sample: &TimelineSample) -> bool {
        let Some(bounds) = RateBounds::between(first, sample) else {
            self.disrupt(SteeringDisruption::WentBack, Some(sample));
            return false;
        };
        if sample.ns - first.ns < BASELINE_NS {
            return true;
        }
        if !PLAUSIBLE.contains(&bounds.middle) {
            self.suspend(Distrust::Disagrees, sample.ns, PENALTY_NS);
            return false;
        }
        self.phase = SteeringPhase::Tracking { last: *sample, rate: bounds.middle };
        self.restart(sample, bounds.high);
        true
    }

    fn track(&mut self, last: &TimelineSample, rate: SegmentRate, sample: &TimelineSample) -> bool {
        let Some(bounds) = RateBounds::between(last, sample) else {
            self.disrupt(SteeringDisruption::WentBack, Some(sample));
            return false;
        };
        let by_ns = deviation_ns(last, rate, sample);
        let elapsed_ns = sample.ns - last.ns;
        if by_ns.unsigned_abs() > JUMP_NS + elapsed_ns / 1_000_000 * JUMP_PPM {
            self.disrupt(SteeringDisruption::Jumped { by_ns }, Some(sample));
            return false;
        }
        self.forgive();
        let mut high = rate;
        if elapsed_ns >= BASELINE_NS {
            let rate = learn(rate, &bounds);
            high = rate.max(bounds.high);
            self.phase = SteeringPhase::Tracking { last: *sample, rate };
        }
        let SteeringPhase::Tracking { rate, .. } = self.phase else { return true };
        if self.newest.contains(sample.before) {
            self.follow(sample, rate);
        } else if !self.older.contains(sample.after) && !self.newest.contains(sample.after) {
            let most = rate.0 + rate.ppm(self.limits.slew_ppm);
            self.restart(sample, SegmentRate(high.0.min(most)));
        }
        true
    }

    /// A segment that joins the newest and meets the system at its end, if
    /// the permitted slew gets it there.
    fn follow(&mut self, sample: &TimelineSample, rate: SegmentRate) {
        let ours_ns = self.newest.time_ns(sample.middle());
        self.tracking_ns = ours_ns.abs_diff(sample.ns) + rate.ns(sample.width()).div_ceil(2) + 1;
        self.bound_error(sample, rate);
        let (end_tsc, end_ns) = (self.newest.end_tsc(), self.newest.end_ns());
        let system_ns = sample.ns + rate.ns(end_tsc.wrapping_sub(sample.middle()));
        let behind_ns = i128::from(system_ns) - i128::from(end_ns);
        let cycles = rate.cycles(self.limits.segment_ns.min(LONGEST_NS)).max(1);
        let wanted = (behind_ns << 32) / i128::from(cycles);
        let most = i128::from(self.max_slew(rate, behind_ns.unsigned_abs()));
        let slewed = i128::from(rate.0) + wanted.clamp(-most, most);
        self.append_at(end_tsc, end_ns, SegmentRate(slewed.max(1) as u64));
    }

    /// How far a segment's rate may be from the system's, when it is
    /// `away_ns` from it. Only after a disruption is it farther away than a
    /// jump; then half the rate, so that the system's clock soon reaches a
    /// clock that is ahead of it.
    const fn max_slew(&self, rate: SegmentRate, away_ns: u128) -> u64 {
        if away_ns > JUMP_NS as u128 { rate.0 / 2 } else { rate.ppm(self.limits.slew_ppm) }
    }

    /// A segment that begins at the sample: no reader is on the segments.
    ///
    /// It begins with the system's time at the first TSC at which that can have
    /// been read, and has the highest rate that the TSC can have: so it is
    /// nowhere below the system's clock, which readers used meanwhile.
    fn restart(&mut self, sample: &TimelineSample, high: SegmentRate) {
        let floor_ns = self.floor_ns();
        let base_ns = sample.ns.max(floor_ns);
        let segment_ns = self.limits.segment_ns.min(LONGEST_NS);
        let mut rate = high;
        let above_ns = base_ns - sample.ns;
        if above_ns > 0 {
            let left_ns = segment_ns.saturating_sub(above_ns);
            let to_meet =
                (u128::from(high.0) * u128::from(left_ns)).div_ceil(u128::from(segment_ns));
            rate = SegmentRate((to_meet as u64).max(high.0 / 2));
        }
        self.tracking_ns = above_ns + high.ns(sample.width()) + 1;
        self.older = Segment::none(floor_ns);
        self.newest = Segment::new(sample.before, base_ns, rate, segment_ns);
        self.bound_error(sample, self.rate().unwrap_or(high));
    }

    /// Bounds the error until the next sample: a segment that was created by an
    /// older rate may diverge from the system until it ends.
    fn bound_error(&mut self, sample: &TimelineSample, rate: SegmentRate) {
        let ahead_ns = rate.ns(self.newest.end_tsc().wrapping_sub(sample.middle()));
        let away_ns = self.newest.end_ns().abs_diff(sample.ns + ahead_ns);
        let uncertain_ns = rate.ns(sample.width()).div_ceil(2) + 1;
        self.sampled_at_ns = sample.ns;
        // A reader's time is of a whole cycle, in whole ns.
        self.bound_ns = self.tracking_ns.max(away_ns + uncertain_ns) + rate.ns(1) + 2;
    }

    fn append(&mut self, rate: SegmentRate) {
        self.append_at(self.newest.end_tsc(), self.newest.end_ns(), rate);
    }

    fn append_at(&mut self, start_tsc: u64, base_ns: u64, rate: SegmentRate) {
        self.older = self.newest;
        self.newest = Segment::new(start_tsc, base_ns, rate, self.limits.segment_ns);
    }

    /// Drops the segments; no later time is below those returned.
    fn close(&mut self) {
        self.newest = Segment::none(self.floor_ns());
        self.older = self.newest;
        self.tracking_ns = 0;
        self.bound_ns = 0;
        self.sampled_at_ns = u64::MAX;
    }

    fn disrupt(&mut self, what: SteeringDisruption, sample: Option<&TimelineSample>) {
        self.disruptions += 1;
        self.last_disruption = Some(what);
        self.strikes += 1;
        self.good_steps = 0;
        self.close();
        self.phase = SteeringPhase::Calibrating(sample.copied());
        if let Some(sample) = sample.filter(|_| self.strikes >= STRIKES) {
            self.strikes = 0;
            self.suspend(Distrust::Disagrees, sample.ns, PENALTY_NS);
        }
    }

    fn forgive(&mut self) {
        self.good_steps += 1;
        if self.good_steps >= GOOD_STEPS {
            self.strikes = 0;
            self.good_steps = 0;
        }
    }
}

/// How much later the system's clock is than the TSC predicts, at least.
fn deviation_ns(last: &TimelineSample, rate: SegmentRate, sample: &TimelineSample) -> i64 {
    let low = last.ns.saturating_add(rate.ns(sample.before.wrapping_sub(last.after)));
    let high = last.ns.saturating_add(rate.ns(sample.after.wrapping_sub(last.before)));
    let outside = if sample.ns < low {
        i128::from(sample.ns) - i128::from(low)
    } else {
        i128::from(sample.ns.saturating_sub(high))
    };
    outside.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The rate after a sample. A rate within the sample's bounds moves a quarter
/// of the way, which filters most of the noise of where in its bracket the
/// clock was read; one outside is replaced.
fn learn(rate: SegmentRate, bounds: &RateBounds) -> SegmentRate {
    if !bounds.contain(rate) {
        return bounds.middle;
    }
    let (old, new) = (rate.0.cast_signed(), bounds.middle.0.cast_signed());
    SegmentRate((old + (new - old) / 4).cast_unsigned())
}
