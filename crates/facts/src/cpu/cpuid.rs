//! The hypervisor and the TSC's frequency by CPUID.
//!
//! The text form is that of `cpuid -1 -r`, so that its output is accepted:
//! `0x40000000 0x00: eax=0x40000001 ebx=0x4b4d564b ecx=0x564b4d56 edx=0x0000004d`.

use std::collections::BTreeMap;

use super::{HypervFeatures, Hypervisor, HypervisorKind, KvmFeatures};
use crate::{Fact, Unknown};

const FILE: &str = "parachron/cpuid";

/// Hypervisors' leaves start at one of these (KVM behind Hyper-V leaves
/// at the second): Documentation/virt/kvm/x86/cpuid.rst and Xen's.
pub fn bases() -> impl Iterator<Item = u32> {
    (0x4000_0000..0x4001_0000).step_by(0x100)
}

/// Leaf 1, ECX bit 31: a hypervisor runs this machine.
const HYPERVISOR_BIT: u32 = 1 << 31;

/// No TSC runs outside this.
const PLAUSIBLE_HZ: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;

/// More lines than any CPUID has leaves.
const MAX_LEAVES: usize = 4096;

/// The registers of one leaf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// EAX
    pub eax: u32,
    /// EBX
    pub ebx: u32,
    /// ECX
    pub ecx: u32,
    /// EDX
    pub edx: u32,
}

impl Registers {
    /// The twelve characters in EBX, ECX and EDX.
    pub fn signature(&self) -> String {
        let bytes: Vec<u8> =
            [self.ebx, self.ecx, self.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&bytes);
        text.trim_end_matches('\0').replace(|c: char| c.is_control(), "\u{fffd}")
    }
}

/// Whether a hypervisor's interface starts at `base`. Processors return
/// their highest leaf's content for a leaf beyond it (Intel SDM), so
/// the "highest leaf" must fit; 0 is KVM's old form of base+1.
pub fn announces(base: u32, top: &Registers) -> bool {
    !top.signature().is_empty() && (top.eax == 0 || (base..base + 0x100).contains(&top.eax))
}

/// Leaves (sub-leaf 0 of each) by number.
pub type Leaves = BTreeMap<u32, Registers>;

/// The leaves in a text; skips other lines.
pub fn parse_leaves(text: &str) -> Leaves {
    text.lines().take(MAX_LEAVES).filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(u32, Registers)> {
    let (head, registers) = line.split_once(':')?;
    let mut numbers = head.split_whitespace();
    let leaf = hex(numbers.next()?)?;
    if numbers.next().map_or(Some(0), hex)? != 0 {
        return None;
    }
    let mut found = Registers::default();
    for word in registers.split_whitespace() {
        let (name, value) = word.split_once('=')?;
        *match name {
            "eax" => &mut found.eax,
            "ebx" => &mut found.ebx,
            "ecx" => &mut found.ecx,
            "edx" => &mut found.edx,
            _ => return None,
        } = hex(value)?;
    }
    Some((leaf, found))
}

fn hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// The hypervisor, by its leaves.
pub fn parse_hypervisor(text: &str) -> Fact<Hypervisor> {
    let leaves = parse_leaves(text);
    let Some(features) = leaves.get(&1) else {
        return Fact::Unknown(Unknown::malformed(FILE, "leaf 0x00000001", text));
    };
    if features.ecx & HYPERVISOR_BIT == 0 {
        let why = "CPUID announces no hypervisor (leaf 1, ECX bit 31)";
        return Fact::Unknown(Unknown::not_applicable(why));
    }
    let found: Vec<_> = bases()
        .filter_map(|base| Some((base, leaves.get(&base)?)))
        .filter(|(base, top)| announces(*base, top))
        .map(|(base, top)| (base, kind(&top.signature()), top.signature()))
        .collect();
    let features = |wanted, leaf| {
        let (base, ..) = found.iter().find(|(_, kind, _)| *kind == wanted)?;
        leaves.get(&(base + leaf))
    };
    // Linux takes the highest of the interfaces that it knows: KVM's and Xen's
    // lie above Hyper-V's where both are offered
    // (arch/x86/kernel/cpu/hypervisor.c, `detect_hypervisor_vendor`).
    let known =
        |(_, kind, _): &&(u32, HypervisorKind, String)| *kind != HypervisorKind::Unrecognised;
    let (kind, signature) = match found.iter().rev().find(known).or(found.first()) {
        Some((_, kind, signature)) => (*kind, signature.clone()),
        None => (HypervisorKind::Unrecognised, String::new()),
    };
    Fact::Known(Hypervisor {
        signature,
        kind,
        kvm_features: features(HypervisorKind::Kvm, 1).map(|leaf| kvm_features(leaf.eax, leaf.edx)),
        hyperv: features(HypervisorKind::HyperV, 3).map(|leaf| hyperv_features(leaf.eax)),
        xen: None,
    })
}

fn kind(signature: &str) -> HypervisorKind {
    match signature {
        "KVMKVMKVM" => HypervisorKind::Kvm,
        "Microsoft Hv" => HypervisorKind::HyperV,
        "XenVMMXenVMM" => HypervisorKind::Xen,
        "VMwareVMware" => HypervisorKind::Vmware,
        "VBoxVBoxVBox" => HypervisorKind::VirtualBox,
        "bhyve bhyve " => HypervisorKind::Bhyve,
        "TCGTCGTCGTCG" => HypervisorKind::Tcg,
        "ACRNACRNACRN" => HypervisorKind::Acrn,
        _ => HypervisorKind::Unrecognised,
    }
}

fn kvm_features(eax: u32, edx: u32) -> KvmFeatures {
    KvmFeatures {
        eax,
        clocksource: eax & 1 != 0,
        clocksource2: eax & (1 << 3) != 0,
        steal_time: eax & (1 << 5) != 0,
        clocksource_stable: eax & (1 << 24) != 0,
        realtime_hint: edx & 1 != 0,
    }
}

fn hyperv_features(eax: u32) -> HypervFeatures {
    HypervFeatures {
        eax,
        reference_counter: eax & (1 << 1) != 0,
        reference_tsc_page: eax & (1 << 9) != 0,
        frequency_msrs: eax & (1 << 11) != 0,
        reenlightenment: eax & (1 << 13) != 0,
        invariant_tsc: eax & (1 << 15) != 0,
    }
}

/// The TSC's frequency in Hz by CPUID: the hypervisor's leaf before the
/// processor's, which may describe another machine.
pub fn parse_tsc_hz(text: &str) -> Fact<u64> {
    let leaves = parse_leaves(text);
    let Some(lowest) = leaves.get(&0) else {
        return Fact::Unknown(Unknown::malformed(FILE, "leaf 0x00000000", text));
    };
    let offered = |leaf: u32| leaves.get(&leaf).filter(|_| leaf <= lowest.eax);
    match from_hypervisor(&leaves)
        .or_else(|| from_crystal(offered(0x15)?))
        .or_else(|| from_base(offered(0x16)?))
    {
        Some(hz) if PLAUSIBLE_HZ.contains(&hz) => Fact::Known(hz),
        Some(hz) => {
            let expected = "a TSC frequency from 1 MHz to 1 THz";
            Fact::Unknown(Unknown::malformed(FILE, expected, &format!("{hz} Hz")))
        }
        None => Fact::Unknown(Unknown::not_there("a TSC frequency in CPUID")),
    }
}

/// Leaf base+0x10, EAX in kHz: VMware's, taken over by KVM and others; Xen's is
/// leaf base+3, ECX. On Hyper-V both are something else.
fn from_hypervisor(leaves: &Leaves) -> Option<u64> {
    bases().filter_map(|base| Some((base, leaves.get(&base)?))).find_map(|(base, top)| {
        let of = |leaf| leaves.get(&leaf).filter(|_| leaf <= top.eax);
        let khz = match kind(&top.signature()) {
            HypervisorKind::HyperV | HypervisorKind::Unrecognised => return None,
            HypervisorKind::Xen => of(base + 3)?.ecx,
            _ => of(base + 0x10)?.eax,
        };
        (khz != 0).then(|| u64::from(khz) * 1000)
    })
}

/// Leaf 0x15: crystal Hz (ECX) · EBX / EAX (Intel SDM vol. 2, CPUID).
fn from_crystal(leaf: &Registers) -> Option<u64> {
    let product = u64::from(leaf.ecx).checked_mul(u64::from(leaf.ebx))?;
    product.checked_div(u64::from(leaf.eax)).filter(|&hz| hz != 0)
}

/// Leaf 0x16: base frequency in MHz, which the TSC of such processors keeps.
fn from_base(leaf: &Registers) -> Option<u64> {
    let mhz = leaf.eax & 0xffff;
    (mhz != 0).then(|| u64::from(mhz) * 1_000_000)
}
