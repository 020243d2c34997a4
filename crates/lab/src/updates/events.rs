//! The events of KVM's own policy, each with what it must do to the pages.

use pvclock::kvm_clock::{Flags, TimeInfo};

use super::causes::{self, Caused};
use super::{STEP_NS, STEP_PPM, Subject};
use crate::settings::LabError;

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
    /// Where we do.
    pub(super) own: Cause,
    pub(super) pages: Pages,
    /// Whether GUEST_STOPPED stands then.
    pub(super) stops: bool,
}

impl Event {
    const fn new(name: &'static str, kernel: Cause, own: Cause, pages: Pages) -> Self {
        Self { name, kernel, own, pages, stops: false }
    }

    const fn stopping(self) -> Self {
        Self { stops: true, ..self }
    }

    /// Whether it shows only after a while that a page was not written.
    pub(super) fn may_leave_pages(&self) -> bool {
        self.pages != Pages::All
    }

    pub(super) fn growth(&self, _vcpu: usize, before: &TimeInfo) -> Growth {
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

    pub(super) fn bar(&self) -> String {
        let pages = match self.pages {
            Pages::All => "all pages written",
            Pages::AllWithoutMasterClock => "all pages written, under a master clock none",
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

/// In this order: the next begins with what the one before left, and what
/// cannot be undone comes last.
pub(super) const EVENTS: &[Event] = &[
    Event::new("system time MSR written again", causes::msr, causes::msr, Pages::All),
    Event::new(
        "vCPU moved to another pCPU",
        causes::moved,
        causes::moved,
        Pages::AllWithoutMasterClock,
    ),
    Event::new("system time by the old MSR", causes::old_msr, causes::old_msr, Pages::All),
    Event::new(
        "vCPU moved, no master clock",
        causes::moved,
        causes::moved,
        Pages::AllWithoutMasterClock,
    ),
    Event::new("system time by the new MSR", causes::msr_again, causes::msr_again, Pages::All),
    Event::new("TSC offset changed", causes::kernel_offset, causes::own_offset, Pages::All),
    Event::new(
        "TSC offset changed back",
        causes::kernel_offset_back,
        causes::own_offset_back,
        Pages::All,
    ),
    Event::new("clock set 5 s on", causes::kernel_clock_on, causes::own_clock_on, Pages::All),
    Event::new("clock set 5 s back", causes::kernel_clock_back, causes::own_clock_back, Pages::All),
    Event::new("paused", causes::paused, causes::paused, Pages::All).stopping(),
    Event::new("GUEST_STOPPED taken", causes::take_stopped, causes::take_stopped, Pages::None),
    Event::new("saved and restored", causes::restored, causes::restored, Pages::All).stopping(),
    Event::new(
        "GUEST_STOPPED taken again",
        causes::take_stopped,
        causes::take_stopped,
        Pages::None,
    ),
    Event::new(
        "host woke from suspend",
        causes::not_ours_to_suspend,
        causes::own_suspend,
        Pages::All,
    )
    .stopping(),
    Event::new(
        "GUEST_STOPPED taken once more",
        causes::take_stopped,
        causes::take_stopped,
        Pages::None,
    ),
    Event::new(
        "TSC frequency changed",
        causes::not_while_it_runs,
        causes::own_frequency,
        Pages::All,
    ),
    Event::new(
        "host clocksource no longer TSC",
        causes::not_ours_to_change,
        causes::own_clocksource_lost,
        Pages::All,
    ),
    Event::new(
        "host clocksource TSC again",
        causes::not_ours_to_change,
        causes::own_clocksource_back,
        Pages::All,
    ),
    Event::new("periodic", causes::not_waited_for, causes::own_period, Pages::All),
    Event::new("vCPU added", causes::kernel_vcpu, causes::own_vcpu, Pages::Any),
    Event::new(
        "vCPU added, its TSC elsewhere",
        causes::kernel_adds_in_step,
        causes::own_vcpu_elsewhere,
        Pages::All,
    ),
    Event::new(
        "pCPU added, its TSC elsewhere",
        causes::not_ours_to_change,
        causes::own_physical_cpu,
        Pages::All,
    ),
];
