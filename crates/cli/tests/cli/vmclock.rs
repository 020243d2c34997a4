//! A VMClock page of known truth, in a file that is read as the device is.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::program::{alone, shared};
use linux::counter::{Counter, CpuCounter};
use pvclock::Nanos;
use pvclock::vmclock::{CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockStatus};
use serde_json::Value;
use sources::{Source, VmClockSource, now};

/// The TSC and CLOCK_REALTIME, read together as closely as a few tries get.
fn pair() -> (u64, u64) {
    let tries = (0..100).map(|_| {
        let before = CpuCounter.read_ordered();
        let realtime_ns = now().expect("a time since 1970").realtime_ns;
        let after = CpuCounter.read_ordered();
        (after - before, before + (after - before) / 2, realtime_ns)
    });
    let (_, tsc, realtime_ns) = tries.min().expect("some tries");
    (tsc, realtime_ns)
}

/// A page of the TSC and UTC that a host keeps in order, with nothing known
/// of either yet.
pub(crate) const PAGE: VmClockInfo = VmClockInfo {
    size: 4096,
    counter_id: CounterId::NATIVE,
    time_type: TimeType::UTC,
    disruption_marker: 1,
    clock_status: VmClockStatus::SYNCHRONISED,
    period_shift: 20,
    time_max_error: Nanos(10_000),
    ..VmClockInfo::ZERO
};

/// Writes a page by which the TSC's time is `ahead_ns` ahead of
/// CLOCK_REALTIME now, and gains `ppm` on it.
fn write_page(path: &Path, ahead_ns: i64, ppm: f64, clock_status: VmClockStatus) {
    let (first, last) = (pair(), (sleep(Duration::from_secs(2)), pair()).1);
    let cycle_s = (last.1 - first.1) as f64 / 1e9 / (last.0 - first.0) as f64;
    let at_ns = last.1.checked_add_signed(ahead_ns).expect("a time since 1970");
    // In units of 2^-(64 + 20) s.
    let period = cycle_s * (1.0 + ppm / 1e6) * 2f64.powi(64 + i32::from(PAGE.period_shift));
    let page = VmClockInfo {
        flags: VmClockFlags::PERIOD_MAX_ERROR_VALID.union(VmClockFlags::TIME_MAX_ERROR_VALID),
        clock_status,
        counter_value: last.0,
        period: period as u64,
        // Ten of a million, for our measuring.
        period_max_error: (period / 1e5) as u64,
        time_sec: at_ns / 1_000_000_000,
        time_frac: ((u128::from(at_ns % 1_000_000_000) << 64) / 1_000_000_000) as u64,
        ..PAGE
    };
    fs::write(path, page.to_bytes()).expect("our own folder");
}

#[test]
fn drift_against_a_vmclock_page() {
    let Some(program) = &alone(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("vmclock");
    write_page(&path, 50_000_000, 300.0, VmClockStatus::SYNCHRONISED);
    let option = format!("--vmclock={}", path.display());
    let timing = ["--duration", "5s", "--interval", "50ms", "--format", "json"];
    let said = program.run(&[&["drift", &option, "--clock", "realtime"][..], &timing].concat());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let drift = &report["pairs"][0]["drift"];
    let ppm = drift["frequency"]["ppm"].as_f64().expect("a frequency");
    // Two times the 2 s it took to know the TSC, to some microseconds.
    assert!((ppm + 300.0).abs() < 10.0, "{report:#}");
    let offset_ns = drift["offset"]["ns"].as_f64().expect("an offset");
    // 50 ms, and up to half a minute at 300 ppm since.
    assert!((-60e6..-49.9e6).contains(&offset_ns), "{report:#}");
}

#[test]
fn drift_refuses_an_unreliable_page() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("vmclock");
    write_page(&path, 0, 0.0, VmClockStatus::UNRELIABLE);
    let option = format!("--vmclock={}", path.display());
    let timing = ["--duration", "300ms", "--interval", "100ms"];
    let said = program.run(&[&["drift", &option][..], &timing].concat());
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("the host calls its clock unreliable"), "{}", said.err);
    fs::write(&path, [0; 4096]).expect("our own file");
    let said = program.run(&["drift", &option]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    let told = "magic number 0x00000000 is not this page's";
    assert!(said.err.contains(told) && said.err.contains("\n  try: "), "{}", said.err);
}

/// Samples each 4 s: the page moves just after the second one, and is looked at
/// before the third.
#[test]
fn keep_sees_a_pause_between_two_samples() {
    let Some(program) = &alone(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, later) = (folder.path().join("vmclock"), folder.path().join("later"));
    write_page(&path, 0, 0.0, VmClockStatus::SYNCHRONISED);
    let option = format!("--vmclock={}", path.display());
    let moves = std::thread::spawn(move || {
        sleep(Duration::from_millis(2_800));
        write_page(&later, 3_000_000_000, 0.0, VmClockStatus::SYNCHRONISED);
        // In place, as it is mapped.
        let page = fs::read(&later).expect("our own file");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("our own file");
        std::os::unix::fs::FileExt::write_all_at(&file, &page, 0).expect("our own file");
    });
    let words = ["keep", "--dry-run", "--force", "--no-source", "phc,rtc", "--format", "json"];
    let timing = ["--interval", "4s", "--duration", "9s", &option];
    let said = program.run(&[&words[..], &timing].concat());
    moves.join().expect("a page");
    let events = said.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let at = |event: &Value| event["at_monotonic_ns"].as_f64().expect("a time") / 1e9;
    let events: Vec<Value> = events.collect();
    let step = events.iter().find(|event| event["event"] == "corrected").expect("a step");
    let after_s = at(step) - at(&events[0]);
    assert!((5.0..7.0).contains(&after_s), "after {after_s} s: {}", said.out);
}

#[test]
fn vmclock_page_gives_the_offset() {
    let Some(_program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("vmclock");
    write_page(&path, -3_000_000_000, 0.0, VmClockStatus::SYNCHRONISED);
    let facts::Fact::Known(page) = VmClockSource::open(&path) else { panic!("no page") };
    let offset = Source::VmClock(page).offset().expect("a time");
    assert!(offset.offset_ns.abs_diff(-3_000_000_000) <= offset.bound_ns, "{offset:?}");
}
