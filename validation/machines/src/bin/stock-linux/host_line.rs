//! The host's clocks over its TSC, while a guest runs: what its time was at any TSC
//! of the guest's readings.

use vmm::host_clock::{self, HostReading};

use crate::report::{Stamp, Tick};

/// Readings in order.
#[derive(Debug, Default)]
pub(crate) struct HostLine {
    readings: Vec<HostReading>,
}

/// The host's clocks at a TSC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HostInstant {
    /// Time of day, ns.
    pub(crate) real_ns: f64,
    /// The clock that nothing steers, ns.
    pub(crate) boot_ns: f64,
    /// By how much either may be wrong, ns.
    pub(crate) bound_ns: f64,
}

/// A reading of a guest's clock on the host's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacedReading {
    pub(crate) clock: String,
    pub(crate) ns: u64,
    /// The host's clock then, that nothing steers, and by how much it may be off, ns.
    pub(crate) boot_ns: u64,
    pub(crate) bound_ns: f64,
    /// Its reading less the host's time of day, ns: of a clock that tells that.
    pub(crate) ahead_ns: f64,
}

impl PlacedReading {
    /// How much it gained on the host's clock since an earlier reading, and over how long, ns.
    pub(crate) fn gained_since(&self, earlier: &Self) -> (f64, f64) {
        let span_ns = signed(self.boot_ns, earlier.boot_ns);
        (signed(self.ns, earlier.ns) - span_ns, span_ns)
    }
}

impl HostLine {
    /// All clocks of a tick, if the host's were read before and after it.
    pub(crate) fn place_all(&self, tick: &Tick, tsc_offset: u64) -> Option<Vec<PlacedReading>> {
        tick.stamps.iter().map(|stamp| self.place(stamp, tsc_offset)).collect()
    }

    /// Where the TSC of the guest is ahead of the host's by so much.
    fn place(&self, stamp: &Stamp, tsc_offset: u64) -> Option<PlacedReading> {
        let at = self.locate(stamp.tsc, tsc_offset)?;
        Some(PlacedReading {
            clock: stamp.clock.clone(),
            ns: stamp.ns,
            boot_ns: self.readings.first()?.clocks.boot.0 + at.boot_ns.round() as u64,
            bound_ns: at.bound_ns,
            ahead_ns: signed(stamp.ns, self.epoch_ns()) - at.real_ns,
        })
    }

    /// The host's clocks when a guest's clock was read between two TSCs of its own, which is
    /// ahead of the host's by so much: at their middle, and half of the way is not known.
    fn locate(&self, tsc: (u64, u64), tsc_offset: u64) -> Option<HostInstant> {
        let (tsc, half) = middle(tsc);
        let at = self.interpolate(tsc.wrapping_sub(tsc_offset))?;
        Some(HostInstant { bound_ns: at.bound_ns + half as f64 / self.ticks_per_ns()?, ..at })
    }

    pub(crate) fn read(&mut self) {
        self.readings.push(host_clock::read_with_width());
    }

    /// Between the readings around it; `None` before the first and after the last.
    /// Times are relative to the first reading's, in which f64 is exact to the ns.
    fn interpolate(&self, tsc: u64) -> Option<HostInstant> {
        let first = self.readings.first()?;
        let index = self.readings.iter().position(|reading| reading.clocks.tsc.0 > tsc)?;
        let (before, after) = (self.readings.get(index.checked_sub(1)?)?, &self.readings[index]);
        let span = (after.clocks.tsc.0 - before.clocks.tsc.0) as f64;
        let part = (tsc - before.clocks.tsc.0) as f64 / span;
        let boot = |reading: &HostReading| (reading.clocks.boot.0 - first.clocks.boot.0) as f64;
        let real = |reading: &HostReading| signed(reading.clocks.real.0.0, self.epoch_ns());
        let between = |a: f64, b: f64| a + (b - a) * part;
        let boot_ns = between(boot(before), boot(after));
        let real_ns = between(real(before), real(after));
        let ns_per_tick = (boot(after) - boot(before)) / span;
        let bound_ns = before.width.max(after.width) as f64 / 2.0 * ns_per_tick;
        Some(HostInstant { real_ns, boot_ns, bound_ns })
    }

    /// What times are relative to: the first reading's time of day, ns.
    fn epoch_ns(&self) -> u64 {
        self.readings.first().map_or(0, |first| first.clocks.real.0.0)
    }

    /// The TSC's rate, ticks a ns.
    fn ticks_per_ns(&self) -> Option<f64> {
        let (first, last) = (self.readings.first()?.clocks, self.readings.last()?.clocks);
        let ns = last.boot.0.checked_sub(first.boot.0).filter(|ns| *ns > 0)?;
        Some((last.tsc.0 - first.tsc.0) as f64 / ns as f64)
    }
}

/// `a` less `b`, before it becomes a float.
pub(crate) fn signed(a: u64, b: u64) -> f64 {
    a.wrapping_sub(b).cast_signed() as f64
}

/// The TSC in the middle of two, and how far from it a clock between them may have been
/// read.
fn middle(tsc: (u64, u64)) -> (u64, u64) {
    let width = tsc.1.wrapping_sub(tsc.0);
    (tsc.0.wrapping_add(width / 2), width.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use host::HostClocks;
    use pvclock::units::UnixTime;
    use pvclock::{Nanos, Ticks};

    use super::*;

    #[test]
    fn a_tsc_between_two_readings_has_a_time() {
        let reading = |tsc, boot, real, width| HostReading {
            clocks: HostClocks::new(Ticks(tsc), Nanos(boot), UnixTime(Nanos(real))),
            width,
        };
        // 2 ticks a ns; the time of day is steered by 1 ns in 1 000.
        let line = HostLine {
            readings: vec![
                reading(10_000, 500, 1_800_000_000_000_000_000, 20),
                reading(12_000, 1_500, 1_800_000_000_000_001_001, 40),
                reading(14_000, 2_500, 1_800_000_000_000_002_002, 20),
            ],
        };
        let at = line.interpolate(11_000).unwrap();
        assert_eq!((at.boot_ns, at.bound_ns), (500.0, 10.0));
        // f64 near 1.8e18 counts by 256: relative to the first it is exact.
        assert!((at.real_ns - 500.5).abs() < 0.01, "{at:?}");
        assert_eq!(line.interpolate(9_999), None);
        assert_eq!(line.interpolate(14_000), None);
        assert_eq!(line.ticks_per_ns(), Some(2.0));
        // A guest 100 ticks ahead, read in 40 ticks: 20 either way are 10 ns more.
        let at = line.locate((11_080, 11_120), 100).unwrap();
        assert_eq!((at.boot_ns, at.bound_ns), (500.0, 20.0));
        assert_eq!(middle((10, 15)), (12, 3));
    }
}
