//! How far CLOCK_REALTIME may be from UTC.

use wire::chronyd::ErrorBound;

/// What adjtimex reports of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimexBound {
    /// `maxerror`: it grows by 500 ppm until a time daemon writes it again.
    pub max_error_ns: u64,
    /// Neither STA_UNSYNC nor TIME_ERROR.
    pub synchronised: bool,
}

/// What the host reports in the VMClock page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmClockBound {
    /// Disruption marker and VM generation: others mean restored or migrated.
    pub identity: (u64, u64),
    /// How far CLOCK_REALTIME may be from the host's UTC, its own maximum
    /// error included, where the host reports both.
    pub error_ns: Option<u64>,
}

/// What came of a request to chronyd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChronydBound {
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

/// What a daemon publishes in a ClockBound segment, as it counts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSource {
    /// How far CLOCK_REALTIME may be off.
    pub error_ns: u64,
    /// When that was published, ns.
    pub as_of_ns: u64,
    /// The VMClock page's marker that it accounts for, if any.
    pub disruption_marker: Option<u64>,
}

/// Where the error bound comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorFrom {
    /// The kernel, as a time daemon set it: adjtimex's `maxerror`.
    Kernel,
    /// chronyd's replies.
    Chronyd,
    /// A daemon, by a ClockBound segment.
    ClockBound,
    /// The host, by the VMClock page.
    Host,
    /// The program's own settings: nothing else bounds it.
    Settings,
}

/// The rate at which an uncorrected clock may drift from UTC, as the kernel
/// assumes: MAXFREQ, include/linux/timex.h.
pub const GROWTH_PPM: u64 = 500;

/// How long chronyd is assumed to keep correcting after a request, ns: requests
/// are more frequent, and it counts as unreachable no later.
const FRESH_NS: u64 = 5_000_000_000;

/// A daemon that publishes this long after a disruption has noticed it, ns: it
/// samples the clocks once a second or more often.
const NOTICED_NS: u64 = 1_000_000_000;

/// A daemon's latest report, and when it was made. A disruption outdates it,
/// until the daemon has visibly acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Report<T> {
    latest: Option<(T, u64)>,
    /// Set by a disruption; holds the last report since then.
    outdated: Option<Option<T>>,
}

impl<T: Copy> Report<T> {
    const NONE: Self = Self { latest: None, outdated: None };

    /// `acted` decides from the last report and this one whether the daemon
    /// did anything between them.
    fn update(&mut self, latest: T, at_ns: u64, acted: impl FnOnce(&T, &T) -> bool) {
        self.outdated = match self.outdated {
            Some(Some(last)) if acted(&last, &latest) => None,
            Some(_) => Some(Some(latest)),
            None => None,
        };
        self.latest = Some((latest, at_ns));
    }

    /// The latest report, unless a disruption outdated it.
    fn valid(&self) -> Option<(T, u64)> {
        self.latest.filter(|_| self.outdated.is_none())
    }
}

/// What bounds the error, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundSource {
    timex: Report<TimexBound>,
    chronyd: Report<ErrorBound>,
    /// Replies to requests from before this are ignored, ns.
    chronyd_since_ns: u64,
    /// A segment from before this is ignored, ns.
    segment_since_ns: u64,
}

impl Default for BoundSource {
    fn default() -> Self {
        Self::new()
    }
}

impl BoundSource {
    /// No report yet.
    pub const fn new() -> Self {
        Self {
            timex: Report::NONE,
            chronyd: Report::NONE,
            chronyd_since_ns: 0,
            segment_since_ns: 0,
        }
    }

    /// The machine was disrupted, before `now_ns`: what was known before no
    /// longer holds.
    pub fn disrupt(&mut self, now_ns: u64) {
        self.timex.outdated = Some(None);
        self.chronyd.outdated = Some(None);
        self.chronyd_since_ns = now_ns;
        self.segment_since_ns = now_ns.saturating_add(NOTICED_NS);
    }

    /// The time of day was set, before `now_ns`. The next adjtimex shows it
    /// (`ntp_clear`, kernel/time/ntp.c). chronyd, unless it set the time
    /// itself, does not know before its next measurement of a source.
    pub fn step(&mut self, now_ns: u64) {
        self.timex.latest = None;
        self.chronyd.outdated = Some(None);
        self.chronyd_since_ns = now_ns;
        self.segment_since_ns = now_ns.saturating_add(NOTICED_NS);
    }

    /// What adjtimex reports at `now_ns`. Only a time daemon reduces its
    /// `maxerror`.
    pub fn update_timex(&mut self, timex: TimexBound, now_ns: u64) {
        self.timex.update(timex, now_ns, |last, now| now.max_error_ns < last.max_error_ns);
    }

    /// What came of a request to chronyd.
    pub fn update_chronyd(&mut self, chronyd: ChronydBound) {
        match chronyd {
            ChronydBound::Unreachable => self.chronyd.latest = None,
            // It may have replied before the disruption.
            ChronydBound::Replied { requested_ns, .. } if requested_ns < self.chronyd_since_ns => {}
            ChronydBound::Replied { bound, requested_ns } => {
                let acted = |last: &ErrorBound, now: &ErrorBound| now.updated_ns != last.updated_ns;
                self.chronyd.update(bound, requested_ns, acted);
            }
        }
    }

    /// How far CLOCK_REALTIME may be off at `now_ns`, and by which report;
    /// `None` if nothing bounds it. `unsynchronised_ns` is the bound for a
    /// clock that no daemon corrects.
    pub fn error_ns(
        &self,
        now_ns: u64,
        vmclock: Option<VmClockBound>,
        segment: Option<SegmentSource>,
        unsynchronised_ns: Option<u64>,
    ) -> Option<(u64, ErrorFrom)> {
        let by_host = vmclock.and_then(|vmclock| vmclock.error_ns).map(|ns| (ns, ErrorFrom::Host));
        let by_settings = unsynchronised_ns.map(|ns| (ns, ErrorFrom::Settings));
        let marker = vmclock.map(|vmclock| vmclock.identity.0);
        let counts = |segment: &SegmentSource| {
            segment.as_of_ns >= self.segment_since_ns
                && segment.disruption_marker.is_none_or(|known| Some(known) == marker)
        };
        let by_segment = segment.filter(counts).map(|it| (it.error_ns, ErrorFrom::ClockBound));
        let by_daemon = self.daemon_error_ns(now_ns);
        by_daemon
            .into_iter()
            .chain(by_segment)
            .chain(by_host)
            .min_by_key(|&(ns, _)| ns)
            .or(by_settings)
    }

    /// By the daemon: by chronyd's own replies rather than by the kernel,
    /// to which it passes on less.
    fn daemon_error_ns(&self, now_ns: u64) -> Option<(u64, ErrorFrom)> {
        let grown = |ns: u64, at_ns| ns.saturating_add(growth_ns(at_ns, now_ns));
        if let Some((bound, at_ns)) = self.chronyd.valid()
            && let Some(ns) = bound.error_ns
        {
            let stale_ns = at_ns.saturating_add(FRESH_NS);
            let fresh_for_ns = now_ns.min(stale_ns).saturating_sub(at_ns);
            let wandered = u128::from(fresh_for_ns) * u128::from(bound.growth_ppb);
            let wandered_ns = u64::try_from(wandered / 1_000_000_000).unwrap_or(u64::MAX);
            return Some((grown(ns.saturating_add(wandered_ns), stale_ns), ErrorFrom::Chronyd));
        }
        let (timex, at_ns) = self.timex.valid().filter(|(timex, _)| timex.synchronised)?;
        Some((grown(timex.max_error_ns, at_ns), ErrorFrom::Kernel))
    }
}

/// What an error bound grows by from one time to another, ns, rounded up.
#[inline]
pub const fn growth_ns(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / (1_000_000 / GROWTH_PPM) + 1
}

#[cfg(test)]
mod tests;
