//! What lasts is a step; what does not is an outlier.
//!
//! A server answers wrongly now and then: a queue of its own, one of several
//! machines behind one address, a leap second half applied. Such an answer
//! bounds the difference of the clocks as tightly as a right one, and
//! contradicts the others. So a reading off the line of those before it is
//! held back until the next are there:
//!
//! | the next readings | then it was |
//! | --- | --- |
//! | one of two is back on the line | an outlier |
//! | two continue it at the old frequency | a step |
//! | four continue it at another frequency | a change of frequency |
//! | they and it have no line in common | an outlier |
//!
//! The line is that of most of the last readings, so that an outlier too small
//! to contradict those before it takes no right reading with it.

use std::collections::VecDeque;

use super::filter::Bounded;
use super::theil_sen::median;
use pvclock::units::Interval;

/// Readings that make a step: two wrong answers in a row are none.
pub(super) const LASTING: usize = 3;

/// Readings that the first line goes through most of, and that make another
/// frequency: a wrong one and two after a step may be on a line by chance.
pub(super) const START: usize = 5;

/// The newest readings on the line, most of which the next must fit.
const RECENT: usize = 5;

/// How far the frequency may be off what was learnt, ns/s: two crystals warm
/// up at different paces, and a host steers the clock behind an emulated
/// timer by some parts in 10^7 each minute.
const WANDER: f64 = 1e3;

/// The largest frequency error of a clock, ns/s: virtual machines have been
/// 2 % off. Two readings that are farther apart than this explains are not of
/// one line.
const MOST: f64 = 1e8;

/// Time over which the frequency is learnt, s, and fewest readings: with bounds
/// 100 ns apart it is then known hundred times better than the wander allowed.
const WINDOW_S: f64 = 5.0;
const WINDOW: usize = 40;

/// What a reading was found to be, by its index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FoundStep {
    /// It contradicts the readings before it and those after it.
    Outlier(usize),
    /// The first after a step: by so much, ns.
    Step(usize, Interval<f64>),
    /// The first at another frequency, ns/s.
    Rate { at: usize, before: f64, after: f64 },
}

/// A reading and its index.
type Seen = (Bounded, usize);

/// Tells steps and outliers apart.
#[derive(Debug, Clone, Default)]
pub(super) struct Lasting {
    slope: LearntSlope,
    recent: VecDeque<Bounded>,
    pending: VecDeque<Seen>,
}

impl Lasting {
    /// One more reading.
    pub(super) fn observe(&mut self, reading: Bounded, index: usize) -> Vec<FoundStep> {
        self.pending.push_back((reading, index));
        self.settle(false)
    }

    /// No reading follows. What is off the line then is an outlier: too few to
    /// make a step.
    pub(super) fn finish(&mut self) -> Vec<FoundStep> {
        self.settle(true)
    }

    fn settle(&mut self, is_end: bool) -> Vec<FoundStep> {
        let mut found = Vec::new();
        if self.recent.is_empty() {
            if self.pending.len() < START && !is_end {
                return found;
            }
            self.start(&mut found);
        }
        while let Some(&(head, index)) = self.pending.front() {
            if self.is_on_line(head) {
                self.accept(head);
            } else if self.pending.iter().take(LASTING).any(|next| self.is_on_line(next.0)) {
                found.push(FoundStep::Outlier(index));
            } else if let Some(one) = self.judge(head, index, is_end) {
                found.push(one);
            } else {
                break;
            }
            self.pending.pop_front();
        }
        found
    }

    /// The first line: that of two readings which most of the first few fit.
    fn start(&mut self, found: &mut Vec<FoundStep>) {
        let first: Vec<Seen> = self.pending.drain(..).collect();
        let fits = |slope, from: Bounded, one: Bounded| step(slope, from, one).contains(0.0);
        let lines = first.iter().enumerate().flat_map(|(number, (from, _))| {
            first[number + 1..].iter().filter_map(|(to, _)| Some((*from, slope(*from, *to)?)))
        });
        let support = |&(from, slope): &(Bounded, Interval<f64>)| {
            first.iter().filter(|(one, _)| fits(slope, from, *one)).count()
        };
        // Of two lines with as many readings the narrower is known better.
        let best = lines
            .filter(|(_, slope)| slope.low < MOST && slope.high > -MOST)
            .max_by(|a, b| support(a).cmp(&support(b)).then(b.1.bound().total_cmp(&a.1.bound())));
        let best = best.filter(|line| 2 * support(line) > first.len());
        for (reading, index) in first {
            match best {
                Some((from, slope)) if !fits(slope, from, reading) => {
                    found.push(FoundStep::Outlier(index));
                }
                _ => self.accept(reading),
            }
        }
    }

    fn accept(&mut self, reading: Bounded) {
        self.recent.push_back(reading);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.slope.learn(reading, &self.recent);
    }

    fn is_on_line(&self, reading: Bounded) -> bool {
        let Some(slope) = self.slope.wandering() else { return true };
        let fits = self.recent.iter().filter(|one| step(slope, **one, reading).contains(0.0));
        2 * fits.count() >= self.recent.len()
    }

    /// What a reading is whose next ones are not back on the line; none where
    /// more of them are to decide.
    fn judge(&mut self, head: Bounded, index: usize, is_end: bool) -> Option<FoundStep> {
        let next: Vec<Bounded> = self.pending.iter().map(|seen| seen.0).collect();
        let known = self.slope.wandering()?;
        let fits = |slope: Interval<f64>, some: &[Bounded]| {
            some.iter().all(|one| step(slope, head, *one).contains(0.0))
        };
        if let Some(lasting) = next.get(..LASTING)
            && fits(known, lasting)
        {
            let size = self.step_to(lasting, known);
            self.slope.restart(head.at_s);
            self.restart(head);
            return Some(FoundStep::Step(index, size));
        }
        let Some(lasting) = next.get(..START) else {
            return is_end.then_some(FoundStep::Outlier(index));
        };
        let new = lasting.last().and_then(|last| slope(head, *last));
        let new = new.filter(|new| new.low < MOST && new.high > -MOST && fits(*new, lasting));
        Some(new.map_or(FoundStep::Outlier(index), |new| {
            self.slope = LearntSlope::new(new, head.at_s);
            self.restart(head);
            FoundStep::Rate { at: index, before: known.middle(), after: new.middle() }
        }))
    }

    fn restart(&mut self, head: Bounded) {
        self.recent.clear();
        self.accept(head);
    }

    /// By how much the clock stepped: what all readings on either side allow,
    /// or the tightest two of them.
    fn step_to(&self, after: &[Bounded], slope: Interval<f64>) -> Interval<f64> {
        let before = self.recent.iter();
        let all: Vec<Interval<f64>> =
            before.flat_map(|from| after.iter().map(|to| step(slope, *from, *to))).collect();
        let any = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        let common = all.iter().copied().fold(any, Interval::overlap);
        let tightest = all.into_iter().min_by(|a, b| a.bound().total_cmp(&b.bound()));
        tightest.filter(|_| common.is_empty()).unwrap_or(common)
    }
}

/// The slopes between two readings, ns/s; none of two at one time.
pub(super) fn slope(from: Bounded, to: Bounded) -> Option<Interval<f64>> {
    let length_s = Some(to.at_s - from.at_s).filter(|length| *length > 0.0)?;
    Some(Interval {
        low: (to.low_ns - from.high_ns) / length_s,
        high: (to.high_ns - from.low_ns) / length_s,
    })
}

/// What a slope leaves unexplained from one reading to another, ns.
fn step(slope: Interval<f64>, from: Bounded, to: Bounded) -> Interval<f64> {
    let length_s = to.at_s - from.at_s;
    let ends = [slope.low * length_s, slope.high * length_s];
    Interval {
        low: to.low_ns - from.high_ns - ends[0].max(ends[1]),
        high: to.high_ns - from.low_ns - ends[0].min(ends[1]),
    }
}

/// The slope, learnt as readings come: the middle of those from each of a few
/// early readings to each of the newest, so that one wrong reading among them
/// does not turn it.
#[derive(Debug, Clone, Default)]
struct LearntSlope {
    /// Within what it lies, ns/s.
    known: Option<Interval<f64>>,
    /// Slopes are taken from these on.
    base: Vec<Bounded>,
    /// The tightest readings since `since_s`: the next base.
    next_base: Vec<Bounded>,
    since_s: f64,
    count: usize,
}

impl LearntSlope {
    /// A slope known beforehand, to be learnt better.
    fn new(slope: Interval<f64>, at_s: f64) -> Self {
        Self { known: Some(slope), since_s: at_s, ..Self::default() }
    }

    /// With room for wander.
    fn wandering(&self) -> Option<Interval<f64>> {
        Some(self.known?.widened(WANDER))
    }

    /// The same slope from another offset on.
    fn restart(&mut self, at_s: f64) {
        *self = Self { known: self.known, since_s: at_s, ..Self::default() };
    }

    /// Takes the slope since the base if that is known better than the one in
    /// use; at the end of a window, whose base is then old enough, in any case,
    /// and moves the base on.
    fn learn(&mut self, reading: Bounded, recent: &VecDeque<Bounded>) {
        self.count += 1;
        if self.base.len() < RECENT {
            self.base.push(reading);
        }
        self.next_base.push(reading);
        if self.next_base.len() > RECENT {
            self.next_base.sort_by(|a, b| a.width_ns().total_cmp(&b.width_ns()));
            self.next_base.pop();
        }
        let is_over = reading.at_s - self.since_s >= WINDOW_S && self.count >= WINDOW;
        // Each few readings is often enough.
        if !is_over && self.count > WINDOW / 2 && !self.count.is_multiple_of(RECENT) {
            return;
        }
        let from_base =
            |from: &Bounded| recent.iter().filter_map(|to| slope(*from, *to)).collect::<Vec<_>>();
        if let Some(learnt) = middle_of(self.base.iter().flat_map(from_base))
            && self.known.is_none_or(|known| is_over || learnt.bound() <= known.bound())
        {
            self.known = Some(learnt);
        }
        if is_over {
            self.base = std::mem::take(&mut self.next_base);
            (self.since_s, self.count) = (reading.at_s, 0);
        }
    }
}

/// The middle lower and the middle upper end: within them is the truth, if it
/// is within most.
fn middle_of(all: impl Iterator<Item = Interval<f64>>) -> Option<Interval<f64>> {
    let (mut lows, mut highs): (Vec<f64>, Vec<f64>) = all.map(|one| (one.low, one.high)).unzip();
    lows.sort_by(f64::total_cmp);
    highs.sort_by(f64::total_cmp);
    Some(Interval { low: median(&lows)?, high: median(&highs)? })
}
