//! What the guest consists of: kernel, first files, program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::nested::commands::COMMANDS;
use crate::nested::modules::Modules;
use crate::nested::qemu::Guest;
use crate::nested::{Stop, initramfs};
use crate::outside::Outcome;
use crate::project::Project;

/// What the program is built for: static, as the guest has no libraries.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What the kernel is told: a console that can be read, no second boot, and to
/// trust the TSC. QEMU's emulation cannot announce an invariant TSC, without
/// which Linux takes an AMD machine's TSCs for unsynchronized and offers none
/// (arch/x86/kernel/tsc.c, unsynchronized_tsc); they are the host's one TSC.
const PARAMETERS: &str = "console=ttyS0 panic=-1 tsc=reliable";

/// `parachron` as a static program.
pub(super) fn program(project: &Project) -> Result<PathBuf, Stop> {
    let built = Outcome::of(
        project
            .cargo()
            .args(["build", "--quiet", "--release", "--package", "parachron", "--target", TARGET])
            .env("RUSTFLAGS", "-C target-feature=+crt-static"),
    );
    if let Outcome::Failed(said) = built {
        return Err(Stop::Failed(said));
    }
    Ok(project.target_folder().join(TARGET).join("release/parachron"))
}

/// The kernel's command line, with the TSC's frequency: measured by the guest
/// while this machine is busy, it came out 8 times too low.
fn parameters(program: &Path) -> Result<String, Stop> {
    let mut bench = Command::new(program);
    bench.args(["bench", "--only", "rdtsc", "--duration", "200ms", "--format", "json"]);
    let said = bench.output().map(|output| output.stdout).unwrap_or_default();
    let report: Value = serde_json::from_slice(&said).unwrap_or_default();
    let hz = report.pointer("/runs/0/tsc_rate/hz").and_then(Value::as_f64);
    let hz = hz.ok_or_else(|| {
        Stop::Failed("this machine's TSC has no rate: see parachron bench --only rdtsc".to_owned())
    })?;
    Ok(format!("{PARAMETERS} tsc_early_khz={:.0}", hz / 1000.0))
}

/// Writes the guest's files, and says what to boot.
pub(super) fn guest(
    folder: &Path,
    kernel: &Path,
    busybox: &Path,
    program: &Path,
    limit_s: u32,
) -> Result<Guest, Stop> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))
    };
    let image = only_file(&kernel.join("boot"), "vmlinuz-")?;
    let modules = Modules::below(&kernel.join("lib/modules"))
        .with_needs("kvm-amd")
        .map_err(|error| Stop::Failed(error.to_string()))?;
    let archive = initramfs::build(&initramfs::Contents {
        busybox: &read(&busybox.join("bin/busybox"))?,
        program: &read(program)?,
        modules: &modules,
        commands: COMMANDS,
    });
    let initramfs = folder.join("initramfs.cpio");
    fs::write(&initramfs, archive)
        .map_err(|error| Stop::Failed(format!("{}: {error}", initramfs.display())))?;
    Ok(Guest {
        kernel: image,
        linux: Some((initramfs, parameters(program)?)),
        serial_ports: vec![folder.join("console"), folder.join("records")],
        limit_s,
    })
}

/// The file of a folder whose name begins so.
fn only_file(folder: &Path, beginning: &str) -> Result<PathBuf, Stop> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = entries.filter(|e| e.file_name().to_string_lossy().starts_with(beginning));
    found
        .next()
        .map(|entry| entry.path())
        .ok_or_else(|| Stop::Failed(format!("no {beginning}* in {}", folder.display())))
}

/// The lab's guest, as the program writes it out.
pub(super) fn image(folder: &Path, program: &Path) -> Result<PathBuf, Stop> {
    let file = folder.join("guest-image");
    match Outcome::of(Command::new(program).args(["lab", "guest-image"]).arg(&file)) {
        Outcome::Failed(said) => Err(Stop::Failed(said)),
        _ => Ok(file),
    }
}
