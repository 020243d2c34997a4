//! The processor as the kernel and CPUID describe it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Fact, Unknown};

pub mod arm64;
pub mod cpuid;
pub mod hypervisor;

pub use hypervisor::{
    HypervFeatures, Hypervisor, HypervisorKind, KvmFeatures, Signs, Xen, XenMode, XenTsc,
};

/// Path of the file.
pub const CPUINFO: &str = "/proc/cpuinfo";
/// Path of the file.
pub const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The processor's facts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Cpu {
    /// `model name` of the first processor.
    pub model: Fact<String>,
    /// Logical CPUs online.
    pub logical_cpus: Fact<u32>,
    /// The flags that decide whether its TSC can be a clock.
    pub flags: Fact<TscFlags>,
    /// The hypervisor; `NotApplicable` on bare metal.
    pub hypervisor: Fact<Hypervisor>,
    /// TSC frequency by CPUID 0x15/0x16 or the hypervisor's leaf, in Hz.
    pub cpuid_tsc_hz: Fact<u64>,
    /// arm64's counter; `NotApplicable` on other processors.
    pub generic_timer: Fact<GenericTimer>,
}

/// Flags of `/proc/cpuinfo` that concern the TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// Intel's TDX protects it from its host, and guarantees its TSC.
    pub tdx_guest: bool,
    /// AMD's SEV-SNP: in a guest, that it is protected from its host.
    pub sev_snp: bool,
    /// SEV-SNP's TSC, which the host cannot change.
    pub secure_tsc: bool,
}

/// The kept part of `/proc/cpuinfo`: a line for each processor, and the first
/// one's vendor, model name and flags; of an arm64 one maker and part.
pub fn reduce_cpuinfo(text: &str) -> String {
    let mut kept = String::new();
    let (mut vendor, mut model, mut flags) = (false, false, false);
    let (mut maker, mut part) = (false, false);
    for line in text.lines() {
        let keep = match key(line) {
            "processor" => true,
            "vendor_id" => !std::mem::replace(&mut vendor, true),
            "model name" => !std::mem::replace(&mut model, true),
            "flags" => !std::mem::replace(&mut flags, true),
            "CPU implementer" => !std::mem::replace(&mut maker, true),
            "CPU part" => !std::mem::replace(&mut part, true),
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

/// `vendor_id` of `/proc/cpuinfo`: `GenuineIntel`, `User Mode Linux`.
pub fn vendor(text: &str) -> Option<&str> {
    value(text, "vendor_id")
}

/// `model name` of `/proc/cpuinfo`; an arm64 processor has a number instead.
pub fn parse_model(text: &str) -> Fact<String> {
    let name = value(text, "model name").filter(|name| !name.is_empty()).map(str::to_owned);
    match name.or_else(|| arm64::model(text)) {
        Some(name) => Fact::Known(name),
        None => Fact::Unknown(Unknown::malformed(CPUINFO, "a line `model name`", text)),
    }
}

/// The flags in `/proc/cpuinfo` that concern the TSC.
pub fn parse_flags(text: &str) -> Fact<TscFlags> {
    if arm64::is_arm64(text) {
        return Fact::Unknown(Unknown::not_applicable("an arm64 processor has no TSC"));
    }
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
        tdx_guest: has("tdx_guest"),
        sev_snp: has("sev_snp"),
        secure_tsc: has("snp_secure_tsc"),
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

/// The hypervisor: on arm64 by the firmware's tables, as there is no CPUID; else by CPUID and
/// the other signs.
pub fn resolve_hypervisor(
    by_cpuid: Fact<Hypervisor>,
    cpuid_text: &str,
    signs: &Signs<'_>,
) -> Fact<Hypervisor> {
    let is_by_firmware =
        signs.is_arm64 && signs.sys_type != Some("xen") && !hypervisor::is_user_mode_linux(signs);
    if is_by_firmware {
        return arm64::hypervisor(signs);
    }
    hypervisor::resolve(by_cpuid, cpuid_text, signs)
}

// arm64's generic timer: the counter that programs read, and what its
// registers state.

const FILE: &str = "parachron/generic-timer";

/// What the generic timer states of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GenericTimer {
    /// CNTFRQ_EL0, in Hz: what firmware or the hypervisor wrote there; 0 where
    /// it wrote nothing, or the register is not readable.
    pub hz: u64,
    /// Programs may read CNTVCT_EL0.
    pub readable: bool,
    /// There is CNTVCTSS_EL0 (FEAT_ECV), which is ordered without a barrier.
    pub self_synchronised: bool,
}

/// The fact on any other processor.
pub fn not_arm64() -> Fact<GenericTimer> {
    Fact::Unknown(Unknown::not_applicable("only arm64 has a generic timer"))
}

/// The fields of `parachron/generic-timer`.
pub fn parse_generic_timer(text: &str) -> Fact<GenericTimer> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    match (field("frequency_hz "), field("readable "), field("self_synchronised ")) {
        (Some(hz), Some(readable @ 0..=1), Some(ecv @ 0..=1)) => {
            Fact::Known(GenericTimer { hz, readable: readable == 1, self_synchronised: ecv == 1 })
        }
        _ => Fact::Unknown(Unknown::malformed(
            FILE,
            "frequency_hz, readable and self_synchronised",
            text,
        )),
    }
}

// How a CPU goes idle, and what leaving a guest costs: what decides how late
// it wakes up.

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
pub const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// Path of the file.
pub const IDLE_GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor_ro";
/// Path of the file.
pub const GUEST_HALT_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
/// Path of the file.
pub const HALT_POLL: &str = "/sys/module/kvm/parameters/halt_poll_ns";
/// Path of the file.
pub const L1TF: &str = "/sys/devices/system/cpu/vulnerabilities/l1tf";

#[cfg(test)]
mod tests;
