//! `lab linux`: stock kernels on the lab's machine. What they make of the clocks is
//! the row `linux-on-provider` of validation/machines/machines.toml.

use std::fs;

use crate::need::{Need, kernel};
use crate::program::{Program, shared};
use serde_json::Value;

fn found(program: &Program, kernel: &str, initrd: &str) -> String {
    let output = program.run(&[
        "lab",
        "linux",
        "--kernel",
        kernel,
        "--initrd",
        initrd,
        "--provider",
        "kvm",
        "--no-kernel-clock",
        "--limit",
        "60s",
        "--format",
        "json",
    ]);
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    let report: Value = serde_json::from_str(&output.out).expect("a report");
    let check = &report["experiments"][0]["checks"][0];
    assert_eq!(check["name"], "kvm: boots");
    assert_eq!(check["verdict"], "failed");
    check["found"].as_str().expect("words").to_owned()
}

/// Without a first program a kernel boots to the end, and panics.
#[test]
fn lab_linux_boots_a_kernel_and_shows_its_end() {
    let Some(program) = &shared(&[Need::Kvm, Need::HardwareKvm, Need::Kernel]) else { return };
    let initrd = tempfile::NamedTempFile::new().expect("a file");
    let path = kernel().expect("it is there").display().to_string();
    let found = found(program, &path, &initrd.path().display().to_string());
    assert!(found.contains("Kernel panic - not syncing"), "{found}");
}

#[test]
fn lab_linux_refuses_what_is_no_kernel() {
    let Some(program) = &shared(&[Need::Kvm]) else { return };
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), vec![0; 4096]).expect("written");
    let path = file.path().display().to_string();
    let found = found(program, &path, &path);
    assert!(found.contains("no 64-bit entry point (boot protocol 2.12)"), "{found}");
    let output = program.run(&["lab", "linux", "--kernel", "/no/such"]);
    assert_eq!(output.code, Some(2), "{}{}", output.out, output.err);
    assert!(output.err.contains("/no/such: No such file"), "{}", output.err);
}
