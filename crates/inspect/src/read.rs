//! Facts from a tree: each text through its pure parser.

mod cpu;
mod hardware;
mod kernel;

use facts::clocksource::{AVAILABLE, CURRENT, Clocksources, parse_available, parse_current};
use facts::cpu::{GUEST_HALT_POLL, HALT_POLL, IDLE_DRIVER, IDLE_GOVERNOR, Idle, L1TF};
use facts::steering::{
    Steering, TimeKeeperKind, chrony_config, ntp_config, parse_adjtimex, parse_keepers,
    parse_offset_readers, parse_tracking, reduce_tracking,
};
use facts::system::{
    LOADAVG, Load, OS_RELEASE, PRODUCT, STAT, System, UPTIME, VENDOR, boot, parse_booted_at,
    parse_container, parse_distribution, parse_lines, parse_loadavg, parse_steal, parse_uptime,
    reduce_loadavg, reduce_os_release, reduce_stat,
};
use facts::{Fact, Facts, Unknown, parse};
use sources::chronyd_client::{ChronydClient, tracking};

use crate::probes::kernel_log::KernelLog;
use crate::probes::{self, time_keepers};
use crate::tree::{Files, Tree};

pub use kernel::unpack;

/// Reads all facts of a tree. It never fails: what is absent or forbidden is an
/// unknown fact.
pub fn read(tree: &Tree) -> Facts {
    let log = KernelLog::default();
    let clocksources = clocksources(tree);
    let kernel = kernel::kernel(tree, &log);
    let system = system(tree, &log);
    Facts {
        cpu: cpu::cpu(tree, &kernel, &system),
        kernel,
        steering: steering(tree),
        rtc: hardware::real_time_clock(tree),
        phcs: hardware::phcs(tree),
        vmclock: hardware::vmclock(tree),
        pvclock_page: hardware::pvclock_page(tree, &clocksources),
        kvm_host: hardware::kvm_host(tree),
        system,
        load: load_system(tree),
        idle: idle(tree),
        clocksources,
    }
}

// The kernel's clock sources.

fn clocksources(tree: &Tree) -> Clocksources {
    let current = tree.text(CURRENT).and_then(|text| parse_current(&text));
    let available = tree.text(AVAILABLE).and_then(|text| parse_available(&text));
    // A kernel may offer none, but it has one: these are the empty files of a copy of /sys.
    let is_copy = current.value().is_none() && available.value().is_some_and(Vec::is_empty);
    let why = Unknown::malformed(AVAILABLE, "names of clock sources", "");
    Clocksources { available: if is_copy { Fact::Unknown(why) } else { available }, current }
}

// How CPUs go idle.

fn idle(tree: &Tree) -> Idle {
    let line = |path: &str| tree.text(path).and_then(|text| parse::line(path, &text));
    let number = |path: &str| tree.text(path).and_then(|text| parse::number(path, &text));
    Idle {
        driver: line(IDLE_DRIVER),
        governor: line(IDLE_GOVERNOR),
        guest_halt_poll_ns: number(GUEST_HALT_POLL),
        halt_poll_ns: number(HALT_POLL),
        l1tf: line(L1TF),
    }
}

// The clock's discipline.

fn steering(tree: &Tree) -> Steering {
    let keepers = tree
        .digest(
            "time-keepers",
            "time daemons and guest tools among the programs",
            time_keepers::find,
        )
        .and_then(|text| parse_keepers(&text));
    let chrony_runs = keepers
        .is_known_and(|found| found.iter().any(|k| k.kind == TimeKeeperKind::Chrony && k.running));
    let is_perhaps = !tree.is_live() && matches!(keepers, Fact::Unknown(Unknown::NotThere { .. }));
    let chrony = if chrony_runs || is_perhaps {
        let live = || tracking::line(&ChronydClient::default()).map(|text| reduce_tracking(&text));
        tree.probe_reduced("chrony-tracking", "all but servers' addresses", live)
            .and_then(|text| parse_tracking(&text))
    } else {
        match &keepers {
            Fact::Known(_) => Fact::Unknown(Unknown::not_applicable("chronyd does not run")),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        }
    };
    Steering {
        adjtimex: tree
            .probe("adjtimex", probes::adjtimex_state)
            .and_then(|text| parse_adjtimex(&text)),
        keepers,
        chrony,
        chrony_config: tree
            .digest(
                "chrony-config",
                "directives about sources and steps, no servers' names",
                probes::chrony_config::find,
            )
            .and_then(|text| chrony_config::parse(&text)),
        ntp_configs: tree
            .digest(
                "ntp-config",
                "ntpd's and timesyncd's servers, without their names",
                probes::ntp_config::find,
            )
            .and_then(|text| ntp_config::parse(&text)),
        unit_conditions: tree
            .digest(
                "unit-conditions",
                "conditions of time daemons' units",
                probes::unit_states::find,
            )
            .and_then(|text| parse_offset_readers(&text)),
        offset_readers: tree
            .digest(
                "offset-readers",
                "monitoring of the clock among the programs",
                time_keepers::offset_readers,
            )
            .and_then(|text| parse_offset_readers(&text)),
    }
}

// Which machine this is, and its load.

fn system(tree: &Tree, log: &KernelLog) -> System {
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
            .digest("acpi-oem", "the vendor's name", |files| probes::acpi_oem(files, log))
            .and_then(|text| parse::line("parachron/acpi-oem", &text)),
        distribution,
        container: tree
            .digest("container", "evidence of a container", probes::container_hints)
            .and_then(|text| parse_container(&text)),
        generation_devices: tree
            .digest("generation-devices", "VM generation and VMClock devices", |files| {
                probes::generation_devices(files)
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

fn load_system(tree: &Tree) -> Load {
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
