//! What is known of the next leap second, and when it passes.

use units::LeapSecond;

use super::polled::SECOND_NS;

/// For so long around it a server's clock and ours may differ by it: each carries
/// it out by its own time, and an inserted one lasts a second.
const BEFORE_NS: u64 = 2 * SECOND_NS;
const AFTER_NS: u64 = 3 * SECOND_NS;

/// What is known of the next leap second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Leap {
    /// What the kernel holds.
    pub(super) armed: Option<LeapSecond>,
    /// It does so if the clock shows the day still that it showed before a step.
    pub(super) is_uncertain: bool,
    /// When it comes, CLOCK_MONOTONIC, ns; 0 where none was announced.
    pub(super) at_ns: u64,
    /// The time of day less CLOCK_MONOTONIC, as of the last reply, ns.
    pub(super) realtime_ns: i128,
    /// The kernel may be told from then on: it refused before.
    pub(super) from_ns: u64,
}

impl Leap {
    /// Whether it passes now.
    pub(super) fn passes(&self, now_ns: u64) -> bool {
        let from_ns = self.at_ns.saturating_sub(BEFORE_NS);
        self.at_ns != 0 && (from_ns..self.at_ns.saturating_add(AFTER_NS)).contains(&now_ns)
    }
}
