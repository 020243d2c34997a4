//! What guests are built from: kernel, initramfs, our programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::commands::Command as GuestCommand;
use crate::modules::Modules;
use crate::outcome::Failure;
use crate::qemu::Guest;
use crate::{initramfs, tools};

/// Our programs are static, as the guest has no libraries of its own.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The profile of Cargo.toml that they are built with.
const PROFILE: &str = "emulated";

/// The kernel's parameters: a readable console, no reboot, and a trusted TSC.
/// QEMU's emulation cannot offer an invariant TSC, without which Linux takes an
/// AMD machine's TSCs for unsynchronized and offers none (arch/x86/kernel/tsc.c,
/// unsynchronized_tsc); here all of them are the host's TSC.
const PARAMETERS: &str = "console=ttyS0 panic=-1 tsc=reliable";

/// Measures the frequency of this machine's TSC.
const TSC_FREQUENCY: [&str; 7] =
    ["bench", "--only", "rdtsc", "--duration", "200ms", "--format", "json"];

/// Where the guest finds dynamic programs of this machine.
const GUEST_PROGRAMS: &str = "/usr/sbin";

/// What every guest is built from.
#[derive(Debug)]
pub(crate) struct Artifacts {
    /// For files made here.
    pub(crate) folder: PathBuf,
    /// The unpacked package of the kernel.
    pub(crate) kernel: PathBuf,
    /// The unpacked package of busybox.
    pub(crate) busybox: PathBuf,
    /// The folder of this workspace's static programs: `parachron`,
    /// `guest-clock` (`zoo/src/bin`) and `ntp-server` (`e2e/src/bin`).
    pub(crate) programs: PathBuf,
}

/// Builds our programs; the folder that they are in.
pub(crate) fn programs() -> Result<PathBuf, Failure> {
    let built = tools::cargo()
        .args(["build", "--quiet", "--profile", PROFILE, "--target", TARGET])
        .args(["--package", "parachron", "--package", "zoo", "--package", "e2e"])
        .args(["--bin", "parachron", "--bin", "guest-clock", "--bin", "ntp-server"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .output()
        .map_err(|error| Failure::Failed(format!("cannot run cargo: {error}")))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned().into());
    }
    Ok(tools::target_folder().join(TARGET).join(PROFILE))
}

/// What makes one guest of the stock kernel differ from another.
#[derive(Debug)]
pub(crate) struct GuestSpec<'a> {
    /// The name of its files.
    pub(crate) name: &'a str,
    /// Dynamic programs of this machine to add, with their libraries.
    pub(crate) programs: &'a [PathBuf],
    /// Modules to load, with their dependencies.
    pub(crate) modules: &'a [&'a str],
    /// Commands that it runs after booting.
    pub(crate) commands: &'a [GuestCommand],
    /// Further kernel parameters.
    pub(crate) parameters: &'a str,
    /// Its time limit by the wall clock, s.
    pub(crate) limit_s: u32,
}

impl Artifacts {
    /// Writes a guest's files, and returns what to boot.
    pub(crate) fn guest(&self, spec: &GuestSpec<'_>) -> Result<Guest, Failure> {
        let image = only_file(&self.kernel.join("boot"), "vmlinuz-")?;
        let modules = Modules::below(&self.kernel.join("lib/modules"))
            .with_dependencies(spec.modules)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        let files: BTreeMap<PathBuf, PathBuf> =
            spec.programs.iter().flat_map(|program| with_libraries(program)).collect();
        let files = files.into_iter().map(|(to, from)| Ok((to, read(&from)?)));
        let programs = ["parachron", "guest-clock"].map(|name| (name, self.programs.join(name)));
        let busybox = [("busybox", self.busybox.join("bin/busybox"))];
        let programs = busybox.into_iter().chain(programs);
        let programs = programs.map(|(name, path)| Ok((name, read(&path)?)));
        let archive = initramfs::build(
            &programs.collect::<Result<Vec<_>, Failure>>()?,
            &files.collect::<Result<Vec<_>, Failure>>()?,
            &modules,
            spec.commands,
        );
        let initramfs = self.folder.join(format!("{}.cpio", spec.name));
        archive
            .and_then(|archive| fs::write(&initramfs, archive))
            .map_err(|error| cannot(&initramfs, &error))?;
        let parameters =
            format!("{} {}", parameters(&self.programs.join("parachron"))?, spec.parameters);
        Ok(Guest {
            kernel: image,
            linux: Some((initramfs, parameters.trim().to_owned())),
            serial_ports: vec![self.folder.join("console"), self.folder.join("records")],
            more: Vec::new(),
            limit_s: spec.limit_s,
        })
    }

    /// The lab's guest image, written by the program that contains it.
    pub(crate) fn image(&self) -> Result<PathBuf, Failure> {
        let file = self.folder.join("guest-image");
        let mut write = Command::new(self.programs.join("parachron"));
        tools::output_of(write.args(["lab", "guest-image", "--force"]).arg(&file))?;
        Ok(file)
    }
}

/// The kernel's command line with the TSC's frequency: a guest that measured it
/// while this machine was busy got a value 8 times too low.
fn parameters(program: &Path) -> Result<String, Failure> {
    let output = tools::output_of(Command::new(program).args(TSC_FREQUENCY));
    let report: Value = serde_json::from_str(&output.unwrap_or_default()).unwrap_or_default();
    let hz = report.pointer("/runs/0/tsc_rate/hz").and_then(Value::as_f64).ok_or_else(|| {
        Failure::Failed(format!(
            "this machine's TSC frequency was not measured: run parachron {}",
            TSC_FREQUENCY.join(" ")
        ))
    })?;
    Ok(format!("{PARAMETERS} tsc_early_khz={:.0}", hz / 1000.0))
}

/// A dynamic program of this machine and its libraries: the path in the guest,
/// and the file here.
fn with_libraries(program: &Path) -> Vec<(PathBuf, PathBuf)> {
    let in_guest = Path::new(GUEST_PROGRAMS).join(program.file_name().unwrap_or_default());
    let libraries = tools::output_of(Command::new("ldd").arg(program)).unwrap_or_default();
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    let libraries = libraries.lines().filter_map(path).map(|path| (path.clone(), path));
    [(in_guest, program.to_owned())].into_iter().chain(libraries).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

/// The file of a folder whose name begins with `beginning`.
fn only_file(folder: &Path, beginning: &str) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = entries.filter(|e| e.file_name().to_string_lossy().starts_with(beginning));
    found
        .next()
        .map(|entry| entry.path())
        .ok_or_else(|| Failure::Failed(format!("no {beginning}* in {}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_guests_path_and_its_libraries_keep_theirs() {
        let files = with_libraries(Path::new("/bin/sh"));
        assert_eq!(files[0], ("/usr/sbin/sh".into(), "/bin/sh".into()));
        assert!(files.len() > 1, "{files:?}");
        assert!(files[1..].iter().all(|(to, from)| to == from), "{files:?}");
    }
}
