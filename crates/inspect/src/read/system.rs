//! Which machine this is, and its load.

use facts::system::{
    LOADAVG, Load, OS_RELEASE, PRODUCT, STAT, System, UPTIME, VENDOR, boot, parse_booted_at,
    parse_container, parse_distribution, parse_lines, parse_loadavg, parse_steal, parse_uptime,
    reduce_loadavg, reduce_os_release, reduce_stat,
};
use facts::{Fact, Unknown, parse};

use crate::probes::kernel_log::KernelLog;
use crate::probes::{acpi, container};
use crate::tree::{Files, Tree};

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
            .and_then(|text| parse_lines(&text)),
        boot_files: tree
            .digest("boot-files", "which boot loader's files are there", boot_files)
            .and_then(|text| parse_lines(&text)),
    }
}

/// The boot loaders' files. A tree made by hand, or captured by a version that did
/// not look, has none of them and does not say so.
fn boot_files(files: &Files) -> Fact<String> {
    let found: String = boot::FILES
        .iter()
        .filter(|path| files.exists(path))
        .map(|path| format!("{path}\n"))
        .collect();
    if found.is_empty() && !files.is_live() {
        return Fact::Unknown(Unknown::not_there("parachron/boot-files"));
    }
    Fact::Known(found)
}

pub(super) fn load(tree: &Tree) -> Load {
    let stat = tree.reduced(STAT, "cpu lines, btime", reduce_stat);
    let uptime_s = tree.text(UPTIME).and_then(|text| parse_uptime(&text));
    Load {
        booted_at_s: stat.clone().and_then(|text| parse_booted_at(&text)),
        load_average: tree
            .reduced(LOADAVG, "the three averages", reduce_loadavg)
            .and_then(|text| parse_loadavg(&text)),
        steal_since_boot: stat.and_then(|text| parse_steal(&text, uptime_s.value().copied())),
        uptime_s,
    }
}
