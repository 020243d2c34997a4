//! What the keeper did, and which sources showed it.

use keeper::SourceKind;

use super::Machine;

/// A correction is made in microseconds, and a combined bound is rounded up.
const ROUNDED_NS: u64 = 1_002;

/// What the keeper did, and the sources that spoke for it: measured in this sample, within
/// whose bounds it is, which are given as well, ns; of the scale of the truth; and of the
/// host the best of its clocks that counts.
#[derive(Debug)]
#[allow(dead_code, reason = "not every test that has a machine asks")]
pub(crate) enum Deed {
    /// A step, a slew or the discipline's: the clock's error before, and when it is complete.
    Corrected { before_ns: i64, after_ns: i64, shown_by: Vec<(usize, u64)> },
    /// The kernel was told of the largest error; what it was.
    Told { max_ns: u64, error_ns: u64, shown_by: Vec<(usize, u64)> },
}

impl Machine {
    /// The clock is moved by this.
    pub(super) fn note_correction(&mut self, by_ns: i64) {
        let before_ns = self.clock.error_ns();
        let shown_by = self.who_show(by_ns, ROUNDED_NS);
        self.deeds.push(Deed::Corrected { before_ns, after_ns: before_ns + by_ns, shown_by });
    }

    /// The kernel is told that the clock is off by this at most.
    pub(super) fn note_told(&mut self, max_ns: u64) {
        let error_ns = self.clock.error_ns().unsigned_abs();
        let shown_by = self.who_show(0, max_ns.saturating_add(ROUNDED_NS));
        self.deeds.push(Deed::Told { max_ns, error_ns, shown_by });
    }

    /// Who speak for an offset of `by_ns` ± `within_ns`.
    fn who_show(&self, by_ns: i64, within_ns: u64) -> Vec<(usize, u64)> {
        let now_ns = self.clock.monotonic_ns;
        let sources = self.keeper.view(now_ns).sources;
        let is_hosts = |index: usize| {
            let kind = self.sources[index].kind;
            !matches!(kind, SourceKind::NetworkCard | SourceKind::Ntp)
        };
        let counting = (0..sources.len()).filter(|index| sources[*index].offset.is_some());
        let of_host = counting.filter(|index| is_hosts(*index));
        let speaker = of_host.min_by_key(|index| self.sources[*index].kind);
        let is_heard = |index: &usize| !is_hosts(*index) || speaker == Some(*index);
        let shown = |index: usize| {
            let shown = match self.sources[index].kind {
                // By how much it moved, only the keeper has added up.
                SourceKind::Rtc => sources[index].offset,
                _ => self.measured[index],
            }?;
            // It may have wandered by 1000 ppm since the host sent it.
            let wander_ns = now_ns.saturating_sub(shown.at_monotonic_ns) / 1000;
            let bound_ns = shown.bound_ns + wander_ns;
            let is_shown = shown.offset_ns.abs_diff(by_ns) <= within_ns.saturating_add(bound_ns);
            is_shown.then_some((index, bound_ns))
        };
        let of_scale = (0..sources.len()).filter(|index| self.off_scale_ns(*index) == 0);
        of_scale.filter(is_heard).filter_map(shown).collect()
    }
}
