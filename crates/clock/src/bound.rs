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
    /// Set by a disruption: adjtimex's word is older than it until `maxerror`
    /// falls, which only a time daemon makes it do. Holds what it was last.
    outdated: Option<u64>,
}

impl Bound {
    /// Nobody has said anything.
    pub const fn new() -> Self {
        Self { outdated: None }
    }

    /// The machine was disrupted: what was known before no longer holds.
    pub fn disrupt(&mut self, timex: Option<Timex>) {
        self.outdated = Some(timex.map_or(0, |timex| timex.max_error_ns));
    }

    /// How far CLOCK_REALTIME may be off; `None` if nobody vouches for it.
    /// `unsynchronised_ns` is what to say of a clock that nobody steers.
    pub fn error_ns(
        &mut self,
        timex: Option<Timex>,
        vmclock: Option<VmClock>,
        unsynchronised_ns: Option<u64>,
    ) -> Option<u64> {
        if let (Some(last), Some(timex)) = (self.outdated, timex) {
            self.outdated = (timex.max_error_ns >= last).then_some(timex.max_error_ns);
        }
        let by_daemon = timex
            .filter(|timex| timex.synchronised && self.outdated.is_none())
            .map(|timex| timex.max_error_ns);
        let by_host = vmclock.and_then(|vmclock| vmclock.error_ns);
        match (by_daemon, by_host) {
            (Some(daemon), Some(host)) => Some(daemon.min(host)),
            (None, None) => unsynchronised_ns,
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timex(max_error_ns: u64, synchronised: bool) -> Option<Timex> {
        Some(Timex { max_error_ns, synchronised })
    }

    fn host(error_ns: Option<u64>) -> Option<VmClock> {
        Some(VmClock { identity: (1, 1), error_ns })
    }

    #[test]
    fn the_tighter_of_daemon_and_host_is_taken_and_nobody_means_unbounded() {
        let mut bound = Bound::new();
        assert_eq!(bound.error_ns(timex(900, true), host(Some(70)), None), Some(70));
        assert_eq!(bound.error_ns(timex(60, true), host(Some(70)), None), Some(60));
        assert_eq!(bound.error_ns(timex(900, true), host(None), None), Some(900));
        assert_eq!(bound.error_ns(timex(900, false), None, None), None);
        assert_eq!(bound.error_ns(timex(900, false), None, Some(5_000)), Some(5_000));
        assert_eq!(bound.error_ns(None, None, None), None);
    }

    #[test]
    fn after_a_disruption_the_daemon_is_believed_when_it_has_acted() {
        let mut bound = Bound::new();
        bound.disrupt(timex(900, true));
        assert_eq!(bound.error_ns(timex(900, true), None, None), None);
        assert_eq!(bound.error_ns(timex(1_400, true), None, None), None);
        assert_eq!(bound.error_ns(timex(1_900, true), host(Some(70)), None), Some(70));
        assert_eq!(bound.error_ns(timex(800, true), None, None), Some(800));
        assert_eq!(bound.error_ns(timex(1_300, true), None, None), Some(1_300));
    }
}
