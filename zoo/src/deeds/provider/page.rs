//! docs/validation/linux-on-provider.md: what stock kernels made of each provider.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::checks::list;
use crate::tools;

/// The page.
const PAGE: &str = "docs/validation/linux-on-provider.md";

const HEAD: &str = "# Stock Linux on the providers

`cargo xtask machines --only linux-on-provider` boots Debian's kernels on the lab's own
machine (`parachron lab linux`), in QEMU's emulation of a host with AMD's virtualization,
and `cargo xtask machines --linux-on-provider target/machines/linux-on-provider` writes
this page of its reports. Clock by: `kernel` is KVM's own kvm-clock, the others are
Parachron's providers. What each has to show is written by hand in
`crates/lab/src/stock/expected.rs`, from Linux's source. Offset: the guest's time of day
less the host's; where no page tells it, by a real-time clock that counts seconds. Rate:
the guest's `CLOCK_MONOTONIC_RAW` against the host's, over some seconds; where the kernel
measures the TSC by the PIT, its own calibration promises 500 ppm. VMClock: the PTP clock of
Linux's own driver (ptp_vmclock; Debian's kernels have it from 7.2 on, and it counts TAI)
less the host's clock, the furthest of two readings; the bound is the page's own and that
of reading both. The machine has ACPI for it, and takes its host's clock for the truth.

An emulated host proves what a kernel decides and reads, not what anything costs.
";

const FOOT: &str = "
## Read with

- What fails is `none` and `minimal` alone, which give no clock but the TSC, up to Linux 6.12:
  its watchdog compares it with ticks, of which an emulated host loses many, gives the TSC
  up, and the guest counts ticks from then on. The watchdog of 7.3 does not.
- The kernel is told the TSC's rate, as an emulated exit takes longer than its calibration
  by the PIT allows. A guest that counts ticks is not held to the host's clock. The time of
  day under kvm-clock may be behind by what the boot took, as Linux counts ticks until it
  takes kvm-clock, and `TSCs unsynchronized` is no fault of two vCPUs without a constant TSC.
- Under `hyperv` Linux holds the TSC unstable, without an invariant-TSC control, and its
  VMClock driver then refuses each reading: the figure there is the page's, read by a program.
- Under QEMU 7.2 a guest finds CPUID 0xD with the size of another XCR0: older kernels warn,
  and 7.3 panics in fpstate_reset. QEMU 10 does not.
- That lost ticks explain the seconds by which kvm-clock's guests are behind is inferred,
  not measured.
";

/// Writes the page from the reports of a folder; fails if a check did.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let cannot = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let entries = fs::read_dir(folder).map_err(|error| cannot(folder, error))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect();
    files.retain(|path| {
        path.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("linux-"))
    });
    files.sort();
    let mut reports = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).map_err(|error| cannot(path, error))?;
        let report = serde_json::from_str(&text);
        reports.push(report.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let page = tools::root().join(PAGE);
    fs::write(&page, text(&reports, &tools::now_utc())).map_err(|error| cannot(&page, error))?;
    let failed = checks(&reports).filter(|check| check["verdict"] == "failed").count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed: {PAGE}")) }
}

fn experiments(reports: &[Value]) -> impl Iterator<Item = &Value> {
    reports.iter().flat_map(|report| list(&report["experiments"]))
}

fn checks(reports: &[Value]) -> impl Iterator<Item = &Value> {
    experiments(reports).flat_map(|one| list(&one["checks"]))
}

fn text(reports: &[Value], now: &str) -> String {
    let mut text = HEAD.to_owned();
    let host = reports.first().map_or("", |report| word(&report["machine"]["kernel"]));
    let passed = checks(reports).filter(|check| check["verdict"] == "passed").count();
    let all = checks(reports).count();
    let _ =
        writeln!(text, "\nRecorded {now}, host Linux {host}: {passed} of {all} checks passed.\n");
    text.push_str(
        "| kernel | vCPUs | clock by | clock source | offset | ± | rate, ppm | VMClock | ± | \
         took, s |\n",
    );
    text.push_str("| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for row in experiments(reports).flat_map(|one| list(&one["findings"]["rows"])) {
        let by = if row["backend"] == "kernel" { "kernel" } else { word(&row["provider"]) };
        let figure = |key: &str| row[key].as_f64();
        let (kernel, vcpus, source) =
            (word(&row["kernel"]), &row["vcpus"], word(&row["clocksource"]));
        let (offset, bound) = (ns(figure("offset_ns")), ns(figure("bound_ns")));
        let rate = figure("rate_ppm").map_or("–".to_owned(), |ppm| format!("{ppm:+.3}"));
        let took = figure("took_s").unwrap_or(0.0);
        let [clock, within] = ["vmclock_offset_ns", "vmclock_bound_ns"].map(|key| ns(figure(key)));
        let _ = writeln!(
            text,
            "| {kernel} | {vcpus} | {by} | {source} | {offset} | {bound} | {rate} | \
             {clock} | {within} | {took:.1} |"
        );
    }
    let failed = checks(reports).filter(|check| check["verdict"] == "failed");
    for (number, check) in failed.enumerate() {
        if number == 0 {
            text.push_str("\n## Failed\n\n");
        }
        let [name, expected, found] = ["name", "expected", "found"].map(|key| word(&check[key]));
        let found = found.lines().next().unwrap_or_default();
        let _ = writeln!(text, "- {name}: {found} (expected: {expected})");
    }
    text.push_str(FOOT);
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// With its unit, as people write it.
fn ns(ns: Option<f64>) -> String {
    match ns {
        None => "–".to_owned(),
        Some(ns) if ns.abs() < 1e4 => format!("{ns:.0} ns"),
        Some(ns) if ns.abs() < 1e7 => format!("{:.1} µs", ns / 1e3),
        Some(ns) => format!("{:.0} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_has_a_line_for_each_boot_and_each_failure() {
        let report = json!({
            "machine": {"kernel": "7.2.13"},
            "experiments": [{
                "findings": {"experiment": "linux", "rows": [
                    {"backend": "kernel", "provider": "kvm", "kernel": "6.1.0", "vcpus": 2,
                     "clocksource": "kvm-clock", "offset_ns": -310.4, "bound_ns": 12_345.0,
                     "rate_ppm": 0.01, "took_s": 12.34, "vmclock_offset_ns": 120.0,
                     "vmclock_bound_ns": 2_345.6},
                    {"backend": "own", "provider": "none", "kernel": "6.1.0", "vcpus": 2,
                     "clocksource": "tsc", "offset_ns": -5e8, "bound_ns": 300.0,
                     "rate_ppm": null, "took_s": 9.0},
                ]},
                "checks": [
                    {"name": "kernel: boots", "expected": "a", "found": "b", "verdict": "passed"},
                    {"name": "none: rate", "expected": "c", "found": "d\nlog", "verdict": "failed"},
                ],
            }],
        });
        let page = text(&[report], "2026-11-22");
        for line in [
            "Recorded 2026-11-22, host Linux 7.2.13: 1 of 2 checks passed.",
            "| 6.1.0 | 2 | kernel | kvm-clock | -310 ns | 12.3 µs | +0.010 | 120 ns | 2346 ns | 12.3 |",
            "| 6.1.0 | 2 | none | tsc | -500 ms | 300 ns | – | – | – | 9.0 |",
            "- none: rate: d (expected: c)",
        ] {
            assert!(page.lines().any(|one| one == line), "{line:?}: {page}");
        }
    }
}
