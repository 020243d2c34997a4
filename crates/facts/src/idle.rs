//! How a CPU goes idle, and what leaving a guest costs: what decides how late
//! it wakes up.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Fact;

/// How CPUs go idle here, and in the guests of this host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Idle {
    /// cpuidle's driver: `haltpoll`, `intel_idle`, `none`.
    pub driver: Fact<String>,
    /// cpuidle's governor: `haltpoll`, `menu`.
    pub governor: Fact<String>,
    /// How long the governor haltpoll polls before a halt, at most, ns.
    pub guest_halt_poll_ns: Fact<u64>,
    /// How long KVM polls for a halted vCPU here, at most, ns.
    pub halt_poll_ns: Fact<u64>,
    /// What the kernel does about L1TF: on a host, at each entry of a guest.
    pub l1tf: Fact<String>,
}

/// Path of the file.
pub const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// Path of the file.
pub const GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor_ro";
/// Path of the file.
pub const GUEST_HALT_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
/// Path of the file.
pub const HALT_POLL: &str = "/sys/module/kvm/parameters/halt_poll_ns";
/// Path of the file.
pub const L1TF: &str = "/sys/devices/system/cpu/vulnerabilities/l1tf";
