//! Which machine this is, and its load.

use facts::system::{
    LOADAVG, Load, OS_RELEASE, PRODUCT, STAT, System, UPTIME, VENDOR, parse_booted_at,
    parse_container, parse_distribution, parse_generation_devices, parse_loadavg, parse_steal,
    parse_uptime, reduce_loadavg, reduce_os_release, reduce_stat,
};
use facts::{Fact, Unknown, parse};

use crate::probes::kernel_log::KernelLog;
use crate::probes::{acpi, container};
use crate::tree::Tree;

pub(super) fn system(tree: &Tree, log: &KernelLog) -> System {
    let line = |path: &str| tree.text(path).and_then(|text| parse::line(path, &text));
    let release = |path: &str| {
        tree.reduced(path, "ID, VERSION_ID, PRETTY_NAME", reduce_os_release)
            .and_then(|text| parse_distribution(&text))
    };
    let distribution = match release(OS_RELEASE[0]) {
        Fact::Unknown(Unknown::NotThere { .. }) => release(OS_RELEASE[1]),
        found => found,
    };
    System {
        product: line(PRODUCT),
        vendor: line(VENDOR),
        acpi_oem: tree
            .digest("acpi-oem", "the vendor's name", |files| acpi::oem(files, log))
            .and_then(|text| parse::line("parachron/acpi-oem", &text)),
        distribution,
        container: tree
            .digest("container", "evidence of a container", container::hints)
            .and_then(|text| parse_container(&text)),
        generation_devices: tree
            .digest("generation-devices", "VM generation and VMClock devices", |files| {
                acpi::generation_devices(files)
            })
            .and_then(|text| parse_generation_devices(&text)),
    }
}

pub(super) fn load(tree: &Tree) -> Load {
    let stat = tree.reduced(STAT, "cpu lines, btime", reduce_stat);
    Load {
        booted_at_s: stat.clone().and_then(|text| parse_booted_at(&text)),
        uptime_s: tree.text(UPTIME).and_then(|text| parse_uptime(&text)),
        load_average: tree
            .reduced(LOADAVG, "the three averages", reduce_loadavg)
            .and_then(|text| parse_loadavg(&text)),
        steal_since_boot: stat.and_then(|text| parse_steal(&text)),
    }
}
