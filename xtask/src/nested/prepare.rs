//! What the guest consists of: kernel, first files, program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::nested::commands::Command as GuestCommand;
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

/// How the programs are built (Cargo.toml).
const PROFILE: &str = "emulated";

/// The static programs of this project.
#[derive(Debug)]
pub(super) struct Programs {
    /// `parachron`.
    pub(super) parachron: PathBuf,
    /// What tells and disturbs a guest's clocks (`e2e/src/bin/guest-clock.rs`).
    pub(super) guest_clock: PathBuf,
    /// The NTP server beside the guests (`e2e/src/bin/ntp-server.rs`).
    pub(super) ntp_server: PathBuf,
}

pub(super) fn programs(project: &Project) -> Result<Programs, Stop> {
    let built = Outcome::of(
        project
            .cargo()
            .args(["build", "--quiet", "--profile", PROFILE, "--target", TARGET])
            .args(["--package", "parachron", "--package", "e2e", "--bins"])
            .env("RUSTFLAGS", "-C target-feature=+crt-static"),
    );
    if let Outcome::Failed(said) = built {
        return Err(Stop::Failed(said));
    }
    let path = |name| project.target_folder().join(TARGET).join(PROFILE).join(name);
    Ok(Programs {
        parachron: path("parachron"),
        guest_clock: path("guest-clock"),
        ntp_server: path("ntp-server"),
    })
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

/// What every guest is made of.
#[derive(Debug)]
pub(super) struct Ground {
    /// Where our files go.
    pub(super) folder: PathBuf,
    /// The unpacked package of the kernel.
    pub(super) kernel: PathBuf,
    /// That of busybox.
    pub(super) busybox: PathBuf,
    /// Our own programs.
    pub(super) programs: Programs,
}

/// A guest of the stock kernel: what makes it differ from another.
#[derive(Debug)]
pub(super) struct Kind<'a> {
    /// Its name, for its files.
    pub(super) name: &'a str,
    /// Programs of this machine that go into it, with their libraries.
    pub(super) programs: &'a [&'a Path],
    /// Modules to load, with all that they need.
    pub(super) modules: &'a [&'a str],
    /// What it runs by itself.
    pub(super) commands: &'a [GuestCommand],
    /// More of the kernel's parameters.
    pub(super) parameters: &'a str,
    /// Wall-clock seconds until it is ended.
    pub(super) limit_s: u32,
}

/// Writes a guest's files, and says what to boot.
pub(super) fn guest(ground: &Ground, kind: &Kind<'_>) -> Result<Guest, Stop> {
    let Ground { folder, kernel, busybox, programs } = ground;
    let read = |path: &Path| {
        fs::read(path).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))
    };
    let image = only_file(&kernel.join("boot"), "vmlinuz-")?;
    let modules = Modules::below(&kernel.join("lib/modules"))
        .with_needs(kind.modules)
        .map_err(|error| Stop::Failed(error.to_string()))?;
    let mut files = Vec::new();
    let paths: BTreeSet<PathBuf> =
        kind.programs.iter().flat_map(|program| with_libraries(program)).collect();
    for path in paths {
        let bytes = read(&path)?;
        files.push((path, bytes));
    }
    let archive = initramfs::build(&initramfs::Contents {
        programs: &[
            ("busybox", read(&busybox.join("bin/busybox"))?),
            ("parachron", read(&programs.parachron)?),
            ("guest-clock", read(&programs.guest_clock)?),
        ],
        files: &files,
        modules: &modules,
        commands: kind.commands,
    });
    let initramfs = folder.join(format!("{}.cpio", kind.name));
    fs::write(&initramfs, archive)
        .map_err(|error| Stop::Failed(format!("{}: {error}", initramfs.display())))?;
    let parameters = format!("{} {}", parameters(&programs.parachron)?, kind.parameters);
    Ok(Guest {
        kernel: image,
        linux: Some((initramfs, parameters.trim().to_owned())),
        serial_ports: vec![folder.join("console"), folder.join("records")],
        more: Vec::new(),
        limit_s: kind.limit_s,
    })
}

/// A program of this machine and the libraries it is linked to.
fn with_libraries(program: &Path) -> Vec<PathBuf> {
    let said = Command::new("ldd").arg(program).output().map(|output| output.stdout);
    let said = said.unwrap_or_default();
    let libraries = String::from_utf8_lossy(&said);
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    [program.to_owned()].into_iter().chain(libraries.lines().filter_map(path)).collect()
}

/// Where a program of this machine is.
pub(super) fn found(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    folders.map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.is_file())
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
    match Outcome::of(Command::new(program).args(["lab", "guest-image", "--force"]).arg(&file)) {
        Outcome::Failed(said) => Err(Stop::Failed(said)),
        _ => Ok(file),
    }
}
