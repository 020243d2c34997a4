//! The processor, and what runs it.

use facts::cpu::arm64::{self, BOARD, DEVICE_TREE};
use facts::cpu::hypervisor::{self, GUEST_TYPE, Signs, TYPE, UUID, XEN_CAPABILITIES};
use facts::cpu::{
    self, CPUINFO, Cpu, HypervisorKind, ONLINE, count_processors, cpuid, parse_flags, parse_model,
    parse_online, reduce_cpuinfo, resolve_hypervisor, vendor,
};
use facts::kernel::Kernel;
use facts::system::System;
use facts::{Fact, Unknown};

use crate::probes;
use crate::tree::Tree;

pub(super) fn cpu(tree: &Tree, kernel: &Kernel, system: &System) -> Cpu {
    let cpuinfo = tree.reduced(CPUINFO, "vendor, model name, flags", reduce_cpuinfo);
    let cpuinfo_known = cpuinfo.clone().map(drop);
    let flags = cpuinfo.clone().and_then(|text| parse_flags(&text));
    let model = cpuinfo.clone().and_then(|text| parse_model(&text));
    let is_arm64 = cpuinfo.is_known_and(|text| arm64::is_arm64(text));
    let [sys_type, guest_type, capabilities] = [TYPE, GUEST_TYPE, XEN_CAPABILITIES]
        .map(|path| tree.text(path).value().map(|text| text.trim().to_owned()));
    let whose = "whether the UUID is that of Xen's control domain";
    let uuid = tree.reduced(UUID, whose, hypervisor::reduce_uuid);
    let cpuid = if is_arm64 {
        Fact::Unknown(Unknown::not_applicable("an arm64 processor has no CPUID"))
    } else {
        tree.probe("cpuid", || probes::cpuid::leaves(guest_type.as_deref() == Some("PV")))
    };
    let [device_tree, board] = [DEVICE_TREE, BOARD].map(|path| {
        Some(path).filter(|_| is_arm64).and_then(|path| tree.text(path).value().cloned())
    });
    let by_cpuid = match (cpuid.clone(), &flags) {
        (Fact::Unknown(_), Fact::Known(flags)) if !flags.hypervisor => {
            Fact::Unknown(Unknown::not_applicable("the kernel sees no hypervisor (/proc/cpuinfo)"))
        }
        (cpuid, _) => cpuid.and_then(|text| cpuid::parse_hypervisor(&text)),
    };
    let signs = Signs {
        cpu_vendor: cpuinfo.value().and_then(|text| vendor(text)),
        cpu_model: model.value().map(String::as_str),
        sys_type: sys_type.as_deref(),
        guest_type: guest_type.as_deref(),
        uuid: uuid.value().map(String::as_str),
        capabilities: capabilities.as_deref(),
        detected: kernel.log.value().and_then(|log| hypervisor::detected(log)),
        product: system.product.value().map(String::as_str),
        vendor: system.vendor.value().map(String::as_str),
        device_tree: device_tree.as_deref(),
        board: board.as_deref(),
        smccc_kvm: kernel.log.is_known_and(|log| hypervisor::smccc_kvm(log)),
        is_arm64,
    };
    let leaves = cpuid.value().map_or("", String::as_str);
    // Signs of /proc/cpuinfo override the others.
    let hypervisor = match &cpuinfo {
        Fact::Known(_) => match (resolve_hypervisor(by_cpuid, leaves, &signs), &kernel.log) {
            // Xen shows its guests the CPUID of what it runs on itself.
            (
                Fact::Known(found),
                Fact::Unknown(why @ (Unknown::NeedsRoot { .. } | Unknown::Malformed { .. })),
            ) if found.kind == HypervisorKind::Tcg => Fact::Unknown(why.clone()),
            (found, _) => found,
        },
        Fact::Unknown(why) => Fact::Unknown(why.clone()),
    };
    Cpu {
        model,
        logical_cpus: match tree.text(ONLINE).and_then(|text| parse_online(&text)) {
            Fact::Unknown(_) if cpuinfo.value().is_some() => {
                cpuinfo.and_then(|text| count_processors(&text))
            }
            online => online,
        },
        flags,
        cpuid_tsc_hz: hypervisor::tsc_hz(&hypervisor, &cpuid),
        generic_timer: if is_arm64 {
            tree.probe("generic-timer", probes::generic_timer_registers)
                .and_then(|text| cpu::parse_generic_timer(&text))
        } else {
            cpuinfo_known.and_then(|()| cpu::not_arm64())
        },
        hypervisor,
    }
}
