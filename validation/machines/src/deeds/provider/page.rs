//! docs/validation/linux-on-provider.md: what stock kernels made of each provider.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::checks::list;
use crate::tools;

/// The page.
const PAGE: &str = "docs/validation/linux-on-provider.md";

/// Rows beside `linux-moved`, of a kernel each.
const MORE_MOVED: [&str; 2] = ["linux-moved-5.10", "linux-moved-6.12"];

const HEAD: &str = "# Stock Linux on the providers

`cargo xtask machines --only linux-on-provider` boots Debian's kernels on the lab's own
machine (`parachron lab linux`), in QEMU's emulation of a host with AMD's virtualization,
and `cargo xtask machines --linux-on-provider target/machines/linux-on-provider` writes
this page of its reports. Clock by: `kernel` is KVM's own kvm-clock, the others are
Parachron's providers. What each has to show is written by hand in
`crates/lab/src/stock/expected.rs`, from Linux's source. Offset: the guest's time of day
less the host's; where no page tells it, by a real-time clock that counts seconds. Rate:
the guest's `CLOCK_MONOTONIC_RAW` against the host's, over some seconds; where the kernel
measures the TSC by the PIT, its own calibration promises 500 ppm. Page: what the provider's page
tells at one moment, read in the guest's memory from outside, less the host's time of day; of
`hyperv` less the time since the machine was created, of which half of what that took is not
known. Calls: how many of 2,000 reads of CLOCK_MONOTONIC entered the kernel, by its tracepoint,
for each read. VMClock: the PTP clock of
Linux's own driver (ptp_vmclock; Debian's kernels have it from 7.2 on, and it counts TAI)
less the host's clock, the furthest of two readings; the bound is the page's own and that
of reading both. The machine has ACPI for it, and takes its host's clock for the truth.

An emulated host proves what a kernel decides and reads, not what anything costs.
";

const MOVED: &str = "
## Saved, and restored in another process

Row `linux-moved`, and one each for 5.10 and 6.12 (their reports are taken from the folders
beside), boot on KVM's kvm-clock
and two of our providers, takes a CPU off and on again, saves the running guest to a file
(`lab linux --away 3s`) and restores that in processes of their own, twice by one policy
and once by each other, and sends it to one through a socket: as it is, and as of a host whose
TSC is told to have been faster. Passed: what `CLOCK_MONOTONIC` did while the guest was away
(`sleep`: the guest is to be told the date, and nobody tells it here). Error: what each
clock missed its policy by, against the host's clocks; within: the bound promised, the
readings' and 0.25 ppm of what ran. Late: the first timer of each clock since, by that
clock, and after the slash how far the clock had gone past it when it was restored.
";

const AGAIN: &str = "
## Booted again by kexec, suspended, and then moved

Row `linux-again`: each kernel boots itself once more by kexec, and what that one makes of its
provider is judged; it suspends as if to disk (`pm_test` `core`), and is saved and restored
as above. Stood: how long `CLOCK_MONOTONIC_RAW` did; gained: what the time of day did
beside the host's meanwhile.
";

const SILENT: &str = "
## Watched for ten minutes

Row `linux-silent`, which runs where it is named: `parachron watch` and the kernel's own watchdog
have nothing to say in ten minutes.
";

const KEPT: &str = "
## Kept by the VMClock

Row `linux-kept`: `parachron keep` in the guest, and no network. Right: when the time of day was
within 1 ms of the host's, s since the restore; off: by how much then, and at the worst of the
readings of 3 s after that.

| kernel | vCPUs | clock by | policy | away, s | right, s | off | worst after |
| --- | ---: | --- | --- | ---: | ---: | ---: | ---: |
";

const FOOT: &str = "
## Read with

- `none` and `minimal` give no clock but the TSC, which Linux holds against the machine's PM
  timer, or the HPET. `tsc-early` is the TSC until the kernel has measured it by that timer;
  where each exit is emulated it tries that again and again. Before the machine had them, Linux
  up to 6.12 compared the TSC with its own ticks, of which an emulated host delivers too few,
  and gave the TSC up; with the PM timer alone it still could in the second before it
  registered that ([stock Linux guests](../decisions/stock-linux-guests.md)).
- The kernel is told the TSC's rate, as an emulated exit takes longer than its calibration
  by the PIT allows. The time of
  day under kvm-clock may be behind by what the boot took, as Linux counts ticks until it
  takes kvm-clock, and `TSCs unsynchronized` is no fault of two vCPUs without a constant TSC.
- Under `hyperv` Linux holds the TSC unstable, without an invariant-TSC control, and its
  VMClock driver then refuses each reading: the figure there is the page's, read by a program.
- Under QEMU 7.2 a guest finds CPUID 0xD with the size of another XCR0: older kernels warn,
  and 7.3 panics in fpstate_reset. QEMU 10 does not.
- That lost ticks explain the seconds by which kvm-clock's guests are behind is inferred,
  not measured.
";

/// A row's reports, and when the last of them was written.
fn read(folder: &Path) -> Result<(Vec<Value>, String), String> {
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
    let latest = files.iter().map(|file| tools::written_utc(file)).max();
    Ok((reports, latest.unwrap_or_default()))
}

/// Writes the page from the reports of both rows; fails if a check did.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let booted = read(folder)?;
    let (mut moved, mut moved_at) = read(&folder.with_file_name("linux-moved"))?;
    let page = tools::root().join(PAGE);
    // These came later: a folder of reports may not have them yet.
    let later = |row: &str| {
        let folder = folder.with_file_name(row);
        if folder.exists() { read(&folder) } else { Ok(Default::default()) }
    };
    for row in MORE_MOVED {
        let (reports, at) = later(row)?;
        moved.extend(reports);
        moved_at = moved_at.max(at);
    }
    let moved = (moved, moved_at);
    let (again, kept) = (later("linux-again")?, later("linux-kept")?);
    let silent = later("linux-silent")?;
    let rows =
        [&booted, &moved, &again, &kept, &silent].map(|(reports, at)| (&reports[..], &at[..]));
    fs::write(&page, text(rows)).map_err(|error| format!("{}: {error}", page.display()))?;
    let all = rows.into_iter().flat_map(|(reports, _)| checks(reports));
    let failed = all.filter(|check| check["verdict"] == "failed").count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed: {PAGE}")) }
}

fn experiments(reports: &[Value]) -> impl Iterator<Item = &Value> {
    reports.iter().flat_map(|report| list(&report["experiments"]))
}

fn checks(reports: &[Value]) -> impl Iterator<Item = &Value> {
    experiments(reports).flat_map(|one| list(&one["checks"]))
}

/// Of five rows: booted, moved, again, kept, silent.
fn text(rows: [(&[Value], &str); 5]) -> String {
    let [(reports, at), moved, again, kept, silent] = rows;
    let mut text = HEAD.to_owned();
    recorded(&mut text, reports, at);
    table_of_boots(&mut text, reports);
    text.push_str(MOVED);
    recorded(&mut text, moved.0, moved.1);
    table_of_moves(&mut text, moved.0);
    if !again.0.is_empty() {
        text.push_str(AGAIN);
        recorded(&mut text, again.0, again.1);
        table_of_boots(&mut text, again.0);
        text.push('\n');
        table_of_moves(&mut text, again.0);
    }
    if !kept.0.is_empty() {
        text.push_str(KEPT);
        table_of_kept(&mut text, kept.0);
        recorded(&mut text, kept.0, kept.1);
    }
    if !silent.0.is_empty() {
        text.push_str(SILENT);
        recorded(&mut text, silent.0, silent.1);
        table_of_boots(&mut text, silent.0);
    }
    let all = rows.into_iter().flat_map(|(reports, _)| checks(reports));
    let failed = all.filter(|check| check["verdict"] == "failed");
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

/// With what a suspended one did, where one was.
fn table_of_boots(text: &mut String, reports: &[Value]) {
    let rows = || experiments(reports).flat_map(|one| list(&one["findings"]["rows"]));
    let slept = rows().any(|row| row["slept_s"].is_number());
    let (names, marks) = if slept { (" stood, s | gained |", " ---: | ---: |") } else { ("", "") };
    let _ = writeln!(
        text,
        "| kernel | vCPUs | clock by | clock source | offset | ± | rate, ppm | page | ± | \
         calls | VMClock | ± | took, s |{names}\n\
         | --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: \
         |{marks}"
    );
    for row in rows() {
        let by = by(row);
        let figure = |key: &str| row[key].as_f64();
        let (kernel, vcpus, source) =
            (word(&row["kernel"]), &row["vcpus"], word(&row["clocksource"]));
        let (offset, bound) = (ns(figure("offset_ns")), ns(figure("bound_ns")));
        let rate = figure("rate_ppm").map_or("–".to_owned(), |ppm| format!("{ppm:+.3}"));
        let took = figure("took_s").unwrap_or(0.0);
        let [page, page_within, clock, within] =
            ["page_offset_ns", "page_bound_ns", "vmclock_offset_ns", "vmclock_bound_ns"]
                .map(|key| ns(figure(key)));
        let calls =
            figure("calls_per_read").map_or("–".to_owned(), |calls| format!("{calls:.2}"));
        let _ = write!(
            text,
            "| {kernel} | {vcpus} | {by} | {source} | {offset} | {bound} | {rate} | \
             {page} | {page_within} | {calls} | {clock} | {within} | {took:.1} |"
        );
        if let Some(stood) = figure("slept_s") {
            let _ = write!(text, " {stood:.3} | {} |", ns(figure("slept_gained_ns")));
        }
        text.push('\n');
    }
}

fn by(row: &Value) -> &str {
    if row["backend"] == "kernel" { "kernel" } else { word(&row["provider"]) }
}

fn table_of_kept(text: &mut String, reports: &[Value]) {
    for row in experiments(reports).flat_map(|one| list(&one["findings"]["rows"])) {
        for moved in list(&row["moved"]) {
            let seconds = |key: &str| {
                moved[key].as_f64().map_or("–".to_owned(), |seconds| format!("{seconds:.3}"))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                word(&row["kernel"]),
                row["vcpus"],
                by(row),
                word(&moved["policy"]),
                seconds("away_s"),
                seconds("right_s"),
                ns(moved["ahead_ns"].as_f64()),
                ns(moved["worst_ahead_ns"].as_f64()),
            );
        }
    }
}

fn recorded(text: &mut String, reports: &[Value], at: &str) {
    let host = reports.first().map_or("", |report| word(&report["machine"]["kernel"]));
    let passed = checks(reports).filter(|check| check["verdict"] == "passed").count();
    let all = checks(reports).count();
    let _ =
        writeln!(text, "\nRecorded {at}, host Linux {host}: {passed} of {all} checks passed.\n");
}

fn table_of_moves(text: &mut String, reports: &[Value]) {
    text.push_str(
        "| kernel | vCPUs | clock by | way | policy | away, s | passed, s | error, ns: \
         MONOTONIC, BOOTTIME, REALTIME, RAW | within, ns | late, s: MONOTONIC, BOOTTIME, \
         REALTIME |\n| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in experiments(reports).flat_map(|one| list(&one["findings"]["rows"])) {
        let by = by(row);
        let (kernel, vcpus) = (word(&row["kernel"]), &row["vcpus"]);
        for moved in list(&row["moved"]) {
            let told = match moved["told_ppm"].as_i64() {
                Some(0) | None => String::new(),
                Some(ppm) => format!(", told {ppm:+} ppm"),
            };
            let (way, policy) = (word(&moved["way"]), word(&moved["policy"]));
            let _ = write!(text, "| {kernel} | {vcpus} | {by} | {way}{told} | {policy} |");
            if let Some(why) = moved["refused"].as_str() {
                let _ = writeln!(text, " – | – | – | – | refused: {why} |");
                continue;
            }
            let seconds = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            let clocks = list(&moved["clocks"]);
            let passed = clocks.first().map_or(f64::NAN, |clock| seconds(&clock["passed_s"]));
            let error = |clock: &Value| {
                format!(
                    "{:+.0}",
                    (seconds(&clock["passed_s"]) - seconds(&clock["expected_s"])) * 1e9
                )
            };
            let errors: Vec<_> = clocks.iter().map(error).collect();
            let bounds = clocks.iter().map(|clock| seconds(&clock["bound_s"]) * 1e9);
            let late = list(&moved["timers"]).iter().map(|timer| {
                format!("{:.3}/{:.3}", seconds(&timer["late_s"]), seconds(&timer["owed_s"]))
            });
            let _ = writeln!(
                text,
                " {:.3} | {passed:.3} | {} | {:.0} | {} |",
                seconds(&moved["away_s"]),
                errors.join(", "),
                bounds.fold(0.0, f64::max),
                late.collect::<Vec<_>>().join(", "),
            );
        }
    }
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
                     "page_offset_ns": -70.0, "page_bound_ns": 305.0, "calls_per_read": 0.0,
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
        let moved = json!({
            "machine": {"kernel": "7.2.13"},
            "experiments": [{"findings": {"rows": [{
                "backend": "kernel", "provider": "kvm", "kernel": "6.1.0", "vcpus": 4,
                "moved": [
                    {"way": "file", "policy": "freeze", "told_ppm": 0, "away_s": 3.5,
                     "clocks": [{"clock": "CLOCK_MONOTONIC", "passed_s": 0.012_000_1,
                                 "expected_s": 0.012, "bound_s": 2e-6}],
                     "timers": [{"clock": "CLOCK_MONOTONIC", "late_s": 0.25, "owed_s": 0.1}],
                     "refused": null},
                    {"way": "socket", "policy": "advance", "told_ppm": 1000, "away_s": 0.0,
                     "clocks": [], "timers": [], "refused": "KVM does not scale here"},
                ],
            }]}, "checks": []}],
        });
        let again = json!({"experiments": [{"findings": {"rows": [
            {"backend": "own", "provider": "kvm", "kernel": "7.3", "vcpus": 2, "took_s": 30.0,
             "clocksource": "kvm-clock", "slept_s": 5.123_4, "slept_gained_ns": 25_000.0}]}}]});
        let kept = json!({"experiments": [{"findings": {"rows": [
            {"backend": "kernel", "kernel": "7.3", "vcpus": 2, "moved": [
                {"policy": "sleep", "away_s": 4.5, "right_s": 0.12, "ahead_ns": 900.0,
                 "worst_ahead_ns": -25_000.0}]}]}}]});
        let page = text([
            (&[report], "2026-11-22"),
            (&[moved], "2026-11-23"),
            (&[again], "2026-11-24"),
            (&[kept], "2026-11-24"),
            (&[], ""),
        ]);
        for line in [
            "Recorded 2026-11-22, host Linux 7.2.13: 1 of 2 checks passed.",
            "| 6.1.0 | 2 | kernel | kvm-clock | -310 ns | 12.3 µs | +0.010 | -70 ns | 305 ns | 0.00 | 120 ns | 2346 ns \
             | 12.3 |",
            "| 6.1.0 | 2 | none | tsc | -500 ms | 300 ns | – | – | – | – | – | – | 9.0 |",
            "- none: rate: d (expected: c)",
            "Recorded 2026-11-23, host Linux 7.2.13: 0 of 0 checks passed.",
            "| 6.1.0 | 4 | kernel | file | freeze | 3.500 | 0.012 | +100 | 2000 | 0.250/0.100 |",
            "| 6.1.0 | 4 | kernel | socket, told +1000 ppm | advance | – | – | – | – | \
             refused: KVM does not scale here |",
            "| 7.3 | 2 | kvm | kvm-clock | – | – | – | – | – | – | – | – | 30.0 | 5.123 | 25.0 µs |",
            "| 7.3 | 2 | kernel | sleep | 4.500 | 0.120 | 900 ns | -25.0 µs |",
        ] {
            assert!(page.lines().any(|one| one == line), "{line:?}: {page}");
        }
    }
}
