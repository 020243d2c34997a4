//! `lab`: its options and formats, the guest image, and its messages without KVM.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::need::Need;
use crate::program::{Program, ProgramOutput, alone, shared};
use serde_json::Value;

/// An empty /dev, for this program alone.
const HIDDEN: &str = "mount -t tmpfs none /dev && exec \"$0\" \"$@\"";

#[test]
fn lab_without_kvm_has_a_remedy() {
    let Some(program) = &shared(&[Need::Root, Need::Tool("unshare")]) else { return };
    let message = "parachron: /dev/kvm: No such file or directory (os error 2)\n  \
                try: run `sudo modprobe kvm_amd` or `sudo modprobe kvm_intel`";
    for arguments in [&["lab"][..], &["lab", "restore"]] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", HIDDEN]).arg(program.path()).args(arguments);
        let output = command.stdin(Stdio::null()).output().expect("unshare is there");
        let output = ProgramOutput::from(output);
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
        assert!(output.err.starts_with(message), "{}", output.err);
    }
}

/// Quick clocks of one provider.
const DRIFT: [&str; 7] =
    ["lab", "drift", "--duration", "2s", "--tsc-factor=1.02299", "--provider", "kvm"];

fn json(output: &ProgramOutput) -> Value {
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    serde_json::from_str(&output.out).expect("JSON")
}

#[test]
fn lab_makes_293_s_of_300() {
    let Some(program) = &alone(&[Need::Kvm]) else { return };
    let report = json(&program.run(&[&DRIFT[..], &["--format", "json"]].concat()));
    let rows = report["experiments"][0]["table"]["rows"].as_array().expect("rows");
    let counted = |source: &str| {
        let of_kvm = rows.iter().find(|row| row["clock_by"] == "kvm" && row["source"] == source);
        format!("{:.1}", of_kvm.expect(source)["per_300_s"].as_f64().expect("a figure"))
    };
    assert_eq!(
        ["kvm-clock", "tsc", "acpi_pm", "hpet"].map(counted),
        ["293.3", "293.3", "300.0", "300.0"]
    );
}

/// Each format has the check of the clock that was asked for.
#[test]
fn lab_prints_the_same_figure_in_every_format() {
    let Some(program) = &alone(&[Need::Kvm]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (format, holds) in [
        // By theory, which no measurement moves.
        ("text", "-22473."),
        ("json", "\"theory_ppm\": -22473"),
    ] {
        let path = folder.path().join(format);
        let file = path.to_str().expect("UTF-8");
        let options = ["--verbose", "--format", format, "--output", file, "--source", "kvm-clock"];
        let output = program.run(&[&DRIFT[..], &options].concat());
        assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (Some(0), "", ""));
        let text = fs::read_to_string(&path).expect("a report");
        assert!(text.contains(holds), "{format}: {text}");
    }
}

#[test]
fn lab_refuses_invalid_options() {
    let Some(program) = &shared(&[]) else { return };
    for (arguments, named) in [
        (&["lab", "sundial"][..], "sundial"),
        (&["lab", "drift", "--provider", "xen"], "xen"),
        (&["lab", "drift", "--tsc-hz", "3.4GHz"], "3.4GHz"),
        (&["lab", "drift", "--tsc-factor", "0"], "0.001 to 1000"),
        (&["lab", "drift", "--tsc-hz", "1", "--tsc-factor", "1"], "cannot be used with"),
        (&["lab", "monotonic", "--vcpus", "33"], "33"),
        (&["lab", "ticks", "--vcpus", "3"], "updates, monotonic, conformance"),
    ] {
        let output = program.run(arguments);
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.err.contains(named), "{arguments:?}: {}", output.err);
    }
}

#[test]
fn lab_tables_fit_80_columns() {
    let Some(program) = &alone(&[Need::Kvm]) else { return };
    let quick = ["--duration", "1s", "--downtime", "200ms", "--reads", "100000"];
    let output = program.run(&[&["lab"], &quick[..]].concat());
    // Beside other load an experiment may have measured nothing: 2, and for no other reason.
    let rows = output.out.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, passed, failed, missed, ..] = words[..] else { return None };
        let counts = [passed, failed, missed].map(|word| word.parse::<u32>().ok());
        (!line.starts_with(' ')).then_some([counts[0]?, counts[1]?, counts[2]?])
    });
    let rows: Vec<[u32; 3]> = rows.collect();
    assert_eq!(rows.len(), 9, "{}", output.out);
    assert!(rows.iter().all(|[_, failed, _]| *failed == 0), "{}", output.out);
    let is_incomplete = rows.iter().any(|[passed, failed, _]| passed + failed == 0);
    let expected = Some(if is_incomplete { 2 } else { 0 });
    assert_eq!((output.code, output.err.as_str()), (expected, ""), "{}", output.out);
    let wide: Vec<&str> = output.out.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    for word in ["Virtual machines on /dev/kvm", "\nSummary\n", "first report"] {
        assert!(output.out.contains(word), "{word}: {}", output.out);
    }
}

#[test]
fn lab_boots_in_little_memory() {
    let Some(program) = &alone(&[Need::Kvm]) else { return };
    const RESIDENT_KB: u64 = 64 * 1024;
    let (boot_ms, resident_kb) = booted(program);
    assert!(boot_ms > 0.0, "{boot_ms} ms");
    assert!((1..=RESIDENT_KB).contains(&resident_kb), "{resident_kb} kB");
}

#[test]
#[ignore = "nightly: timing"]
fn lab_boots_soon() {
    let Some(program) = &alone(&[Need::Kvm]) else { return };
    let (boot_ms, _) = booted(program);
    assert!(boot_ms <= 300.0, "{boot_ms} ms");
}

/// A machine's start to its guest's first report, ms, and the most memory that was in use, kB.
fn booted(program: &Program) -> (f64, u64) {
    let mut lab = Command::new(program.path())
        .args(["lab", "cost", "--provider", "kvm", "--format", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let status = format!("/proc/{}/status", lab.id());
    let mut resident_kb = 0;
    while lab.try_wait().expect("our own child").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let most = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|most| most.trim().trim_end_matches(" kB").parse().ok());
        resident_kb = resident_kb.max(most.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = lab.wait_with_output().expect("our own child");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (report["boot_ms"].as_f64().expect("a figure"), resident_kb)
}

#[test]
fn lab_guest_image_is_not_overwritten() {
    let Some(program) = &shared(&[]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("guest.elf");
    let file = path.to_str().expect("UTF-8");
    fs::write(&path, "mine").expect("our own folder");
    let output = program.run(&["lab", "guest-image", file]);
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
    assert!(output.err.contains("already exists\n  try: "), "{}", output.err);
    assert_eq!(fs::read(&path).expect("still there"), b"mine");
    let output = program.run(&["lab", "guest-image", "--force", file]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    assert!(fs::read(&path).expect("an image").starts_with(b"\x7fELF"));
}

/// Software emulation has to start, on a busy machine too.
const QEMU_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn lab_guest_image_boots_under_qemu() {
    let Some(program) = &shared(&[Need::Tool("qemu-system-x86_64")]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (image, serial) = (folder.path().join("guest.elf"), folder.path().join("serial"));
    let output = program.run(&["lab", "guest-image", image.to_str().expect("UTF-8")]);
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    qemu(&image, &serial);
    let report = fs::read_to_string(&serial).expect("the guest's output");
    let lines: Vec<&str> = report.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.iter().position(|line| line.ends_with("parachron guest report 1"));
    let first = first.unwrap_or_else(|| panic!("no report: {report}"));
    assert_eq!(lines.last(), Some(&"parachron guest report ends"), "{report}");
    let value = |name: &str| {
        let line =
            lines[first..].iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name}: {report}"))
    };
    // "TCGTCGTCGTCG" is neither KVM's nor Hyper-V's.
    assert_eq!(value("hypervisor"), "Other");
    assert!(value("tsc-hz").ends_with("(Measured)"), "{report}");
    for clock in ["tsc", "acpi_pm", "hpet", "rtc"] {
        let nanos = value(clock).split_once(" ns").map(|(nanos, _)| nanos.parse::<u64>());
        assert!(matches!(nanos, Some(Ok(_))), "{clock}: {report}");
    }
    for clock in ["kvm-clock", "hyperv-page", "hyperv-counter"] {
        let line = lines[first..].iter().rfind(|line| line.starts_with(&format!("{clock}: ")));
        assert!(line.is_some_and(|line| line.contains("not there")), "{clock}: {report}");
    }
}

/// The command in `lab guest-image --help`, with the serial port in a file.
fn qemu(image: &Path, serial: &Path) {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-m", "64", "-display", "none", "-no-reboot", "-serial"])
        .arg(format!("file:{}", serial.display()))
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .spawn()
        .expect("QEMU starts");
    let started = Instant::now();
    while qemu.try_wait().expect("our own child").is_none() {
        if started.elapsed() > QEMU_LIMIT {
            qemu.kill().expect("our own child");
            qemu.wait().expect("our own child");
            let output = fs::read_to_string(serial).unwrap_or_default();
            panic!("the guest did not end within {QEMU_LIMIT:?}; its output: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
