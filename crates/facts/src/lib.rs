#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

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
use serde::Serialize;

pub use fact::{Fact, Unknown};
pub use sample::Sample;

/// All facts about a machine's clocks; by default those of a machine of which only a log is known,
/// and nothing of it is read yet.
///
/// ```
/// use facts::{Fact, Facts, Unknown};
/// assert_eq!(Facts::default().kernel.release, Fact::Unknown(Unknown::NotInLog));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Facts {
    /// The kernel's clock sources.
    pub clocksources: clocksource::Clocksources,
    /// The processor.
    pub cpu: cpu::Cpu,
    /// The kernel.
    pub kernel: kernel::Kernel,
    /// The clock's discipline: adjtimex and the time daemons.
    pub steering: steering::Steering,
    /// The RTC (battery-backed clock).
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
    /// Its load.
    pub load: system::Load,
    /// How its CPUs go idle.
    pub idle: cpu::Idle,
}
