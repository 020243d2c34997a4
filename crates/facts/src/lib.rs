//! What a machine reports about its clocks: the types, and the parsers of the
//! texts they come from.
//!
//! A parser is a pure function that never fails: what it cannot make out is
//! an [`Unknown`] fact with a reason, and the reason reaches the person.
#![forbid(unsafe_code)]

pub mod clocksource;
pub mod cpu;
mod fact;
pub mod hardware;
pub mod kernel;
pub mod parse;
pub mod running;
mod sample;
pub mod steering;
pub mod system;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fact::{Fact, Unknown};
pub use sample::Sample;

/// Everything Parachron asks a machine about its clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The kernel's clock sources.
    pub clocksources: clocksource::Clocksources,
    /// The processor.
    pub cpu: cpu::Cpu,
    /// The kernel.
    pub kernel: kernel::Kernel,
    /// Who steers the clock.
    pub steering: steering::Steering,
    /// The battery-backed clock.
    pub rtc: hardware::Rtc,
    /// PTP hardware clocks.
    pub phcs: Fact<Vec<hardware::Phc>>,
    /// The VMClock page.
    pub vmclock: Fact<hardware::VmClock>,
    /// The kvm-clock page in use.
    pub pvclock_page: Fact<hardware::PvclockPage>,
    /// KVM, when this is a host.
    pub kvm_host: Fact<hardware::KvmHost>,
    /// Which machine.
    pub system: system::System,
    /// How busy.
    pub load: system::Load,
}
