//! How far CLOCK_REALTIME may be from the truth.

/// What adjtimex says of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timex {
    /// `maxerror`: it grows by 500 ppm until a time daemon writes it anew.
    pub max_error_ns: u64,
    /// Neither STA_UNSYNC nor TIME_ERROR.
    pub synchronised: bool,
}

/// What the host says in the VMClock page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmClock {
    /// Disruption marker and VM generation: others mean restored or migrated.
    pub identity: (u64, u64),
    /// How far CLOCK_REALTIME may be from the host's UTC, its own maximum
    /// error included, where the host vouches for both.
    pub error_ns: Option<u64>,
}

/// The rate at which a clock that nobody corrects may leave the truth, as the
/// kernel has it: MAXFREQ, include/linux/timex.h.
pub const GROWTH_PPM: u64 = 500;

/// Who vouches for the time, and since when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// What adjtimex said last, and when.
    said: Option<(Timex, u64)>,
    /// Set by a disruption: adjtimex's word is older than it until `maxerror`
    /// falls, which only a time daemon makes it do. Holds what it was last,
    /// once it was read after the disruption.
    outdated: Option<Option<u64>>,
}

impl Bound {
    /// Nobody has said anything.
    pub const fn new() -> Self {
        Self { said: None, outdated: None }
    }

    /// The machine was disrupted: what was known before no longer holds.
    pub fn disrupt(&mut self) {
        self.outdated = Some(None);
    }

    /// What adjtimex says at `now_ns`.
    pub fn hear(&mut self, timex: Timex, now_ns: u64) {
        let max_error_ns = timex.max_error_ns;
        self.outdated = match self.outdated {
            Some(Some(last_ns)) if max_error_ns < last_ns => None,
            Some(_) => Some(Some(max_error_ns)),
            None => None,
        };
        self.said = Some((timex, now_ns));
    }

    /// How far CLOCK_REALTIME may be off at `now_ns`; `None` if nobody vouches
    /// for it. `unsynchronised_ns` is what to say of a clock that nobody
    /// steers.
    pub fn error_ns(
        &self,
        now_ns: u64,
        vmclock: Option<VmClock>,
        unsynchronised_ns: Option<u64>,
    ) -> Option<u64> {
        let by_daemon = self
            .said
            .filter(|(timex, _)| timex.synchronised && self.outdated.is_none())
            .map(|(timex, at_ns)| timex.max_error_ns.saturating_add(growth_ns(at_ns, now_ns)));
        let by_host = vmclock.and_then(|vmclock| vmclock.error_ns);
        match (by_daemon, by_host) {
            (Some(daemon), Some(host)) => Some(daemon.min(host)),
            (None, None) => unsynchronised_ns,
            (one, other) => one.or(other),
        }
    }
}

/// What an error bound grows by from one time to another, ns, rounded up.
#[inline]
pub const fn growth_ns(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / (1_000_000 / GROWTH_PPM) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn heard(bound: &mut Bound, max_error_ns: u64, synchronised: bool) {
        bound.hear(Timex { max_error_ns, synchronised }, NOW);
    }

    fn host(error_ns: Option<u64>) -> Option<VmClock> {
        Some(VmClock { identity: (1, 1), error_ns })
    }

    #[test]
    fn the_tighter_of_daemon_and_host_is_taken_and_nobody_means_unbounded() {
        let mut bound = Bound::new();
        assert_eq!(bound.error_ns(NOW, None, None), None);
        heard(&mut bound, 900, true);
        assert_eq!(bound.error_ns(NOW, host(Some(70)), None), Some(70));
        assert_eq!(bound.error_ns(NOW, host(None), None), Some(901));
        // Two seconds later: 500 ppm of them more.
        assert_eq!(bound.error_ns(NOW + 2_000_000_000, None, None), Some(1_000_901));
        heard(&mut bound, 60, true);
        assert_eq!(bound.error_ns(NOW, host(Some(70)), None), Some(61));
        heard(&mut bound, 900, false);
        assert_eq!(bound.error_ns(NOW, None, None), None);
        assert_eq!(bound.error_ns(NOW, None, Some(5_000)), Some(5_000));
    }

    #[test]
    fn after_a_disruption_the_daemon_is_believed_when_it_has_acted() {
        let mut bound = Bound::new();
        heard(&mut bound, 1_000, true);
        bound.disrupt();
        assert_eq!(bound.error_ns(NOW, None, None), None);
        // It acted before the disruption, unseen.
        heard(&mut bound, 900, true);
        assert_eq!(bound.error_ns(NOW, None, None), None);
        heard(&mut bound, 1_400, true);
        assert_eq!(bound.error_ns(NOW, host(Some(70)), None), Some(70));
        heard(&mut bound, 800, true);
        assert_eq!(bound.error_ns(NOW, None, None), Some(801));
        heard(&mut bound, 1_300, true);
        assert_eq!(bound.error_ns(NOW, None, None), Some(1_301));
    }
}
