//! How far CLOCK_REALTIME may be from UTC.

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
        Self { timex: Report::NONE, segment_since_ns: 0 }
    }

    /// The machine was disrupted, before `now_ns`: what was known before no
    /// longer holds.
    pub fn disrupt(&mut self, now_ns: u64) {
        self.timex.outdated = Some(None);
        self.segment_since_ns = now_ns.saturating_add(NOTICED_NS);
    }

    /// The time of day was set, before `now_ns`. The next adjtimex shows it
    /// (`ntp_clear`, kernel/time/ntp.c).
    pub fn step(&mut self, now_ns: u64) {
        self.timex.latest = None;
        self.segment_since_ns = now_ns.saturating_add(NOTICED_NS);
    }

    /// What adjtimex reports at `now_ns`. Only a time daemon reduces its
    /// `maxerror`.
    pub fn update_timex(&mut self, timex: TimexBound, now_ns: u64) {
        self.timex.update(timex, now_ns, |last, now| now.max_error_ns < last.max_error_ns);
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
        let by_kernel = self.kernel_error_ns(now_ns).map(|ns| (ns, ErrorFrom::Kernel));
        by_kernel
            .into_iter()
            .chain(by_segment)
            .chain(by_host)
            .min_by_key(|&(ns, _)| ns)
            .or(by_settings)
    }

    /// By the kernel, while it counts as synchronised.
    fn kernel_error_ns(&self, now_ns: u64) -> Option<u64> {
        let (timex, at_ns) = self.timex.valid().filter(|(timex, _)| timex.synchronised)?;
        Some(timex.max_error_ns.saturating_add(growth_ns(at_ns, now_ns)))
    }
}

/// What an error bound grows by from one time to another, ns, rounded up.
#[inline]
pub const fn growth_ns(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / (1_000_000 / GROWTH_PPM) + 1
}

#[cfg(test)]
mod tests;
