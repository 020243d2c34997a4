//! The life of the RPM packages in a root that has a shell and nothing else: installed,
//! upgraded, erased, by rpm. A Fedora is not there: what its systemd makes of the calls is not
//! seen, only that they come, and that nothing fails where there is no systemd.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::below;
use crate::release::checked::missing;
use crate::release::{Made, PROGRAMS, Release, output, rpm};

/// The configuration, as an administrator knows it, and what rpm writes beside it.
const CONFIGURATION: &str = "etc/parachron/parachrond.toml";
const OF_A_LATER: &str = "etc/parachron/parachrond.toml.rpmnew";
const SAVED: &str = "etc/parachron/parachrond.toml.rpmsave";

/// An administrator's line, and that of a later version's default.
const OURS: &str = "ntp = [\"192.0.2.1\"]\n";
const THEIRS: &str = "# A later default.\n";

const LATER: &str = "99";

/// What scripts call of systemd, in the order of their calls.
const INSTALLED: &str = "systemd-sysusers parachron.conf\nudevadm control --reload\n\
    udevadm trigger --subsystem-match=ptp --subsystem-match=misc --subsystem-match=virtio-ports\n\
    systemctl daemon-reload\n";
const RESTARTED: &str = "systemctl daemon-reload\n\
    systemctl try-restart parachrond.service parachrond-chrony.service\n";
const ERASED: &str = "systemctl --no-reload disable --now parachrond.service \
    parachrond-chrony.service\nsystemctl daemon-reload\n";

pub(super) fn of_rpm(release: &Release<'_>, made: &Made) -> io::Result<String> {
    let busybox = Path::new("/bin/busybox");
    if let Some(skipped) = missing("rpm", "rpm") {
        return Ok(skipped);
    }
    if !busybox.exists() {
        return Ok("skipped: no busybox\n  try: apt-get install busybox-static\n".to_owned());
    }
    let root = Root { folder: release.work.join("rpm-root") };
    root.make(busybox)?;
    let before = root.files()?;
    let now = files_of(release, made);
    root.rpm("-i", &now)?;
    root.is_as_packed(made, &before)?;
    root.rpm("-e", PROGRAMS.map(PathBuf::from).as_slice())?;
    must("erased, this is left", &root.files()?, &before)?;

    root.record_calls()?;
    let before = root.files()?;
    root.rpm("-i", &now)?;
    must("calls at the installation", &root.calls()?, &INSTALLED.to_owned())?;
    let configured = root.text(CONFIGURATION)? + OURS;
    fs::write(root.folder.join(CONFIGURATION), &configured)?;
    root.rpm("-U", &later(release, made)?)?;
    must("calls at the upgrade", &root.calls()?, &format!("{INSTALLED}{RESTARTED}"))?;
    must("the upgraded configuration", &root.text(CONFIGURATION)?, &configured)?;
    let default = root.text(OF_A_LATER)?;
    must("the later default", &default.ends_with(THEIRS), &true)?;
    let versions = root.rpm("-q", PROGRAMS.map(PathBuf::from).as_slice())?;
    let named = PROGRAMS.map(|name| versions.contains(&format!("{name}-{LATER}-")));
    must("versions after the upgrade", &named, &[true, true])?;
    root.rpm("-e", PROGRAMS.map(PathBuf::from).as_slice())?;
    must("calls at the end", &root.calls()?, &ERASED.to_owned())?;
    must("the saved configuration", &root.text(SAVED)?, &configured)?;
    let mut left = root.files()?;
    left.retain(|path| !before.contains(path));
    let kept = ["etc/parachron", OF_A_LATER, SAVED].map(PathBuf::from);
    must("erased, this is left of what was configured", &left, &kept.to_vec())?;
    Ok("rpm: installed, upgraded and erased; the configuration is kept, nothing else\n".to_owned())
}

/// The packages as they go out.
fn files_of(release: &Release<'_>, made: &Made) -> Vec<PathBuf> {
    let file = |name: &str| format!("{name}-{}-1.{}.rpm", release.version, made.arch.rpm);
    PROGRAMS.iter().map(|name| release.out.join(file(name))).collect()
}

/// A later version of each, with another default.
fn later(release: &Release<'_>, made: &Made) -> io::Result<Vec<PathBuf>> {
    let work = release.work.join("later");
    let out = work.join("out");
    fs::create_dir_all(&out)?;
    let (version, epoch) = (LATER.to_owned(), release.epoch.clone());
    let later = Release { project: release.project, version, epoch, out, work };
    for package in &made.packages {
        let mut package = package.clone();
        for file in package.files.iter_mut().filter(|file| file.path == CONFIGURATION) {
            file.bytes.extend_from_slice(THEIRS.as_bytes());
        }
        rpm::build(&later, &made.arch, &package)?;
    }
    Ok(files_of(&later, made))
}

/// An error that names what is, and what must be.
fn must<T: std::fmt::Debug + PartialEq>(what: &str, is: &T, expected: &T) -> io::Result<()> {
    if is == expected {
        return Ok(());
    }
    Err(io::Error::other(format!("rpm: {what}: {is:?}, not {expected:?}")))
}

/// Where rpm installs.
struct Root {
    folder: PathBuf,
}

impl Root {
    fn make(&self, busybox: &Path) -> io::Result<()> {
        for folder in rpm::OTHERS_FOLDERS.iter().chain(&["bin", "run", "var/lib"]) {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        fs::copy(busybox, self.folder.join("bin/sh"))?;
        Ok(())
    }

    /// What it says; a script that failed is an error, which rpm takes for a warning.
    fn rpm(&self, how: &str, what: &[PathBuf]) -> io::Result<String> {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&self.folder).args(["--dbpath", "/var/lib/rpm", how]);
        // systemd is not in the root; a question takes no such option.
        rpm.args((how != "-q").then_some("--nodeps"));
        let output = rpm.arg("--").args(what).env("LC_ALL", "C").output()?;
        let [said, errors] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        if !output.status.success() || errors.contains("scriptlet failed") {
            return Err(io::Error::other(format!("rpm {how}: {said}{errors}")));
        }
        Ok(said.into_owned())
    }

    /// All but rpm's own.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let is_rpms = |path: &Path| path.starts_with("var/lib/rpm") || path.starts_with("var/tmp");
        below(&self.folder, &is_rpms)
    }

    fn text(&self, path: &str) -> io::Result<String> {
        let named = |error: io::Error| io::Error::other(format!("rpm: /{path}: {error}"));
        fs::read_to_string(self.folder.join(path)).map_err(named)
    }

    /// The files are those of the packages, by rpm's own sums and by their modes, and the
    /// programs run where there is no library, no /proc and no /sys.
    fn is_as_packed(&self, made: &Made, before: &[PathBuf]) -> io::Result<()> {
        let verified = self.rpm("-V", PROGRAMS.map(PathBuf::from).as_slice())?;
        must("what rpm finds changed", &verified, &String::new())?;
        let packed = made.packages.iter().flat_map(rpm::files);
        let mut packed: Vec<_> =
            packed.map(|file| (PathBuf::from(file.path), file.mode, 0)).collect();
        packed.sort();
        let mut installed = Vec::new();
        for path in self.files()?.into_iter().filter(|path| !before.contains(path)) {
            let file = fs::metadata(self.folder.join(&path))?;
            if file.is_file() {
                installed.push((path, file.permissions().mode() & 0o7777, file.uid() + file.gid()));
            }
        }
        must("files, modes, owners", &installed, &packed)?;
        for command in [&["parachron", "doctor"], &["parachrond", "--version"]] {
            let said = output(Command::new("chroot").arg(&self.folder).args(command))?;
            must(&format!("{command:?} is silent"), &said.is_empty(), &false)?;
        }
        Ok(())
    }

    /// From here on there seems to be a systemd, which writes down what is asked of it.
    fn record_calls(&self) -> io::Result<()> {
        for folder in ["run/systemd/system", "run/udev"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        for name in ["systemctl", "systemd-sysusers", "udevadm"] {
            let path = self.folder.join("usr/bin").join(name);
            fs::write(&path, "#!/bin/sh\necho \"${0##*/} $*\" >>/run/calls\n")?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        fs::write(self.folder.join("run/calls"), "")
    }

    /// What was asked since the last call of this.
    fn calls(&self) -> io::Result<String> {
        let calls = self.text("run/calls")?;
        fs::write(self.folder.join("run/calls"), "")?;
        Ok(calls)
    }
}
