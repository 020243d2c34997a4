//! Whether a clock ever steps back.

use crate::measurements::Order;

/// Counts backward steps in a sequence of readings of which each is known to
/// have been taken after the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderCount {
    last: Option<u64>,
    compared: u64,
    backward: u64,
    largest_backward: u64,
}

impl OrderCount {
    /// No reading yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next reading.
    pub fn observe(&mut self, reading: u64) {
        if let Some(last) = self.last {
            self.compared += 1;
            if reading < last {
                self.backward += 1;
                self.largest_backward = self.largest_backward.max(last - reading);
            }
        }
        self.last = Some(reading);
    }

    /// The result for the clock called `clock`, one unit of which is
    /// `ns_per_unit` long.
    pub fn result(&self, clock: &str, ns_per_unit: f64) -> Order {
        Order {
            clock: clock.to_owned(),
            readings: self.compared,
            backward: self.backward,
            largest_backward_ns: self.largest_backward as f64 * ns_per_unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(readings: &[u64]) -> Order {
        let mut count = OrderCount::new();
        readings.iter().for_each(|&reading| count.observe(reading));
        count.result("simulated", 0.5)
    }

    #[test]
    fn equal_readings_are_in_order() {
        assert_eq!(of(&[7, 7, 8]).backward, 0);
        assert_eq!(of(&[7, 7, 8]).readings, 2);
        assert_eq!(of(&[]).readings, 0);
    }

    proptest! {
        /// A clock that advances, but for steps back of known size.
        #[test]
        fn every_step_back_is_found(steps in prop::collection::vec(-1000i64..1000, 1..200)) {
            let mut clock = 1u64 << 40;
            let mut readings = vec![clock];
            for step in &steps {
                clock = clock.wrapping_add_signed(*step);
                readings.push(clock);
            }
            let order = of(&readings);
            let back: Vec<i64> = steps.iter().copied().filter(|step| *step < 0).collect();
            prop_assert_eq!(order.backward, back.len() as u64);
            let largest = back.iter().min().map_or(0, |step| -step);
            prop_assert_eq!(order.largest_backward_ns, largest as f64 * 0.5);
        }
    }
}
