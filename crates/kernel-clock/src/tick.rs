//! The tick's interrupts, where they are what counts: a clock of jiffies loses
//! what the host does not deliver, and one with a counter loses nothing.

/// What a host does with a guest's ticks that came due while it did not run, by
/// libvirt's names (`tickpolicy`), as `host::ticks` has it; QEMU's
/// `kvm-pit.lost_tick_policy` calls the first `discard`, and `delay` a catching up at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickPolicy {
    /// However many came due, one is delivered: a guest that counts them loses
    /// the rest.
    Merge,
    /// All are delivered, so many for one that comes due.
    CatchUp {
        /// Two or more, or the backlog never shrinks; with the largest number all come
        /// at once.
        rate: u32,
    },
}

/// A periodic timer of a host, and what of it reaches the guest.
///
/// ```
/// use kernel_clock::tick::{TickPolicy, PeriodicTick};
///
/// // 1000 Hz; for 30 s of each minute the guest does not run, 250 ms at a time.
/// let lost = |policy| {
///     let mut tick = PeriodicTick::new(1_000_000, policy);
///     let delivered: u64 = (0..120).map(|_| tick.stands(250_000_000) + tick.runs(250_000_000)).sum();
///     60_000 - delivered
/// };
/// assert_eq!(lost(TickPolicy::CatchUp { rate: u32::MAX }), 0);
/// // Of each 250 that come due one is delivered: the guest loses half its time.
/// assert_eq!(lost(TickPolicy::Merge), 120 * 249);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodicTick {
    period_ns: u64,
    policy: TickPolicy,
    /// Since the last that came due, ns.
    since_ns: u64,
    /// Came due and not delivered.
    backlog: u64,
}

impl PeriodicTick {
    /// A timer that has just fired. A period of 0 counts as 1 ns.
    #[must_use]
    pub fn new(period_ns: u64, policy: TickPolicy) -> Self {
        Self { period_ns: period_ns.max(1), policy, since_ns: 0, backlog: 0 }
    }

    /// Ticks that the guest has still to be given.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    fn due(&mut self, ns: u64) -> u64 {
        let since = u128::from(self.since_ns) + u128::from(ns);
        self.since_ns = (since % u128::from(self.period_ns)) as u64;
        u64::try_from(since / u128::from(self.period_ns)).unwrap_or(u64::MAX)
    }

    /// The guest does not run for so long; returns 0, the ticks it was given.
    pub fn stands(&mut self, ns: u64) -> u64 {
        self.backlog = self.backlog.saturating_add(self.due(ns));
        if self.policy == TickPolicy::Merge {
            self.backlog = self.backlog.min(1);
        }
        0
    }

    /// It runs for so long; returns the ticks it was given.
    pub fn runs(&mut self, ns: u64) -> u64 {
        let due = self.due(ns);
        let extra = match self.policy {
            TickPolicy::Merge => self.backlog,
            TickPolicy::CatchUp { rate } => {
                let room = due.saturating_mul(u64::from(rate.saturating_sub(1)));
                self.backlog.min(room)
            }
        };
        self.backlog -= extra;
        due.saturating_add(extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockSource, Kernel, Timekeeper, Version};

    /// What a minute with 30 s of standing still is to a guest, s.
    fn minute(source: ClockSource, policy: TickPolicy) -> i128 {
        let kernel = Kernel::new(Version(2, 6, 9), 1000);
        let mut keeper = Timekeeper::boot(kernel, source, 0, 1_000_000_000);
        let mut tick = PeriodicTick::new(kernel.tick_ns(), policy);
        let (mut ns, mut jiffies) = (0, 0);
        for _ in 0..120 {
            ns += 500_000_000;
            jiffies += tick.stands(250_000_000) + tick.runs(250_000_000);
            let counter = if source.name == "jiffies" { jiffies } else { ns };
            keeper.interrupt(counter);
        }
        let counter = if source.name == "jiffies" { jiffies } else { ns };
        keeper.clocks(counter).monotonic / 1_000_000_000
    }

    #[test]
    fn a_busy_host_costs_a_guest_its_time_only_if_it_counts_ticks() {
        let jiffies = ClockSource::jiffies(Kernel::new(Version(2, 6, 9), 1000));
        assert_eq!(minute(jiffies, TickPolicy::Merge), 30);
        assert_eq!(minute(jiffies, TickPolicy::CatchUp { rate: u32::MAX }), 60);
        assert_eq!(minute(ClockSource::kvm_clock(false), TickPolicy::Merge), 60);
    }

    #[test]
    fn a_backlog_is_caught_up_tick_by_tick() {
        let mut tick = PeriodicTick::new(1_000_000, TickPolicy::CatchUp { rate: 3 });
        tick.stands(10_500_000);
        assert_eq!((tick.runs(2_500_000), tick.backlog()), (9, 4));
        assert_eq!((tick.runs(2_000_000), tick.backlog()), (6, 0));
    }
}
