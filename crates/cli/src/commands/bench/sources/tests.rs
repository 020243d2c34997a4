use std::path::Path;

use facts::Facts;
use inspect::tree::Tree;
use instruments::measurements::{CallCost, Measurements, NotMeasured, ReadPath, Spread, TscRate};

use super::report::{ClocksReport, Source, SourceCost};
use super::{read_path, render};
use facts::clocksource::ReadPlace;

fn machine(name: &str) -> Facts {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/machines").join(name);
    inspect::read(&Tree::captured(&folder).unwrap())
}

fn made(files: &[(&str, &str)]) -> Facts {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }
    inspect::read(&Tree::captured(folder.path()).unwrap())
}

const AVAILABLE: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

fn source<'r>(report: &'r ClocksReport, name: &str) -> &'r Source {
    report.sources.iter().find(|source| source.name == name).unwrap()
}

fn measured(clocksource: &str, entered: u64) -> Measurements {
    Measurements {
        clocksource: Some(clocksource.into()),
        costs: vec![CallCost {
            call: "clock_gettime(CLOCK_MONOTONIC)".into(),
            ns: Spread { min: 26.9, median: 27.1, p99: 28.0, max: 1564.0 },
            cycles: None,
            samples: 103_760,
            calls_per_sample: 64,
            outliers: 3,
            path: ReadPath::Counted { calls: 1000, entered },
            histogram: Vec::new(),
        }],
        ..Measurements::default()
    }
}

#[test]
fn a_guest_s_sources_are_in_order_of_cost() {
    let facts = machine("firecracker-kvm-debian12");
    let report = ClocksReport::new(&facts, Some(&measured("tsc", 0)), false);
    let text = render(&report).replace(['\u{a0}', '\u{202f}'], " ");
    insta::assert_snapshot!(text, @r"
    The kernel uses tsc. Clock sources, cheapest first
    source     state      rating  resolution  read path            cost
                                                                     ns
    ────────────────────────────────────────────────────────────────────
    tsc        current       300     0.41 ns  user space, counted  27.1
    kvm-clock  available     299        1 ns  user space              –
    cost: clock_gettime(CLOCK_MONOTONIC) under tsc, median of 103 760 samples of 64
    calls (min 26.9, p99 28.0, max 1564).
    read path: 0 of 1 000 calls entered the kernel under tsc; the other paths follow
    from the kernel's source code.
    –: not measured: not in use (`parachron bench --each-source`, as root, measures
    all).
    ");
}

#[test]
fn a_slow_source_in_use_still_comes_last() {
    let report = ClocksReport::new(&machine("virtualbox-acpi-pm"), None, false);
    let names: Vec<_> = report.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["tsc", "kvm-clock", "acpi_pm"]);
    assert!(source(&report, "acpi_pm").current);
    assert_eq!(source(&report, "acpi_pm").read_path.place, ReadPlace::Kernel);
    let why = "a capture has no clock to read".to_owned();
    assert_eq!(source(&report, "acpi_pm").cost, SourceCost::NotMeasured { why });
}

#[test]
fn a_rating_is_narrowed_by_the_kernel_s_order() {
    let ratings = |available: &str| {
        let report = ClocksReport::new(&made(&[(AVAILABLE, available)]), None, false);
        let ratings = report.sources.iter().filter_map(|source| source.rating.clone());
        ratings.map(|rating| (rating.lowest, rating.highest)).collect::<Vec<_>>()
    };
    assert_eq!(ratings("tsc kvm-clock"), [(300, 300), (299, 299)]);
    assert_eq!(ratings("kvm-clock tsc"), [(300, 300), (400, 400)]);
    assert_eq!(ratings("kvm-clock acpi_pm"), [(299, 400), (200, 200)]);
    assert_eq!(ratings("tsc hyperv_clocksource_tsc_page"), [(300, 300), (250, 299)]);
    assert_eq!(ratings("hyperv_clocksource_msr tsc"), [(300, 300), (301, 500)]);
}

#[test]
fn the_hpet_s_period_is_in_the_line_that_registers_it() {
    for (machine_name, ns) in
        [("ec2-xen", 16.0), ("healthy-bare-metal", 41.67), ("kvm-guest-hpet-tsc-unstable", 10.0)]
    {
        let report = ClocksReport::new(&machine(machine_name), None, false);
        let resolution = source(&report, "hpet").resolution.clone().unwrap();
        assert!((resolution.finest_ns - ns).abs() < 0.01, "{machine_name}: {resolution:?}");
        assert_eq!(resolution.finest_ns, resolution.coarsest_ns);
    }
    let nonsense = "[1.0] clocksource: hpet: mask: 0x0 max_cycles: 0x0, max_idle_ns: 5 ns\n";
    let facts = made(&[(AVAILABLE, "hpet"), ("parachron/kernel-log", nonsense)]);
    let report = ClocksReport::new(&facts, None, false);
    let resolution = source(&report, "hpet").resolution.clone().unwrap();
    assert_eq!((resolution.finest_ns, resolution.coarsest_ns), (10.0, 100.0));
}

#[test]
fn without_a_log_the_tsc_s_period_is_the_measured_one() {
    let mut measured = measured("tsc", 0);
    measured.tsc_rate = Some(TscRate { hz: 2e9, bound_ppm: 0.5, over_s: 0.2 });
    let facts = made(&[(AVAILABLE, "tsc"), (CURRENT, "tsc")]);
    let report = ClocksReport::new(&facts, Some(&measured), false);
    let resolution = source(&report, "tsc").resolution.clone().unwrap();
    assert_eq!((resolution.finest_ns, resolution.coarsest_ns), (0.5, 0.5));
    assert_eq!(resolution.from, "measured: 2000.000 MHz ± 0.50 ppm in 0.2 s");
    let report = ClocksReport::new(&facts, None, false);
    let resolution = source(&report, "tsc").resolution.clone().unwrap();
    assert!(resolution.finest_ns < resolution.coarsest_ns);
}

#[test]
fn an_unknown_source_is_listed_last() {
    let facts = made(&[(AVAILABLE, "sundial hourglass tsc"), (CURRENT, "sundial")]);
    let report = ClocksReport::new(&facts, Some(&measured("sundial", 1000)), false);
    let names: Vec<_> = report.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["tsc", "sundial", "hourglass"]);
    let sundial = source(&report, "sundial");
    assert_eq!((&sundial.rating, &sundial.resolution), (&None, &None));
    assert_eq!(sundial.read_path.place, ReadPlace::Kernel);
    assert_eq!(source(&report, "hourglass").read_path.place, ReadPlace::Unknown);
}

/// Sources that are read with RDTSC where Xen answers it, by its CPUID leaf; in user
/// space, but not for what that costs elsewhere.
#[test]
fn a_trapped_rdtsc_is_named_in_each_read_path_that_has_it() {
    let trapped = |name: &str| {
        let report = ClocksReport::new(&machine(name), None, false);
        let paths: Vec<_> = report.sources.iter().map(read_path).collect();
        let exits = report.sources.iter().filter(|source| source.read_path.tsc_exits);
        let names: Vec<String> = exits.map(|source| source.name.clone()).collect();
        let shown = paths.iter().filter(|path| path.contains(", RDTSC trapped"));
        assert_eq!(shown.count(), names.len(), "{paths:?}");
        names
    };
    assert_eq!(trapped("xen-pvh-dom0-7.2"), ["tsc", "xen"]);
    assert_eq!(trapped("xen-pv-guest-6.1"), ["tsc", "xen"]);
    assert_eq!(trapped("xen-hvm-guest-7.2"), ["xen"], "hpet and acpi_pm are read by I/O");
    assert_eq!(trapped("xen-pv-dom0-7.2"), <[&str; 0]>::default(), "Xen leaves it native");
    assert_eq!(trapped("healthy-kvm-guest"), <[&str; 0]>::default());
}

/// What RDTSC costs counts for more than what a hypervisor says of it, or does not say.
#[test]
fn an_rdtsc_is_trapped_by_what_it_costs() {
    let path = |name: &str, rdtsc_ns: f64| {
        let mut measured = measured("tsc", 0);
        let mut rdtsc = measured.costs[0].clone();
        rdtsc.call = "rdtsc".into();
        rdtsc.ns = Spread { min: rdtsc_ns, median: rdtsc_ns, p99: rdtsc_ns, max: 9e4 };
        measured.costs.push(rdtsc);
        let report = ClocksReport::new(&machine(name), Some(&measured), false);
        let tsc = source(&report, "tsc");
        (tsc.read_path.tsc_exits, read_path(tsc))
    };
    let (exits, line) = path("healthy-kvm-guest", 29_600.0);
    assert!(exits && line.contains("user space, RDTSC trapped, counted"), "{line}");
    let (exits, line) = path("xen-pvh-dom0-7.2", 29.6);
    assert!(!exits && line.contains("user space, counted"), "{line}");
}

#[test]
fn all_absent_sources_have_a_reason() {
    let report = ClocksReport::new(&machine("firecracker-kvm-debian12"), None, true);
    let why = |name: &str| source(&report, name).why_not_available.clone().unwrap_or_default();
    assert!(why("xen").contains("KVMKVMKVM, not Xen"), "{}", why("xen"));
    assert!(why("jiffies").contains("too coarse"));
    assert_eq!(why("tsc"), "");
    let report = ClocksReport::new(&machine("kvm-guest-hpet-tsc-unstable"), None, true);
    let tsc = source(&report, "tsc").why_not_available.clone().unwrap();
    assert!(tsc.contains("marked it unstable"), "{tsc}");
    let report = ClocksReport::new(&machine("healthy-bare-metal"), None, true);
    let kvm = source(&report, "kvm-clock").why_not_available.clone().unwrap();
    assert_eq!(kvm, "this machine has no hypervisor");
    let facts = made(&[(AVAILABLE, "hpet"), ("proc/cmdline", "quiet notsc nohpet")]);
    let report = ClocksReport::new(&facts, None, true);
    let tsc = source(&report, "tsc").why_not_available.clone().unwrap();
    assert_eq!(tsc, "kernel command line: notsc");
}

#[test]
fn a_machine_without_sys_gets_a_message_instead_of_a_table() {
    let report = ClocksReport::new(&machine("no-sys"), None, false);
    let text = render(&report);
    assert!(text.starts_with("No clock source is known.\nnot there: /sys/"), "{text}");
}

#[test]
fn a_failed_measurement_gives_its_reason() {
    let why = "seccomp refused: no".to_owned();
    let failed = Measurements {
        clocksource: Some("tsc".into()),
        not_measured: vec![NotMeasured { what: "calls".into(), why: why.clone() }],
        ..Measurements::default()
    };
    let report = ClocksReport::new(&machine("healthy-kvm-guest"), Some(&failed), false);
    assert_eq!(source(&report, "tsc").cost, SourceCost::NotMeasured { why });
}

#[test]
fn every_machine_s_table_fits_80_columns() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/machines");
    let mut seen = 0;
    for entry in std::fs::read_dir(machines).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let facts = machine(entry.file_name().to_str().unwrap());
            let text = render(&ClocksReport::new(&facts, None, true));
            let long = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{:?}", entry.file_name());
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} machines");
}
