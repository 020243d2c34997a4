//! CPUID of this machine, as text.

use std::fs::File;
use std::os::unix::fs::FileExt;

use facts::Fact;
use facts::cpu::cpuid::{Registers, announces, bases};

/// A reader of one leaf's sub-leaf 0.
type Read<'a> = dyn Fn(u32) -> Registers + 'a;

/// The leaves that concern clocks; `is_pv` for a paravirtual guest of Xen.
pub(crate) fn leaves(is_pv: bool) -> Fact<String> {
    // The kernel's view, as root: under Xen's paravirtual mode the instruction
    // shows the bare processor, without Xen's leaves.
    match File::open("/dev/cpu/0/cpuid") {
        Ok(device) if read_leaf(&device, 0).is_some() => {
            Fact::Known(text(&|leaf| read_leaf(&device, leaf).unwrap_or_default()))
        }
        _ if is_pv => Fact::Known(text(&of_xen)),
        _ => Fact::Known(text(&instruction)),
    }
}

/// One leaf by the kernel's device: offset is the leaf (`man 4 cpuid`).
fn read_leaf(device: &File, leaf: u32) -> Option<Registers> {
    let mut bytes = [0; 16];
    device.read_exact_at(&mut bytes, u64::from(leaf)).ok()?;
    let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    Some(Registers { eax: word(0), ebx: word(4), ecx: word(8), edx: word(12) })
}

fn instruction(leaf: u32) -> Registers {
    let r = raw_cpuid::native_cpuid::cpuid_count(leaf, 0);
    Registers { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx }
}

fn of_xen(leaf: u32) -> Registers {
    let r = linux::cpuid::as_xen_shows(leaf);
    Registers { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx }
}

fn text(read: &Read) -> String {
    let mut text = String::new();
    let mut put = |leaf: u32, r: Registers| {
        let Registers { eax, ebx, ecx, edx } = r;
        let line = format_args!(
            "{leaf:#010x} 0x00: eax={eax:#010x} ebx={ebx:#010x} ecx={ecx:#010x} edx={edx:#010x}\n"
        )
        .to_string();
        text.push_str(&line);
    };
    let lowest = read(0);
    put(0, lowest);
    let mut features = read(1);
    // EBX and EDX hold this CPU's APIC number; only ECX is needed.
    (features.ebx, features.edx) = (0, 0);
    put(1, features);
    for leaf in [0x15, 0x16] {
        if leaf <= lowest.eax {
            put(leaf, read(leaf));
        }
    }
    if features.ecx & (1 << 31) != 0 {
        hypervisor(read, &mut put);
    }
    text
}

/// The leaves of each hypervisor interface there is.
fn hypervisor(read: &Read, put: &mut dyn FnMut(u32, Registers)) {
    for base in bases() {
        let top = read(base);
        if !announces(base, &top) {
            continue;
        }
        put(base, top);
        for leaf in [base + 1, base + 3, base + 0x10] {
            if leaf <= top.eax.max(base + 1) {
                put(leaf, read(leaf));
            }
        }
        // Those two are always the last: a read of each later base would be a
        // useless exit to the host.
        if ["KVMKVMKVM", "XenVMMXenVMM"].contains(&top.signature().as_str()) {
            break;
        }
    }
}
