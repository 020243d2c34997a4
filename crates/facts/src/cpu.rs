//! The processor as the kernel and CPUID describe it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fact, Unknown};

pub mod cpuid;

/// Path of the file.
pub const CPUINFO: &str = "/proc/cpuinfo";
/// Path of the file.
pub const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The processor's facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// `model name` of the first processor.
    pub model: Fact<String>,
    /// Logical CPUs online.
    pub logical_cpus: Fact<u32>,
    /// The flags that decide whether its TSC can be a clock.
    pub flags: Fact<TscFlags>,
    /// The hypervisor's CPUID leaves; `NotApplicable` on bare metal.
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
    /// Its frequency is known, not calibrated.
    pub tsc_known_freq: bool,
    /// There is an adjust MSR, which shows tampering.
    pub tsc_adjust: bool,
    /// There is RDTSCP.
    pub rdtscp: bool,
    /// A hypervisor runs this machine.
    pub hypervisor: bool,
}

/// The hypervisor's CPUID leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hypervisor {
    /// The twelve signature characters, zeroes trimmed: `KVMKVMKVM`.
    pub signature: String,
    /// Which hypervisor that is.
    pub kind: HypervisorKind,
    /// EAX of leaf base+1 under KVM (also behind Hyper-V leaves).
    pub kvm_features: Option<KvmFeatures>,
    /// Where Hyper-V's interface is offered.
    pub hyperv: Option<HypervFeatures>,
}

/// Hypervisors, by signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HypervisorKind {
    /// `KVMKVMKVM`
    Kvm,
    /// `Microsoft Hv` (or KVM, VirtualBox and others that emulate it)
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

impl HypervisorKind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::HyperV => "Hyper-V",
            Self::Xen => "Xen",
            Self::Vmware => "VMware",
            Self::VirtualBox => "VirtualBox",
            Self::Bhyve => "bhyve",
            Self::Tcg => "QEMU, emulated",
            Self::Acrn => "ACRN",
            Self::Unrecognised => "unknown hypervisor",
        }
    }
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
    /// Bit 24: the clock is stable across vCPUs.
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
    /// Bit 15: an invariant TSC is available.
    pub invariant_tsc: bool,
}

/// The kept part of `/proc/cpuinfo`: a line for each processor, and the first
/// one's model name and flags.
pub fn reduce_cpuinfo(text: &str) -> String {
    let mut kept = String::new();
    let (mut model, mut flags) = (false, false);
    for line in text.lines() {
        let keep = match key(line) {
            "processor" => true,
            "model name" => !std::mem::replace(&mut model, true),
            "flags" => !std::mem::replace(&mut flags, true),
            _ => false,
        };
        if keep {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn key(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| key(line) == name)?;
    line.split_once(':').map(|(_, value)| value.trim())
}

/// `model name` of `/proc/cpuinfo`.
pub fn parse_model(text: &str) -> Fact<String> {
    match value(text, "model name").filter(|name| !name.is_empty()) {
        Some(name) => Fact::Known(name.to_owned()),
        None => Fact::Unknown(Unknown::malformed(CPUINFO, "a line `model name`", text)),
    }
}

/// The flags in `/proc/cpuinfo` that concern the TSC.
pub fn parse_flags(text: &str) -> Fact<TscFlags> {
    let Some(flags) = value(text, "flags") else {
        return Fact::Unknown(Unknown::malformed(CPUINFO, "a line `flags`", text));
    };
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    Fact::Known(TscFlags {
        tsc: has("tsc"),
        constant_tsc: has("constant_tsc"),
        nonstop_tsc: has("nonstop_tsc"),
        tsc_known_freq: has("tsc_known_freq"),
        tsc_adjust: has("tsc_adjust"),
        rdtscp: has("rdtscp"),
        hypervisor: has("hypervisor"),
    })
}

/// How many CPUs a list such as `0-3,8` names.
pub fn parse_online(text: &str) -> Fact<u32> {
    let count = text.trim().split(',').try_fold(0u32, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    });
    match count {
        Some(count) => Fact::Known(count),
        None => Fact::Unknown(Unknown::malformed(ONLINE, "a list such as `0-3`", text)),
    }
}

/// How many processors `/proc/cpuinfo` lists.
pub fn count_processors(cpuinfo: &str) -> Fact<u32> {
    let count = cpuinfo.lines().filter(|line| key(line) == "processor").count();
    match u32::try_from(count) {
        Ok(count @ 1..) => Fact::Known(count),
        _ => Fact::Unknown(Unknown::malformed(CPUINFO, "a line `processor`", cpuinfo)),
    }
}

#[cfg(test)]
mod tests;
