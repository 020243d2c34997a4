//! The events of KVM's own policy, and what each must do to the pages.

use pvclock::kvm_clock::{Flags, TimeInfo};

use super::causes::{self, Caused};
use super::subject::Subject;
use crate::settings::LabError;

/// Kernels before 5.6 use a clock that NTP slews, and an update shows the slew
/// since the last one: at most 500 ppm (adjtimex(2), "freq"). The rest is for
/// reading the host's clock and TSC together.
pub(super) const STEP_NS: i64 = 10_000;
pub(super) const STEP_PPM: i64 = 500;

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
pub(super) enum Pages {
    /// vCPU 0's at once, the others' soon after.
    All,
    /// All, but none under a master clock.
    AllWithoutMasterClock,
    /// None.
    None,
    /// Kernels differ.
    Any,
}

type Cause = fn(&mut Subject) -> Result<Caused, LabError>;

/// One event.
pub(super) struct Event {
    pub(super) name: &'static str,
    /// How it is caused where the kernel makes the clock.
    pub(super) kernel: Cause,
    /// How it is caused where our provider does.
    pub(super) own: Cause,
    pub(super) pages: Pages,
    /// Whether it sets GUEST_STOPPED.
    pub(super) stops: bool,
}

impl Event {
    const fn new(name: &'static str, kernel: Cause, own: Cause, pages: Pages) -> Self {
        Self { name, kernel, own, pages, stops: false }
    }

    /// Caused the same way on both.
    const fn both(name: &'static str, cause: Cause, pages: Pages) -> Self {
        Self::new(name, cause, cause, pages)
    }

    const fn stopping(self) -> Self {
        Self { stops: true, ..self }
    }

    /// Whether a page may stay unwritten, which shows only after a while.
    pub(super) fn may_leave_pages(&self) -> bool {
        self.pages != Pages::All
    }

    pub(super) fn growth(&self, before: &TimeInfo) -> Growth {
        match self.pages {
            Pages::All => Growth::Grows,
            Pages::AllWithoutMasterClock if before.flags.contains(Flags::TSC_STABLE) => {
                Growth::Stays
            }
            Pages::AllWithoutMasterClock => Growth::Grows,
            Pages::None => Growth::Stays,
            Pages::Any => Growth::Either,
        }
    }

    pub(super) fn expected(&self) -> String {
        let pages = match self.pages {
            Pages::All => "all pages written",
            Pages::AllWithoutMasterClock => "all pages written, or none with a master clock",
            Pages::None => "no page written",
            Pages::Any => "pages written or not",
        };
        let stopped = if self.stops { ", with GUEST_STOPPED" } else { "" };
        format!(
            "{pages}{stopped}; steps within {} µs and {STEP_PPM} ppm since the last update",
            STEP_NS / 1000
        )
    }
}

/// In this order: each begins with what the one before left, and what cannot be
/// undone comes last.
pub(super) const EVENTS: &[Event] = &[
    Event::both("system time MSR written again", causes::msr, Pages::All),
    Event::both("vCPU moved to another pCPU", causes::moved, Pages::AllWithoutMasterClock),
    Event::both("system time by the old MSR", causes::old_msr, Pages::All),
    Event::both("vCPU moved, no master clock", causes::moved, Pages::AllWithoutMasterClock),
    Event::both("system time by the new MSR", causes::msr_again, Pages::All),
    Event::new("TSC offset changed", causes::kernel_offset, causes::own_offset, Pages::All),
    Event::new(
        "TSC offset changed back",
        causes::kernel_offset_back,
        causes::own_offset_back,
        Pages::All,
    ),
    Event::new(
        "clock set 5 s forward",
        causes::kernel_clock_forward,
        causes::own_clock_forward,
        Pages::All,
    ),
    Event::new("clock set 5 s back", causes::kernel_clock_back, causes::own_clock_back, Pages::All),
    Event::both("paused", causes::paused, Pages::All).stopping(),
    Event::both("GUEST_STOPPED taken", causes::take_stopped, Pages::None),
    Event::both("saved and restored", causes::restored, Pages::All).stopping(),
    Event::both("GUEST_STOPPED taken again", causes::take_stopped, Pages::None),
    Event::new("host woke from suspend", causes::cannot_suspend, causes::own_suspend, Pages::All)
        .stopping(),
    Event::both("GUEST_STOPPED taken once more", causes::take_stopped, Pages::None),
    Event::new(
        "TSC frequency changed",
        causes::not_on_running_vcpu,
        causes::own_frequency,
        Pages::All,
    ),
    Event::new(
        "host clocksource no longer TSC",
        causes::cannot_change_host,
        causes::own_clocksource_lost,
        Pages::All,
    ),
    Event::new(
        "host clocksource TSC again",
        causes::cannot_change_host,
        causes::own_clocksource_back,
        Pages::All,
    ),
    Event::new("periodic", causes::not_awaited, causes::own_period, Pages::All),
    Event::new("vCPU added", causes::kernel_vcpu, causes::own_vcpu, Pages::Any),
    Event::new(
        "vCPU added, other TSC offset",
        causes::kernel_synchronises,
        causes::own_vcpu_other_tsc,
        Pages::All,
    ),
    Event::new(
        "pCPU added, other TSC offset",
        causes::cannot_change_host,
        causes::own_physical_cpu,
        Pages::All,
    ),
];
