//! The processor.

use facts::cpu::{
    CPUINFO, Cpu, ONLINE, count_processors, cpuid, parse_flags, parse_model, parse_online,
    reduce_cpuinfo,
};
use facts::{Fact, Unknown};

use crate::probes;
use crate::tree::Tree;

pub(super) fn cpu(tree: &Tree) -> Cpu {
    let cpuinfo = tree.reduced(CPUINFO, "model name, flags", reduce_cpuinfo);
    let flags = cpuinfo.clone().and_then(|text| parse_flags(&text));
    let cpuid = tree.probe("cpuid", probes::cpuid::leaves);
    let hypervisor = match (cpuid.clone(), &flags) {
        (Fact::Unknown(_), Fact::Known(flags)) if !flags.hypervisor => {
            Fact::Unknown(Unknown::not_applicable("the kernel sees no hypervisor (/proc/cpuinfo)"))
        }
        (cpuid, _) => cpuid.and_then(|text| cpuid::parse_hypervisor(&text)),
    };
    Cpu {
        model: cpuinfo.clone().and_then(|text| parse_model(&text)),
        logical_cpus: match tree.text(ONLINE).and_then(|text| parse_online(&text)) {
            Fact::Unknown(_) if cpuinfo.known().is_some() => {
                cpuinfo.and_then(|text| count_processors(&text))
            }
            online => online,
        },
        flags,
        hypervisor,
        cpuid_tsc_hz: cpuid.and_then(|text| cpuid::parse_tsc_hz(&text)),
    }
}
