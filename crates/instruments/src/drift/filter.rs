//! The quickest of many readings: delay only ever makes bounds wider.
//!
//! A request that stood in no queue on its way there bounds the difference of
//! the clocks tightly from below, and one that stood in none on its way back
//! from above; the two need not be the same. So readings are taken by blocks
//! in time, and a block is worth its best bound from either side. NTP's clock
//! filter (RFC 5905, section 10) keeps the one reading of the least round
//! trip instead, which must be lucky twice.
//!
//! Within a block the clocks drift. Before bounds are compared that drift is
//! removed, by a slope known beforehand.

use pvclock::units::{Interval, agreement};

use super::theil_sen::Point;

/// Bounds on clock − reference at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    /// When, s.
    pub at_s: f64,
    /// At least, ns.
    pub low_ns: f64,
    /// At most, ns.
    pub high_ns: f64,
}

impl Bounded {
    /// The distance between the bounds: the delay, for a network.
    pub fn width_ns(&self) -> f64 {
        self.high_ns - self.low_ns
    }

    /// The estimate between the bounds.
    pub fn middle(&self) -> Point {
        (self.at_s, self.low_ns / 2.0 + self.high_ns / 2.0)
    }

    /// As it would have been at `at_s`, by a slope in ns/s.
    fn moved(&self, at_s: f64, slope: f64) -> Self {
        let by = (at_s - self.at_s) * slope;
        Self { at_s, low_ns: self.low_ns + by, high_ns: self.high_ns + by }
    }
}

/// Blocks that a run is cut into. Few make each of them tight, many make the
/// confidence interval of their slope narrow.
const BLOCKS: usize = 12;

/// Fewest readings of a block; of fewer, each is used by itself.
const LEAST: usize = 4;

/// How many blocks a stretch of `length` readings out of `all` is worth.
fn count(length: usize, all: usize) -> usize {
    let wanted = if all < BLOCKS * LEAST { all } else { BLOCKS };
    (wanted * length).div_ceil(all.max(1)).clamp(1, length.max(1))
}

/// A block's worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    /// The best bounds, at the block's middle.
    pub best: Bounded,
    /// Readings that they are of: one, or two.
    pub kept: usize,
}

/// Cuts a stretch into its share of blocks out of `all` readings.
fn cut(stretch: &[Bounded], all: usize) -> impl Iterator<Item = &[Bounded]> {
    let count = count(stretch.len(), all);
    (0..count)
        .map(move |i| &stretch[i * stretch.len() / count..(i + 1) * stretch.len() / count])
        .filter(|block| !block.is_empty())
}

/// The tightest reading of each block: for a first idea of the slope.
pub fn tightest(stretch: &[Bounded], all: usize) -> Vec<Point> {
    cut(stretch, all)
        .filter_map(|block| block.iter().min_by(|a, b| a.width_ns().total_cmp(&b.width_ns())))
        .map(Bounded::middle)
        .collect()
}

/// Each block's best bounds, by a slope in ns/s that is about right.
///
/// `common_ns` is what no reading's bounds are narrower by: the least there
/// and back of a network, 500 µs for example. Every right reading holds all of
/// that, so one that reaches only into it is wrong, though it contradicts none.
pub fn blocks(stretch: &[Bounded], all: usize, slope: f64, common_ns: f64) -> Vec<Block> {
    cut(stretch, all).filter_map(|block| best(block, slope, common_ns)).collect()
}

/// The share of the common part that a right reading holds: the rest is for
/// the slope's error.
const HELD: f64 = 0.9;

fn best(block: &[Bounded], slope: f64, common_ns: f64) -> Option<Block> {
    let at_s = block.first()?.at_s / 2.0 + block.last()?.at_s / 2.0;
    let moved: Vec<Bounded> = block.iter().map(|reading| reading.moved(at_s, slope)).collect();
    let narrowed = |by_ns: f64| {
        moved.iter().map(move |reading| Interval {
            low: reading.low_ns + by_ns,
            high: reading.high_ns - by_ns,
        })
    };
    let most = |by_ns: f64| {
        let mut ends: Vec<_> = narrowed(by_ns).flat_map(Interval::ends).collect();
        let at = agreement(&mut ends, moved.len() / 2 + 1)?.at;
        Some(narrowed(by_ns).map(|bounds| bounds.contains(at)).collect::<Vec<_>>())
    };
    // Where the way became shorter, there is less in common.
    let agrees = most(common_ns * HELD / 2.0).or_else(|| most(0.0));
    let agree = || {
        let all = moved.iter().enumerate();
        all.filter(|(index, _)| agrees.as_ref().is_none_or(|agrees| agrees[*index]))
    };
    let (low_at, low) = agree().max_by(|(_, a), (_, b)| a.low_ns.total_cmp(&b.low_ns))?;
    let (high_at, high) = agree().min_by(|(_, a), (_, b)| a.high_ns.total_cmp(&b.high_ns))?;
    let best = Bounded { at_s, low_ns: low.low_ns, high_ns: high.high_ns };
    Some(Block { best, kept: if low_at == high_at { 1 } else { 2 } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_worth_its_best_bound_from_either_side() {
        let at = |at_s: f64, low_ns: f64, high_ns: f64| Bounded { at_s, low_ns, high_ns };
        // The truth is 100 ns at 0 s and drifts by 10 ns/s.
        let readings = [at(0.0, 60.0, 101.0), at(1.0, 109.0, 400.0), at(2.0, 0.0, 190.0)];
        let block = best(&readings, 10.0, 0.0).unwrap();
        assert_eq!(block.best, at(1.0, 109.0, 111.0));
        assert_eq!(block.kept, 2);
    }

    #[test]
    fn a_wrong_reading_bounds_nothing() {
        let at = |at_s: f64, low_ns: f64, high_ns: f64| Bounded { at_s, low_ns, high_ns };
        for wrong in [at(1.0, 130.0, 150.0), at(1.0, 10.0, 30.0)] {
            let readings = [at(0.0, 60.0, 101.0), wrong, at(2.0, 90.0, 160.0), at(3.0, 0.0, 99.0)];
            let block = best(&readings, 0.0, 0.0).unwrap();
            assert_eq!(block, Block { best: at(1.5, 90.0, 99.0), kept: 2 });
        }
    }

    #[test]
    fn few_readings_stand_for_themselves_and_none_is_lost() {
        let readings = |n: usize| -> Vec<Bounded> {
            (0..n).map(|i| Bounded { at_s: i as f64, low_ns: 0.0, high_ns: 1.0 }).collect()
        };
        assert_eq!(tightest(&readings(7), 7).len(), 7);
        assert_eq!(blocks(&readings(600), 600, 0.0, 0.0).len(), BLOCKS);
        // A third of all gets a third of the blocks.
        assert_eq!(blocks(&readings(200), 600, 0.0, 0.0).len(), BLOCKS / 3);
        assert!(blocks(&[], 10, 0.0, 0.0).is_empty());
        for n in [1, 5, 47, 48, 49, 601] {
            assert_eq!(cut(&readings(n), n).map(<[Bounded]>::len).sum::<usize>(), n);
        }
    }
}
