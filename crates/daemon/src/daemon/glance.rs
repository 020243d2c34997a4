//! Looks between two samples: a pause that ends just after one is seen at a third of the
//! time.

use std::time::{Duration, Instant};

use keeper::{Corrector, ErrorBound};
use units::OffsetBound;

use super::{Daemon, monotonic_ns};
use crate::polled::Source;

/// Samples that come more often than this need no looks between them.
const GLANCES_FROM: Duration = Duration::from_millis(300);

impl Daemon {
    /// Whether a clock of the host says what a pause has cost, at the price of a read and
    /// of a wake-up, and nothing else makes that needless: a host that gives notice wakes
    /// the daemon itself, and beside another daemon the next sample is soon enough.
    pub(super) fn looks_between(&self) -> bool {
        let is_alone = self.keeper.policy().corrector == Corrector::Kernel;
        let now = Instant::now();
        let is_told =
            self.sources.iter().filter_map(Source::host).any(|host| host.gives_notice(now));
        self.settings.interval >= GLANCES_FROM
            && is_alone
            && !is_told
            && self.sources.iter().any(Source::is_cheap)
    }

    /// Whether the clock, which was right, has been left behind or set.
    pub(super) fn has_moved(&mut self) -> bool {
        let ErrorBound::Within { offset: known, .. } = self.keeper.error_bound(monotonic_ns())
        else {
            return false;
        };
        let seen = self.sources.iter_mut().find_map(Source::glance);
        let moved_ns = |seen: OffsetBound| {
            seen.offset_ns.saturating_sub(self.clock.ahead_ns()).abs_diff(known.offset_ns)
        };
        seen.is_some_and(|seen| moved_ns(seen) > self.settings.policy.step_threshold_ns)
    }
}
