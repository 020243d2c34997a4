//! The processor as the kernel and CPUID describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::Fact;

/// The processor's facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// `model name` of the first processor.
    pub model: Fact<String>,
    /// Logical CPUs online.
    pub logical_cpus: Fact<u32>,
    /// The flags that decide whether its TSC can be a clock.
    pub flags: Fact<TscFlags>,
    /// What the hypervisor announces; `NotApplicable` on bare metal.
    pub hypervisor: Fact<Hypervisor>,
    /// TSC frequency by CPUID 0x15/0x16 or the hypervisor's leaf, in Hz.
    pub cpuid_tsc_hz: Fact<u64>,
}

/// Flags of `/proc/cpuinfo` that concern the TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TscFlags {
    /// There is a TSC.
    pub tsc: bool,
    /// Its rate does not follow P-states.
    pub constant_tsc: bool,
    /// It does not stop in C-states.
    pub nonstop_tsc: bool,
    /// Its frequency was told, not calibrated.
    pub tsc_known_freq: bool,
    /// There is an adjust MSR to see tampering by.
    pub tsc_adjust: bool,
    /// There is RDTSCP.
    pub rdtscp: bool,
    /// A hypervisor runs this machine.
    pub hypervisor: bool,
}

/// What the hypervisor's CPUID leaves say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hypervisor {
    /// The twelve signature characters, zeroes trimmed: `KVMKVMKVM`.
    pub signature: String,
    /// Who that is.
    pub kind: HypervisorKind,
    /// EAX of leaf base+1 where KVM answers (also behind Hyper-V leaves).
    pub kvm_features: Option<KvmFeatures>,
    /// Where Hyper-V's interface is offered.
    pub hyperv: Option<HypervFeatures>,
}

/// Hypervisors told apart by signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HypervisorKind {
    /// `KVMKVMKVM`
    Kvm,
    /// `Microsoft Hv` (or KVM, VirtualBox and others in its guise)
    HyperV,
    /// `XenVMMXenVMM`
    Xen,
    /// `VMwareVMware`
    Vmware,
    /// `VBoxVBoxVBox`
    VirtualBox,
    /// `bhyve bhyve `
    Bhyve,
    /// `TCGTCGTCGTCG`: QEMU without acceleration
    Tcg,
    /// `ACRNACRNACRN`
    Acrn,
    /// A signature not in the list.
    Unrecognised,
}

/// KVM's clock features (CPUID base+1, EAX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KvmFeatures {
    /// The whole register.
    pub eax: u32,
    /// Bit 0: kvm-clock by the old MSRs.
    pub clocksource: bool,
    /// Bit 3: kvm-clock by the new MSRs.
    pub clocksource2: bool,
    /// Bit 5: steal time.
    pub steal_time: bool,
    /// Bit 24: the host vouches for stability across vCPUs.
    pub clocksource_stable: bool,
}

/// Hyper-V's time privileges (CPUID 0x4000_0003, EAX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HypervFeatures {
    /// The whole register.
    pub eax: u32,
    /// Bit 1: partition reference counter.
    pub reference_counter: bool,
    /// Bit 9: reference TSC page.
    pub reference_tsc_page: bool,
    /// Bit 11: frequency MSRs.
    pub frequency_msrs: bool,
    /// Bit 13: re-enlightenment.
    pub reenlightenment: bool,
    /// Bit 15: invariant TSC can be had.
    pub invariant_tsc: bool,
}
