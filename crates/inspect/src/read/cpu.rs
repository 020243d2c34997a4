//! The processor, and what runs it.

use facts::cpu::hypervisor::{self, GUEST_TYPE, Signs, TYPE, UUID, XEN_CAPABILITIES};
use facts::cpu::{
    CPUINFO, Cpu, ONLINE, count_processors, cpuid, parse_flags, parse_model, parse_online,
    reduce_cpuinfo, vendor,
};
use facts::kernel::Kernel;
use facts::system::System;
use facts::{Fact, Unknown};

use crate::probes;
use crate::tree::Tree;

pub(super) fn cpu(tree: &Tree, kernel: &Kernel, system: &System) -> Cpu {
    let cpuinfo = tree.reduced(CPUINFO, "vendor, model name, flags", reduce_cpuinfo);
    let flags = cpuinfo.clone().and_then(|text| parse_flags(&text));
    let model = cpuinfo.clone().and_then(|text| parse_model(&text));
    let [sys_type, guest_type, capabilities] = [TYPE, GUEST_TYPE, XEN_CAPABILITIES]
        .map(|path| tree.text(path).known().map(|text| text.trim().to_owned()));
    let whose = "whether it is that of Xen's control domain";
    let uuid = tree.reduced(UUID, whose, hypervisor::reduce_uuid);
    let cpuid = tree.probe("cpuid", || probes::cpuid::leaves(guest_type.as_deref() == Some("PV")));
    let by_cpuid = match (cpuid.clone(), &flags) {
        (Fact::Unknown(_), Fact::Known(flags)) if !flags.hypervisor => {
            Fact::Unknown(Unknown::not_applicable("the kernel sees no hypervisor (/proc/cpuinfo)"))
        }
        (cpuid, _) => cpuid.and_then(|text| cpuid::parse_hypervisor(&text)),
    };
    let signs = Signs {
        cpu_vendor: cpuinfo.known().and_then(|text| vendor(text)),
        cpu_model: model.known().map(String::as_str),
        sys_type: sys_type.as_deref(),
        guest_type: guest_type.as_deref(),
        uuid: uuid.known().map(String::as_str),
        capabilities: capabilities.as_deref(),
        detected: kernel.log.known().and_then(|log| hypervisor::detected(log)),
        product: system.product.known().map(String::as_str),
    };
    let leaves = cpuid.known().map_or("", String::as_str);
    let hypervisor = hypervisor::resolve(by_cpuid, leaves, &signs);
    Cpu {
        model,
        logical_cpus: match tree.text(ONLINE).and_then(|text| parse_online(&text)) {
            Fact::Unknown(_) if cpuinfo.known().is_some() => {
                cpuinfo.and_then(|text| count_processors(&text))
            }
            online => online,
        },
        flags,
        cpuid_tsc_hz: hypervisor::tsc_hz(&hypervisor, &cpuid),
        hypervisor,
    }
}
