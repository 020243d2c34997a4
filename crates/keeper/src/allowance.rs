//! At most so often: a few at once, and then one each interval.

/// What may still be done.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    capacity: u32,
    interval_ns: u64,
    left: u32,
    /// When `left` was right: the last time one was earned.
    since_ns: u64,
}

impl Allowance {
    /// All of `capacity`, at least one; one more is earned each `interval_ns`.
    pub(crate) fn new(capacity: u32, interval_ns: u64) -> Self {
        let capacity = capacity.max(1);
        Self { capacity, interval_ns: interval_ns.max(1), left: capacity, since_ns: 0 }
    }

    /// Takes one.
    ///
    /// # Errors
    /// None is left; the time until there is one, ns.
    pub(crate) fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        self.earn(now_ns);
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let passed = now_ns.saturating_sub(self.since_ns);
                Err(self.interval_ns.saturating_sub(passed))
            }
        }
    }

    /// What was taken last was not used.
    pub(crate) fn give_back(&mut self) {
        self.left = self.capacity.min(self.left + 1);
    }

    fn earn(&mut self, now_ns: u64) {
        let earned = now_ns.saturating_sub(self.since_ns) / self.interval_ns;
        let room = u64::from(self.capacity - self.left);
        if earned >= room {
            // Full: the next interval begins when one is taken.
            (self.left, self.since_ns) = (self.capacity, now_ns);
        } else {
            self.left += earned as u32;
            self.since_ns += earned * self.interval_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_each_interval() {
        let mut allowance = Allowance::new(2, 100);
        assert_eq!(allowance.take(1000), Ok(()));
        assert_eq!(allowance.take(1001), Ok(()));
        assert_eq!(allowance.take(1002), Err(98));
        assert_eq!(allowance.take(1100), Ok(()));
        assert_eq!(allowance.take(1101), Err(99));
        assert_eq!(allowance.take(9000), Ok(()));
        assert_eq!(allowance.take(9000), Ok(()));
        assert_eq!(allowance.take(9000), Err(100));
    }

    proptest! {
        #[test]
        fn never_more_than_the_capacity_and_what_was_earned(
            capacity in 0u32..5,
            interval in 1u64..50,
            waits in prop::collection::vec(0u64..40, 1..200),
        ) {
            let mut allowance = Allowance::new(capacity, interval);
            let mut now = 1000;
            let mut taken = Vec::new();
            for wait in waits {
                now += wait;
                match allowance.take(now) {
                    Ok(()) => taken.push(now),
                    Err(left) => prop_assert!((1..=interval).contains(&left)),
                }
            }
            for (first, begin) in taken.iter().enumerate() {
                for (last, end) in taken.iter().enumerate().skip(first) {
                    let most = u64::from(capacity.max(1)) + (end - begin) / interval;
                    prop_assert!((last - first + 1) as u64 <= most);
                }
            }
        }
    }
}
