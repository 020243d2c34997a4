//! Records as the guest sends them, shortened; then each with one fault.

use super::*;

const CLOCKS: &str = r#"{"available": {"known": ["tsc", "hpet", "acpi_pm"]}}"#;
const DOCTOR: &str = r#"{"diagnosis": {"findings": [{"rule": "software-emulation"}]}}"#;
const DOCTOR_SLOW: &str = r#"{"diagnosis": {"findings":
    [{"rule": "slow-clocksource"}, {"rule": "software-emulation"},
     {"rule": "kvm-host-clock"}]}}"#;
const BENCH: &str = r#"{"runs": [
    {"clocksource": "tsc",
     "costs": [{"call": "clock_gettime(CLOCK_MONOTONIC)", "path": {"calls": 1000, "entered": 0}}],
     "order": [{"readings": 7, "backward": 0}]},
    {"clocksource": "hpet",
     "costs": [{"call": "clock_gettime(CLOCK_MONOTONIC)", "path": {"calls": 1000, "entered": 1000}}],
     "order": [{"readings": 7, "backward": 0}],
     "tsc_rate": {"hz": 2445427900.0, "bound_ppm": 2.6}},
    {"clocksource": "acpi_pm",
     "costs": [{"call": "clock_gettime(CLOCK_MONOTONIC)", "path": {"calls": 1000, "entered": 1000}}],
     "order": [{"readings": 7, "backward": 0}],
     "tsc_rate": {"hz": 2445427393.0, "bound_ppm": 2.1}}]}"#;
const AGREEMENT: &str = r#"{"experiments": [{"checks": [
    {"name": "kvm-clock", "expected": "at most 11 µs difference", "found": "0.2 µs", "verdict": "passed"},
    {"name": "hyperv-page", "expected": "at most 100 µs difference", "found": "2 µs", "verdict": "passed"}
    ]}]}"#;

fn records() -> Vec<Record> {
    let record = |command: &crate::commands::Command| Record {
        name: command.name.to_owned(),
        status: 0,
        started_s: 1.0,
        ended_s: 2.0,
        stdout: match command.name {
            "kernel" => "6.1.0-56-amd64",
            "kvm" => "/dev/kvm\nkvm_amd\nkvm\n",
            "rtc" => "rtc_cmos 00:04\n",
            "clocks" => CLOCKS,
            "doctor" => DOCTOR,
            "doctor-hpet" | "doctor-acpi_pm" => DOCTOR_SLOW,
            "bench" => BENCH,
            "source-after" => "tsc\n",
            "lab-agreement" => AGREEMENT,
            name => panic!("no output of {name}"),
        }
        .to_owned(),
        stderr: String::new(),
    };
    COMMANDS.iter().map(record).collect()
}

/// The checks that fail once a command printed something else.
fn broken(name: &str, from: &str, to: &str) -> Vec<String> {
    let mut records = records();
    let record = records.iter_mut().find(|record| record.name == name).unwrap();
    assert!(record.stdout.contains(from), "{name} has no {from}");
    record.stdout = record.stdout.replacen(from, to, 1);
    let line = |check: &Check| format!("{}: {}", check.what, check.found);
    all(&records).iter().filter(|check| !check.passed).map(line).collect()
}

#[test]
fn a_sound_run_passes() {
    let checks = all(&records());
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(checks.len(), 17);
}

#[test]
fn each_fault_breaks_its_check() {
    for (name, from, to, expected) in [
        ("kvm", "kvm_amd", "kvm_intel", "kvm_amd: /dev/kvm, kvm_intel, kvm"),
        ("rtc", "rtc_cmos", "rtc_test", "CMOS RTC: rtc_test 00:04"),
        ("clocks", "\"hpet\", ", "", "are offered: tsc, acpi_pm"),
        ("doctor", "software-emulation", "rtc-missing", "finds rtc-missing"),
        (
            "doctor-hpet",
            "slow-clocksource",
            "rtc-off",
            "finds rtc-off, software-emulation, kvm-host-clock",
        ),
        ("bench", "\"entered\": 0", "\"entered\": 3", "3 of 1000 clock_gettime"),
        ("bench", "\"entered\": 1000", "\"entered\": 999", "999 of 1000 clock_gettime"),
        ("bench", "\"backward\": 0", "\"backward\": 2", "2 of 7 readings of 1 clocks"),
        ("bench", "2445427900.0", "2445527900.0", "41.10 ppm difference"),
        ("source-after", "tsc", "hpet", "the clock source it found: hpet"),
        ("lab-agreement", "\"passed\"", "\"failed\"", "at most 11 µs difference: 0.2 µs"),
        ("lab-agreement", "\"passed\"", r#"{"not-measured": "no cap"}"#, "not measured: no cap"),
        ("lab-agreement", "experiments", "none", "lab-agreement: has checks: none"),
    ] {
        let broken = broken(name, from, to);
        assert_eq!(broken.len(), 1, "{name}: {broken:#?}");
        assert!(broken[0].contains(expected), "{expected:?} is not in {:?}", broken[0]);
    }
}

#[test]
fn a_missing_record_fails_its_checks() {
    let mut records = records();
    records.retain(|record| record.name != "bench");
    records[1].status = 124;
    records[1].stderr = "terminated".to_owned();
    let checks = all(&records);
    assert_eq!(
        checks[0].found,
        format!(
            "{} of {} did; kvm: exit code 124: terminated; bench: no record",
            COMMANDS.len() - 2,
            COMMANDS.len()
        )
    );
    let missing = checks.iter().filter(|check| check.found == "no record of bench");
    assert!(missing.clone().all(|check| !check.passed));
    assert_eq!(missing.count(), 7);
}
