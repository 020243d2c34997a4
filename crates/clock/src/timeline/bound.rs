//! How far CLOCK_REALTIME may be from the truth.

use chronyd::ErrorBound;

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

/// What came of a request to chronyd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chronyd {
    /// It replied.
    Replied {
        /// The bound that its reply implies.
        bound: ErrorBound,
        /// When the request was sent, ns.
        requested_ns: u64,
    },
    /// There is none, it refuses, or it no longer replies.
    Unreachable,
}

/// Who bounds the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voucher {
    /// A time daemon, by what it told the kernel: adjtimex's `maxerror`.
    Kernel,
    /// chronyd, asked.
    Chronyd,
    /// The host, in the VMClock page.
    Host,
    /// Nobody but the program's own settings.
    Settings,
}

/// The rate at which a clock that nobody corrects may leave the truth, as the
/// kernel has it: MAXFREQ, include/linux/timex.h.
pub const GROWTH_PPM: u64 = 500;

/// How long chronyd is taken to go on steering after it was asked, ns: it is
/// asked more often, and given up as silent no later.
const FRESH_NS: u64 = 5_000_000_000;

/// A daemon's word, and since when. A disruption ends it: it is older than
/// that, until the daemon is seen to have acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word<T> {
    said: Option<(T, u64)>,
    /// Set by a disruption. Holds what was said last, once something was said
    /// after it.
    outdated: Option<Option<T>>,
}

impl<T: Copy> Word<T> {
    const NONE: Self = Self { said: None, outdated: None };

    /// `acted` tells from the last word and this one whether the daemon did
    /// anything between them.
    fn hear(&mut self, said: T, at_ns: u64, acted: impl FnOnce(&T, &T) -> bool) {
        self.outdated = match self.outdated {
            Some(Some(last)) if acted(&last, &said) => None,
            Some(_) => Some(Some(said)),
            None => None,
        };
        self.said = Some((said, at_ns));
    }

    /// The word, unless a disruption ended it.
    fn standing(&self) -> Option<(T, u64)> {
        self.said.filter(|_| self.outdated.is_none())
    }
}

/// Who vouches for the time, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    timex: Word<Timex>,
    chronyd: Word<ErrorBound>,
    /// What chronyd was asked before this is not looked at, ns.
    chronyd_since_ns: u64,
}

impl Default for Bound {
    fn default() -> Self {
        Self::new()
    }
}

impl Bound {
    /// Nobody has said anything.
    pub const fn new() -> Self {
        Self { timex: Word::NONE, chronyd: Word::NONE, chronyd_since_ns: 0 }
    }

    /// The machine was disrupted, before `now_ns`: what was known before no
    /// longer holds.
    pub fn disrupt(&mut self, now_ns: u64) {
        self.timex.outdated = Some(None);
        self.chronyd.outdated = Some(None);
        self.chronyd_since_ns = now_ns;
    }

    /// Somebody set the time of day, before `now_ns`. The kernel knows, and
    /// will say so when asked (`ntp_clear`, kernel/time/ntp.c). chronyd does
    /// not, unless it was the one, before its next look at a source.
    pub fn step(&mut self, now_ns: u64) {
        self.timex.said = None;
        self.chronyd.outdated = Some(None);
        self.chronyd_since_ns = now_ns;
    }

    /// What adjtimex says at `now_ns`. Only a time daemon makes its
    /// `maxerror` fall.
    pub fn hear(&mut self, timex: Timex, now_ns: u64) {
        self.timex.hear(timex, now_ns, |last, now| now.max_error_ns < last.max_error_ns);
    }

    /// What chronyd says, if anything.
    pub fn hear_chronyd(&mut self, chronyd: Chronyd) {
        match chronyd {
            Chronyd::Unreachable => self.chronyd.said = None,
            // Whether it spoke before or after what ended its word is not known.
            Chronyd::Replied { requested_ns, .. } if requested_ns < self.chronyd_since_ns => {}
            Chronyd::Replied { bound, requested_ns } => {
                let acted = |last: &ErrorBound, now: &ErrorBound| now.updated_ns != last.updated_ns;
                self.chronyd.hear(bound, requested_ns, acted);
            }
        }
    }

    /// How far CLOCK_REALTIME may be off at `now_ns`, and who says so; `None`
    /// if nobody vouches for it. `unsynchronised_ns` is what to say of a
    /// clock that nobody steers.
    pub fn error_ns(
        &self,
        now_ns: u64,
        vmclock: Option<VmClock>,
        unsynchronised_ns: Option<u64>,
    ) -> Option<(u64, Voucher)> {
        let by_host = vmclock.and_then(|vmclock| vmclock.error_ns).map(|ns| (ns, Voucher::Host));
        let by_settings = unsynchronised_ns.map(|ns| (ns, Voucher::Settings));
        let by_daemon = self.daemon_error_ns(now_ns);
        by_daemon.into_iter().chain(by_host).min_by_key(|&(ns, _)| ns).or(by_settings)
    }

    /// What the daemon says; where it is chronyd, rather itself than by the
    /// kernel, to which it tells less.
    fn daemon_error_ns(&self, now_ns: u64) -> Option<(u64, Voucher)> {
        let grown = |ns: u64, at_ns| ns.saturating_add(growth_ns(at_ns, now_ns));
        if let Some((bound, at_ns)) = self.chronyd.standing()
            && let Some(ns) = bound.error_ns
        {
            let stale_ns = at_ns.saturating_add(FRESH_NS);
            let fresh_for_ns = now_ns.min(stale_ns).saturating_sub(at_ns);
            let wandered = u128::from(fresh_for_ns) * u128::from(bound.growth_ppb);
            let wandered_ns = u64::try_from(wandered / 1_000_000_000).unwrap_or(u64::MAX);
            return Some((grown(ns.saturating_add(wandered_ns), stale_ns), Voucher::Chronyd));
        }
        let (timex, at_ns) = self.timex.standing().filter(|(timex, _)| timex.synchronised)?;
        Some((grown(timex.max_error_ns, at_ns), Voucher::Kernel))
    }
}

/// What an error bound grows by from one time to another, ns, rounded up.
#[inline]
pub const fn growth_ns(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / (1_000_000 / GROWTH_PPM) + 1
}

#[cfg(test)]
mod tests;
