//! What runs this machine: by CPUID, and where that shows another layer, by
//! what the kernel reports.
//!
//! - A paravirtual guest of Xen (PV) executes CPUID on the bare processor, so
//!   it sees what lies below Xen; /sys/hypervisor and the kernel's log tell.
//! - User-mode Linux is a program: CPUID is the outer machine's.

use schemars::JsonSchema;
use serde::Serialize;
use strum::{EnumString, IntoStaticStr};

use super::cpuid;
use crate::{Fact, Unknown};

/// Path of the file.
pub const TYPE: &str = "/sys/hypervisor/type";
/// Path of the file.
pub const GUEST_TYPE: &str = "/sys/hypervisor/guest_type";
/// Path of the file.
pub const UUID: &str = "/sys/hypervisor/uuid";
/// Path of the file.
pub const XEN_CAPABILITIES: &str = "/proc/xen/capabilities";

/// Xen's signature in CPUID.
const XEN: &str = "XenVMMXenVMM";

/// `vendor_id` of User-mode Linux (arch/um/kernel/um_arch.c).
const UML: &str = "User Mode Linux";

/// What runs this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hypervisor {
    /// The twelve signature characters, zeroes trimmed: `KVMKVMKVM`; under
    /// User-mode Linux `vendor_id` of /proc/cpuinfo.
    pub signature: String,
    /// Which hypervisor that is: of several interfaces the one that Linux takes.
    pub kind: HypervisorKind,
    /// EAX of leaf base+1 under KVM (also behind Hyper-V leaves).
    pub kvm_features: Option<KvmFeatures>,
    /// Where Hyper-V's interface is offered.
    pub hyperv: Option<HypervFeatures>,
    /// Under Xen: what kind of guest this is.
    pub xen: Option<Xen>,
}

/// Hypervisors, by signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// Apple's Virtualization framework.
    AppleVirtualization,
    /// Parallels Desktop.
    Parallels,
    /// A kernel that is a program of another Linux; CPUID is the outer machine's.
    UserModeLinux,
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
            Self::AppleVirtualization => "Apple's Virtualization framework",
            Self::Parallels => "Parallels",
            Self::UserModeLinux => "User-mode Linux",
            Self::Unrecognised => "unknown hypervisor",
        }
    }
}

/// A guest of Xen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Xen {
    /// How it runs; `None` where nothing tells.
    pub mode: Option<XenMode>,
    /// Whether it is the control domain, dom0; `None` where nothing tells.
    pub control_domain: Option<bool>,
    /// Xen's handling of its TSC, where Xen's CPUID leaves are readable.
    pub tsc: Option<XenTsc>,
}

impl Xen {
    /// Whether Xen reports that it emulates RDTSC.
    pub fn emulates_tsc(self) -> bool {
        self.tsc.is_some_and(|tsc| tsc.emulated)
    }
}

/// How a guest of Xen runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, IntoStaticStr, EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "UPPERCASE")]
pub enum XenMode {
    /// Paravirtual, without virtualisation by the processor.
    Pv,
    /// Paravirtual, with virtualisation by the processor.
    Pvh,
    /// With an emulated PC.
    Hvm,
}

/// Xen's handling of a guest's TSC (xen/include/public/arch-x86/cpuid.h, leaf
/// base+3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct XenTsc {
    /// Xen emulates RDTSC: each read traps.
    pub emulated: bool,
    /// Xen trusts the host's TSC.
    pub host_reliable: bool,
    /// The domain's setting tsc_mode: 0 default, 1 always emulate, 2 native.
    pub mode: u32,
}

impl XenMode {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// KVM's clock features (CPUID base+1, EAX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// EDX bit 0 (KVM_HINTS_REALTIME): each vCPU has a CPU of its own.
    pub realtime_hint: bool,
}

/// Hyper-V's time privileges (CPUID 0x4000_0003, EAX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
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

/// What other than CPUID tells the hypervisor.
#[derive(Debug, Clone, Default)]
pub struct Signs<'t> {
    /// `vendor_id` of `/proc/cpuinfo`.
    pub cpu_vendor: Option<&'t str>,
    /// `model name` of `/proc/cpuinfo`: `UML`.
    pub cpu_model: Option<&'t str>,
    /// [`TYPE`]: `xen`.
    pub sys_type: Option<&'t str>,
    /// [`GUEST_TYPE`]: `PV`, `PVH`, `HVM`.
    pub guest_type: Option<&'t str>,
    /// [`UUID`] as [`reduce_uuid`] leaves it.
    pub uuid: Option<&'t str>,
    /// [`XEN_CAPABILITIES`]: holds `control_d` in dom0.
    pub capabilities: Option<&'t str>,
    /// The log's `Hypervisor detected: …`.
    pub detected: Option<&'t str>,
    /// DMI's product name.
    pub product: Option<&'t str>,
    /// DMI's vendor.
    pub vendor: Option<&'t str>,
    /// [`super::arm64::DEVICE_TREE`]: `linux,kvm`.
    pub device_tree: Option<&'t str>,
    /// [`super::arm64::BOARD`]: `linux,dummy-virt`.
    pub board: Option<&'t str>,
    /// The log shows KVM's services for arm64 guests.
    pub smccc_kvm: bool,
    /// `/proc/cpuinfo` is an arm64 processor's.
    pub is_arm64: bool,
}

/// The kept part of [`UUID`]: whether it is dom0's, which is all zeroes.
pub fn reduce_uuid(text: &str) -> String {
    let digits: String = text.trim().chars().filter(char::is_ascii_hexdigit).collect();
    let zero = !digits.is_empty() && digits.bytes().all(|digit| digit == b'0');
    format!("{}\n", if zero { "0" } else { super::super::kernel::WITHHELD })
}

/// User-mode Linux names itself as the processor.
pub(super) fn is_user_mode_linux(signs: &Signs<'_>) -> bool {
    signs.cpu_vendor == Some(UML) || signs.cpu_model == Some("UML")
}

/// The hypervisor of an x86 processor, of User-mode Linux or of Xen, by CPUID and the other
/// signs.
pub fn resolve(
    by_cpuid: Fact<Hypervisor>,
    cpuid_text: &str,
    signs: &Signs<'_>,
) -> Fact<Hypervisor> {
    if is_user_mode_linux(signs) {
        return Fact::Known(bare(HypervisorKind::UserModeLinux, UML));
    }
    let shown = by_cpuid.is_known_and(|found| found.kind == HypervisorKind::Xen);
    let detected = signs.detected.and_then(|line| line.strip_prefix("Xen"));
    if !shown && detected.is_none() && signs.sys_type != Some("xen") {
        return by_cpuid;
    }
    let mode = signs
        .guest_type
        .and_then(|word| word.parse().ok())
        .or_else(|| (signs.product == Some(HVM_PRODUCT)).then_some(XenMode::Hvm))
        // A PVH guest's log says `Xen HVM` too (arch/x86/xen/enlighten_hvm.c).
        .or_else(|| (detected?.trim() == "PV").then_some(XenMode::Pv));
    let control_domain = control_domain(mode, signs);
    // The control domain is never HVM.
    let mode = mode.or((control_domain == Some(true)).then_some(XenMode::Pvh));
    let xen = Xen { mode, control_domain, tsc: xen_tsc(cpuid_text) };
    let found = match by_cpuid {
        Fact::Known(found) if shown => found,
        _ => bare(HypervisorKind::Xen, XEN),
    };
    Fact::Known(Hypervisor { xen: Some(xen), ..found })
}

pub(super) fn bare(kind: HypervisorKind, signature: &str) -> Hypervisor {
    let signature = signature.to_owned();
    Hypervisor { signature, kind, kvm_features: None, hyperv: None, xen: None }
}

/// DMI's product name of the PC that Xen emulates.
const HVM_PRODUCT: &str = "HVM domU";

/// Whether this is dom0: only dom0 sees the machine's own firmware.
fn control_domain(mode: Option<XenMode>, signs: &Signs<'_>) -> Option<bool> {
    if let Some(capabilities) = signs.capabilities.filter(|text| !text.trim().is_empty()) {
        return Some(capabilities.contains("control_d"));
    }
    match (signs.uuid.map(str::trim), mode, signs.product) {
        (Some(uuid), ..) => Some(uuid == "0"),
        (None, Some(XenMode::Hvm), _) => Some(false),
        (None, _, Some(_)) => Some(true),
        (None, Some(XenMode::Pv), None) => Some(false),
        (None, ..) => None,
    }
}

/// Xen's leaf on the TSC, where its leaves are readable.
fn xen_tsc(cpuid_text: &str) -> Option<XenTsc> {
    let leaves = cpuid::parse_leaves(cpuid_text);
    let (base, top) = cpuid::bases()
        .filter_map(|base| Some((base, leaves.get(&base)?)))
        .find(|(_, top)| top.signature() == XEN)?;
    let leaf = leaves.get(&(base + 3)).filter(|_| base + 3 <= top.eax)?;
    Some(XenTsc { emulated: leaf.eax & 1 != 0, host_reliable: leaf.eax & 2 != 0, mode: leaf.ebx })
}

/// The log's line `Hypervisor detected: Xen PV`.
pub fn detected(log: &[crate::kernel::LogLine]) -> Option<&str> {
    log.iter().find_map(|line| line.text.trim().strip_prefix("Hypervisor detected: "))
}

/// Whether the log shows KVM's services for arm64 guests:
/// `smccc: KVM: hypervisor services detected (0x00000000 …)`.
pub fn smccc_kvm(log: &[crate::kernel::LogLine]) -> bool {
    log.iter().any(|line| line.text.trim().starts_with("smccc: KVM: hypervisor services"))
}

/// The TSC's frequency by CPUID, unless CPUID is another machine's.
pub fn tsc_hz(hypervisor: &Fact<Hypervisor>, cpuid: &Fact<String>) -> Fact<u64> {
    if hypervisor.is_known_and(|found| found.kind == HypervisorKind::UserModeLinux) {
        let why = "CPUID describes the machine that User-mode Linux runs on";
        return Fact::Unknown(Unknown::not_applicable(why));
    }
    cpuid.clone().and_then(|text| cpuid::parse_tsc_hz(&text))
}

#[cfg(test)]
mod tests;
