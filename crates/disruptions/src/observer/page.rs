//! The kvm-clock page: its updates, and what they show of the host.

use facts::Fact;
use facts::Sample;
use instruments::steps::page::{PageStep as Compared, compare};
use pvclock::kvm_clock::{Flags, TimeInfo};
use pvclock::{Hertz, Scale};

use crate::observer::Noticed;
use crate::{Event, Evidence, ObservedPageUpdate, page_fact};

/// A host whose master clock restarts steps its guests by what its NTP has
/// corrected since the last time: at most this part of that time, as
/// frequencies beyond 500 ppm are refused (kernel/time/ntp.c).
const NTP: f64 = 500e-6;

/// The rounding of the scales and of a host that reads its clock twice, ns: a
/// smaller step is none.
const NO_STEP_NS: u64 = 1000;

/// The same of a host without a master clock, which reads its clock anew for
/// each update, and states a CPU's frequency some µs after it changed.
const NO_STEP_WITHOUT_MASTER_NS: u64 = 100_000;

/// What is known of the page.
#[derive(Default)]
pub(super) struct ObservedPage {
    last: Option<TimeInfo>,
    is_readable: bool,
    /// CLOCK_MONOTONIC at the sample that last showed an update.
    updated_ns: Option<u64>,
    was_sampled: bool,
}

impl ObservedPage {
    pub(super) fn version_and_update(&self) -> Option<(u32, Option<u64>)> {
        self.last.map(|page| (page.version, self.updated_ns))
    }

    /// The rate at which the page converts the TSC; `None` without a page.
    pub(super) fn scale(&self) -> Option<Scale> {
        self.last.map(|page| page.scale)
    }

    /// A step of the source that is no greater is the page's own, ns: none where
    /// the host has a master clock, whose updates are exact.
    pub(super) fn no_step_ns(&self) -> u64 {
        let has_none = self.last.is_some_and(|page| !is_flagged(&page, Flags::TSC_STABLE));
        if has_none { NO_STEP_WITHOUT_MASTER_NS } else { 0 }
    }

    /// Whether the host reported that it had paused this guest.
    pub(super) fn observe(&mut self, sample: &Sample, noticed: &mut Noticed) -> bool {
        let is_first = !std::mem::replace(&mut self.was_sampled, true);
        let was_readable = std::mem::replace(&mut self.is_readable, sample.page.value().is_some());
        let last = self.last;
        self.last = sample.page.value().copied().or(last);
        let at_ns = sample.monotonic_ns;
        match (&sample.page, last) {
            (Fact::Known(now), Some(last)) if was_readable => {
                let Some(update) = compare(&last, now) else { return false };
                let event = self.updated(&update, now, at_ns);
                noticed.event(at_ns, event);
                push_evidence(&update, &last, now, at_ns, noticed)
            }
            (Fact::Known(now), _) if !is_first => {
                noticed.event(at_ns, Event::PageAppeared { page: page_fact(now) });
                false
            }
            (Fact::Unknown(why), _) if was_readable => {
                noticed.event(at_ns, Event::PageGone { why: why.to_string() });
                false
            }
            _ => false,
        }
    }

    fn updated(&mut self, update: &Compared, now: &TimeInfo, now_ns: u64) -> Event {
        let since_ns = self.updated_ns.map(|at_ns| now_ns.saturating_sub(at_ns));
        // A flag that the guest itself cleared is no update.
        if update.updates != Some(0) {
            self.updated_ns = Some(now_ns);
        }
        Event::PageUpdate(ObservedPageUpdate::new(update, now, since_ns))
    }
}

/// The evidence in an update.
fn push_evidence(
    update: &Compared,
    last: &TimeInfo,
    now: &TimeInfo,
    at_ns: u64,
    noticed: &mut Noticed,
) -> bool {
    if update.updates.is_none() {
        noticed.evidence(at_ns, Evidence::PageReset);
    }
    let rates = (last.scale.to_hertz(), now.scale.to_hertz());
    // A host whose TSC follows the CPU's frequency has no master clock, and
    // states each frequency (kvmclock_cpufreq_notifier, arch/x86/kvm/x86.c).
    let has_constant_tsc =
        is_flagged(last, Flags::TSC_STABLE) || is_flagged(now, Flags::TSC_STABLE);
    if let (Some(Hertz(before_hz)), Some(Hertz(after_hz))) = rates
        && last.scale != now.scale
        && has_constant_tsc
    {
        noticed.evidence(at_ns, Evidence::PageRate { before_hz, after_hz });
    }
    let no_step_ns = if has_constant_tsc { NO_STEP_NS } else { NO_STEP_WITHOUT_MASTER_NS };
    if let Ok(step_ns) = update.step_ns
        && step_ns.unsigned_abs() >= no_step_ns
    {
        let explained_ns = explained_ns(last, now);
        noticed.evidence(at_ns, Evidence::PageStep { step_ns, explained_ns });
    }
    // It stays set until the guest clears it, whatever updates come.
    let was_stopped =
        is_flagged(now, Flags::GUEST_STOPPED) && !is_flagged(last, Flags::GUEST_STOPPED);
    if was_stopped {
        noticed.evidence(at_ns, Evidence::GuestStopped);
    }
    was_stopped
}

fn is_flagged(info: &TimeInfo, flag: Flags) -> bool {
    info.flags.contains(flag)
}

/// The most that the host's NTP corrects from one stamp to the next; nothing
/// where the TSC went backward between them.
fn explained_ns(last: &TimeInfo, now: &TimeInfo) -> u64 {
    let cycles = now.tsc_timestamp.saturating_sub(last.tsc_timestamp);
    match last.scale.to_hertz() {
        Some(Hertz(hz)) => (cycles as f64 / hz as f64 * 1e9 * NTP) as u64,
        None => 0,
    }
}
