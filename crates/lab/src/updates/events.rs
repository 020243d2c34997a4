//! The events of KVM's own policy, and what each must do to the pages.

use pvclock::kvm_clock::{Flags, TimeInfo};

use super::UpdateSubject;
use super::causes::{
    self, Caused, OFFSET_CYCLES, SET_NS, Stability, kernel_clock, not, own_clock, own_clocksource,
    own_offset,
};
use crate::bench::Provider;
use crate::settings::LabError;
use host::msr::{KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD};

/// Kernels before 5.6 use a clock that NTP slews, and an update shows the slew
/// since the last one: at most 500 ppm (adjtimex(2), "freq").
pub(super) const STEP_PPM: i64 = 500;

/// For reading the host's clock and TSC together: KVM does so once; our host repeats a reading
/// that something came between, and 0.6 µs were seen at a load of 15.
pub(super) const fn reading_ns(provider: Provider) -> i64 {
    if provider.is_own() { 2_000 } else { 10_000 }
}

/// Whether a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// It must be.
    Grows,
    /// It must not be.
    Stays,
    /// Kernels differ.
    Either,
}

/// Whose pages an event has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSet {
    /// vCPU 0's at once, the others' soon after.
    All,
    /// All, but none under a master clock.
    AllWithoutMasterClock,
    /// None under a master clock; without one, those of vCPUs that change their
    /// pCPU meanwhile (kvm_arch_vcpu_load, arch/x86/kvm/x86.c).
    None,
    /// Kernels differ.
    Any,
}

type Cause = fn(&mut UpdateSubject) -> Result<Caused, LabError>;

/// One event.
pub(super) struct UpdateEvent {
    pub(super) name: &'static str,
    /// How it is caused where the kernel makes the clock.
    pub(super) kernel: Cause,
    /// How it is caused where our provider does.
    pub(super) own: Cause,
    pub(super) pages: PageSet,
    /// Whether it sets GUEST_STOPPED.
    pub(super) stops: bool,
}

/// An event that writes all pages.
const fn each(name: &'static str, kernel: Cause, own: Cause) -> UpdateEvent {
    UpdateEvent { name, kernel, own, pages: PageSet::All, stops: false }
}

/// Caused the same way on both.
const fn both(name: &'static str, cause: Cause, pages: PageSet) -> UpdateEvent {
    UpdateEvent { pages, ..each(name, cause, cause) }
}

const fn all(name: &'static str, cause: Cause) -> UpdateEvent {
    both(name, cause, PageSet::All)
}

impl UpdateEvent {
    const fn stopping(self) -> Self {
        Self { stops: true, ..self }
    }

    /// Whether a page may stay unwritten, which shows only after a while.
    pub(super) fn may_leave_pages(&self) -> bool {
        self.pages != PageSet::All
    }

    pub(super) fn growth(&self, before: &TimeInfo) -> Growth {
        match self.pages {
            PageSet::All => Growth::Grows,
            PageSet::AllWithoutMasterClock if before.flags.contains(Flags::TSC_STABLE) => {
                Growth::Stays
            }
            PageSet::AllWithoutMasterClock => Growth::Grows,
            PageSet::None if before.flags.contains(Flags::TSC_STABLE) => Growth::Stays,
            PageSet::None => Growth::Either,
            PageSet::Any => Growth::Either,
        }
    }

    pub(super) fn expected(&self, provider: Provider) -> String {
        let pages = match self.pages {
            PageSet::All => "all pages written",
            PageSet::AllWithoutMasterClock => "all pages written; with a master clock, none",
            PageSet::None => "no page written; without a master clock, any",
            PageSet::Any => "pages may be written",
        };
        let stopped = if self.stops { ", with GUEST_STOPPED" } else { "" };
        format!(
            "{pages}{stopped}; steps of at most {} µs plus {STEP_PPM} ppm of the time since the last update",
            reading_ns(provider) / 1000
        )
    }
}

const NO_SUSPEND: Cause = |_| not("the lab does not suspend this host");
const NO_FREQUENCY: Cause = |_| not("KVM_SET_TSC_KHZ works only before a vCPU first runs");
const NO_CHANGE: Cause = |_| not("the lab does not change this host's clocksource or CPUs");
const NO_PERIOD: Cause =
    |_| not("the lab does not wait for this update, which Linux before 6.19 makes every 300 s");
const NO_OTHER_TSC: Cause = |_| not("KVM gives a new vCPU the TSC offset of the others");

const OFFSET_BACK: u64 = OFFSET_CYCLES.wrapping_neg();
const SET_BACK: u64 = SET_NS.wrapping_neg();

/// In this order: each begins with what the one before left, and what cannot be
/// undone comes last.
pub(super) const EVENTS: &[UpdateEvent] = &[
    all("system time MSR written again", |on| causes::msr(on, KVM_SYSTEM_TIME, Stability::Same)),
    both("vCPU moved to another pCPU", causes::moved, PageSet::AllWithoutMasterClock),
    all("system time by the old MSR", |on| {
        causes::msr(on, KVM_SYSTEM_TIME_OLD, Stability::Possible(false))
    }),
    both("vCPU moved, no master clock", causes::moved, PageSet::AllWithoutMasterClock),
    all("system time by the new MSR", |on| {
        causes::msr(on, KVM_SYSTEM_TIME, Stability::Possible(true))
    }),
    each("TSC offset changed", causes::kernel_offset, |on| own_offset(on, OFFSET_CYCLES)),
    each("TSC offset changed back", causes::kernel_offset_back, |on| own_offset(on, OFFSET_BACK)),
    each("clock set 5 s forward", |on| kernel_clock(on, SET_NS), |on| own_clock(on, SET_NS)),
    each("clock set 5 s back", |on| kernel_clock(on, SET_BACK), |on| own_clock(on, SET_BACK)),
    all("paused", causes::paused).stopping(),
    both("GUEST_STOPPED taken", causes::take_stopped, PageSet::None),
    all("saved and restored", causes::restored).stopping(),
    both("GUEST_STOPPED taken again", causes::take_stopped, PageSet::None),
    each("host woke from suspend", NO_SUSPEND, causes::own_suspend).stopping(),
    both("GUEST_STOPPED taken once more", causes::take_stopped, PageSet::None),
    each("TSC frequency changed", NO_FREQUENCY, causes::own_frequency),
    each("host clocksource no longer TSC", NO_CHANGE, |on| own_clocksource(on, false)),
    each("host clocksource TSC again", NO_CHANGE, |on| own_clocksource(on, true)),
    each("periodic", NO_PERIOD, causes::own_period),
    UpdateEvent {
        pages: PageSet::Any,
        ..each("vCPU added", causes::kernel_vcpu, causes::own_vcpu)
    },
    each("vCPU added, other TSC offset", NO_OTHER_TSC, causes::own_vcpu_other_tsc),
    each("pCPU added, other TSC offset", NO_CHANGE, causes::own_physical_cpu),
];
