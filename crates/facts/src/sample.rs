//! What all probes of a machine read at one moment.

use pvclock::kvm_clock::TimeInfo;
use pvclock::units::Bracket;

use crate::hardware::VmClock;
use crate::kernel::LogLine;
use crate::running::{Activity, ThreadTimes};
use crate::steering::Adjtimex;
use crate::{Fact, Unknown};

/// One sample of a machine's clocks. An unknown fact carries its reason; a
/// `Fact<Option<…>>` that is known to be `None` was not read in this sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub unix_ns: Option<u64>,
    /// The TSC, where it can be read.
    pub tsc: Option<u64>,
    /// The CPU that the clocks were read on; `None` where it may be any.
    pub cpu: Option<u32>,
    /// CLOCK_REALTIME within CLOCK_MONOTONIC.
    pub realtime: Option<Bracket>,
    /// CLOCK_BOOTTIME within CLOCK_MONOTONIC.
    pub boottime: Option<Bracket>,
    /// CLOCK_MONOTONIC within CLOCK_MONOTONIC_RAW.
    pub monotonic: Option<Bracket>,
    /// CLOCK_MONOTONIC_RAW within the TSC.
    pub raw: Option<Bracket>,
    /// The clock source.
    pub source: Fact<String>,
    /// The clock source's coarsest resolution, ns, where it is known.
    pub source_step_ns: Option<f64>,
    /// The kernel's clock discipline.
    pub adjtimex: Fact<Adjtimex>,
    /// The kvm-clock page.
    pub page: Fact<TimeInfo>,
    /// The VMClock page.
    pub vmclock: Fact<VmClock>,
    /// The RTC in whole seconds within CLOCK_BOOTTIME in ns.
    pub rtc: Fact<Option<Bracket>>,
    /// What the CPUs did since boot.
    pub activity: Fact<Option<Activity>>,
    /// The scheduling of the thread that samples.
    pub thread: Fact<ThreadTimes>,
    /// What the kernel logged about clocks since the last sample.
    pub log: Fact<Vec<LogLine>>,
    /// Whether the kernel reported, since the last sample, that the time of
    /// day was set.
    pub was_set: Fact<bool>,
    /// Whether the kernel reported, since the last sample, a new generation
    /// of the virtual machine.
    pub new_generation: Fact<bool>,
    /// Whether this process was stopped and continued since the last sample.
    pub was_stopped: bool,
}

impl Sample {
    /// Nothing but CLOCK_MONOTONIC, for probes and tests to fill in.
    pub fn new(monotonic_ns: u64) -> Self {
        let why = || Unknown::not_applicable("not probed yet");
        Self {
            monotonic_ns,
            unix_ns: None,
            tsc: None,
            cpu: None,
            realtime: None,
            boottime: None,
            monotonic: None,
            raw: None,
            source: Fact::Unknown(why()),
            source_step_ns: None,
            adjtimex: Fact::Unknown(why()),
            page: Fact::Unknown(why()),
            vmclock: Fact::Unknown(why()),
            rtc: Fact::Unknown(why()),
            activity: Fact::Unknown(why()),
            thread: Fact::Unknown(why()),
            log: Fact::Unknown(why()),
            was_set: Fact::Unknown(why()),
            new_generation: Fact::Unknown(why()),
            was_stopped: false,
        }
    }
}
