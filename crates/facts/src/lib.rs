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
pub mod idle;
pub mod kernel;
pub mod parse;
pub mod running;
mod sample;
pub mod steering;
pub mod system;
pub mod text;

use schemars::JsonSchema;
use serde::Serialize;

pub use fact::{Fact, Unknown};
pub use sample::Sample;

/// All facts about a machine's clocks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
    pub idle: idle::Idle,
}

impl Facts {
    /// A machine of which nothing is known, for one reason.
    ///
    /// ```
    /// use facts::{Fact, Facts, Unknown};
    /// let facts = Facts::unknown(&Unknown::NotInLog);
    /// assert_eq!(facts.kernel.release, Fact::Unknown(Unknown::NotInLog));
    /// ```
    pub fn unknown(why: &Unknown) -> Self {
        Self {
            clocksources: clocksource::Clocksources { available: why.into(), current: why.into() },
            cpu: cpu::Cpu {
                model: why.into(),
                logical_cpus: why.into(),
                flags: why.into(),
                hypervisor: why.into(),
                cpuid_tsc_hz: why.into(),
                generic_timer: why.into(),
            },
            kernel: kernel::Kernel {
                release: why.into(),
                built_s: why.into(),
                command_line: why.into(),
                configuration: why.into(),
                log: why.into(),
            },
            steering: steering::Steering {
                adjtimex: why.into(),
                keepers: why.into(),
                chrony: why.into(),
                chrony_config: why.into(),
                unit_conditions: why.into(),
                offset_readers: why.into(),
            },
            rtc: hardware::Rtc {
                devices: why.into(),
                convention: why.into(),
                minus_system_s: why.into(),
            },
            phcs: why.into(),
            vmclock: why.into(),
            pvclock_page: why.into(),
            kvm_host: why.into(),
            system: system::System {
                product: why.into(),
                vendor: why.into(),
                acpi_oem: why.into(),
                distribution: why.into(),
                container: why.into(),
                generation_devices: why.into(),
                boot_files: why.into(),
            },
            load: system::Load {
                uptime_s: why.into(),
                booted_at_s: why.into(),
                load_average: why.into(),
                steal_since_boot: why.into(),
            },
            idle: idle::Idle {
                driver: why.into(),
                governor: why.into(),
                guest_halt_poll_ns: why.into(),
                halt_poll_ns: why.into(),
                l1tf: why.into(),
            },
        }
    }
}
