//! A rate limit: a burst, then one per interval.

/// A token bucket.
#[derive(Debug, Clone)]
pub(crate) struct RateLimit {
    capacity: u32,
    interval_ns: u64,
    left: u32,
    /// The time that `left` is of: when one was last earned.
    since_ns: u64,
}

impl RateLimit {
    /// Full, with `capacity` of at least one; earns one per `interval_ns`.
    pub(crate) fn new(capacity: u32, interval_ns: u64) -> Self {
        let capacity = capacity.max(1);
        Self { capacity, interval_ns: interval_ns.max(1), left: capacity, since_ns: 0 }
    }

    /// Takes one.
    ///
    /// # Errors
    /// None is left; the time until the next, ns.
    pub(crate) fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        self.take_all(1, now_ns)
    }

    /// The time until one can be taken, ns; `None` where that is now.
    pub(crate) fn wait_ns(&self, now_ns: u64) -> Option<u64> {
        self.clone().take(now_ns).err()
    }

    /// How many can be taken.
    pub(crate) fn tokens(&self, now_ns: u64) -> u32 {
        let mut limit = self.clone();
        limit.earn(now_ns);
        limit.left
    }

    /// Takes so many, at most the capacity, or none.
    ///
    /// # Errors
    /// Too few are left; the time until there are enough, ns.
    pub(crate) fn take_all(&mut self, count: u32, now_ns: u64) -> Result<(), u64> {
        self.earn(now_ns);
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let missing = u64::from(count.min(self.capacity) - self.left);
                let passed = now_ns.saturating_sub(self.since_ns);
                Err(missing.saturating_mul(self.interval_ns).saturating_sub(passed))
            }
        }
    }

    /// Returns the one taken last, which was not used.
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
    fn a_burst_and_then_one_per_interval() {
        let mut limit = RateLimit::new(2, 100);
        assert_eq!(limit.take(1000), Ok(()));
        assert_eq!(limit.take(1001), Ok(()));
        assert_eq!(limit.take(1002), Err(98));
        assert_eq!(limit.take(1100), Ok(()));
        assert_eq!(limit.take(1101), Err(99));
        assert_eq!(limit.take_all(2, 1120), Err(180), "all or none");
        assert_eq!(limit.take(9000), Ok(()));
        assert_eq!(limit.take(9000), Ok(()));
        assert_eq!(limit.take(9000), Err(100));
    }

    proptest! {
        #[test]
        fn never_more_than_the_capacity_and_what_was_earned(
            capacity in 0u32..5,
            interval in 1u64..50,
            waits in prop::collection::vec(0u64..40, 1..200),
        ) {
            let mut limit = RateLimit::new(capacity, interval);
            let mut now = 1000;
            let mut taken = Vec::new();
            for wait in waits {
                now += wait;
                match limit.take(now) {
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
