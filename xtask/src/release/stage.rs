//! The files of each package, as they are on a machine.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::inside::Inside;
use super::{Release, output, text};

/// A package.
#[derive(Clone)]
pub(super) struct Package {
    pub(super) name: &'static str,
    /// One line, then the rest.
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) files: Vec<File>,
}

/// A file of a package.
#[derive(Clone)]
pub(super) struct File {
    /// Its path, without the leading slash.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl File {
    fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), mode: 0o644 }
    }

    /// Whether an administrator's changes to it are kept.
    pub(super) fn is_configuration(&self) -> bool {
        self.path.starts_with("etc/")
    }
}

/// Both packages: the tools, and the daemon.
pub(super) fn packages(
    release: &Release<'_>,
    programs: &Path,
    host: &Path,
    inside: &[Inside; 2],
) -> io::Result<[Package; 2]> {
    let pages = release.work.join("man");
    output(Command::new(host).arg("man").arg(&pages))?;
    let mut tools = vec![program(programs, "parachron")?];
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/parachron"),
        ("zsh", "usr/share/zsh/vendor-completions/_parachron"),
        ("fish", "usr/share/fish/vendor_completions.d/parachron.fish"),
    ] {
        tools.push(File::new(path, output(Command::new(host).args(["completions", shell]))?));
    }
    let mut daemon = vec![program(programs, "parachrond")?];
    for entry in fs::read_dir(&pages)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_daemon = name.ends_with(".8");
        let to = format!("usr/share/man/man{}/{name}.gz", if is_daemon { 8 } else { 1 });
        let page = File::new(to, zipped(release, &fs::read(&path)?)?);
        if is_daemon { daemon.push(page) } else { tools.push(page) }
    }
    for (from, to) in [
        ("parachrond.toml", "etc/parachron/parachrond.toml"),
        ("usr.bin.parachrond", "etc/apparmor.d/usr.bin.parachrond"),
        ("parachrond.service", "usr/lib/systemd/system/parachrond.service"),
        ("parachrond-chrony.service", "usr/lib/systemd/system/parachrond-chrony.service"),
        ("parachron.sysusers", "usr/lib/sysusers.d/parachron.conf"),
        ("90-parachron.rules", "usr/lib/udev/rules.d/90-parachron.rules"),
    ] {
        daemon.push(File::new(to, text(release, Path::new("packaging").join(from))?));
    }
    let generator = text(release, Path::new("packaging/parachrond-generator"))?;
    let to = "usr/lib/systemd/system-generators/parachrond";
    daemon.push(File { mode: 0o755, ..File::new(to, generator) });
    let mut packages = [
        Package {
            name: "parachron",
            summary: "Diagnose and measure the clocks of virtual machines",
            description: "Finds out what is wrong with the clocks of a Linux machine, mostly\n\
                          a virtual one, what reading them costs, and what to change;\n\
                          watches them through pauses, restores and migrations, and\n\
                          compares them with references.",
            files: tools,
        },
        Package {
            name: "parachrond",
            summary: "Keep the time of day of virtual machines right",
            description: "A daemon that keeps the time of day correct across pauses,\n\
                          restores, migrations and suspends, by NTP servers and the host's\n\
                          clock, by itself or beside chronyd. It is neither enabled nor\n\
                          started by its installation.",
            files: daemon,
        },
    ];
    for (package, inside) in packages.iter_mut().zip(inside) {
        let folder = format!("usr/share/doc/{}", package.name);
        for (name, text) in [("licences.txt", &inside.licences), ("sbom.cdx.json", &inside.sbom)] {
            let file = File::new(format!("{folder}/{name}.gz"), zipped(release, text.as_bytes())?);
            package.files.push(file);
        }
        package.files.sort_by(|a, b| a.path.cmp(&b.path));
    }
    Ok(packages)
}

fn program(folder: &Path, name: &str) -> io::Result<File> {
    Ok(File { mode: 0o755, ..File::new(format!("usr/bin/{name}"), fs::read(folder.join(name))?) })
}

/// Packed by gzip, without name and time.
pub(super) fn zipped(release: &Release<'_>, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let file = release.work.join("zipped");
    fs::write(&file, bytes)?;
    let packed = Command::new("gzip").args(["-9", "-n", "-c"]).arg(&file).output()?;
    Ok(packed.stdout)
}

/// Writes files below a folder that is made anew.
pub(super) fn write<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = &'a File>,
) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for file in files {
        let path = folder.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    Ok(())
}
