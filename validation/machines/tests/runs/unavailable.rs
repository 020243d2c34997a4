//! A machine that lacks what a row needs: the row is skipped with the reason and a
//! remedy, and counted; it does not fail.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of a test's own, with a program `parachron` that does nothing.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("machines-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("cache")).unwrap();
    program(&folder, "parachron", "");
    folder
}

/// A script there.
fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

const ZOO: &str = env!("CARGO_BIN_EXE_machines");

/// A row by `machines`, on a machine without any program in PATH: it is skipped for this
/// reason, with this remedy.
fn is_skipped(mut machines: Command, folder: &Path, row: &str, why: &str, remedy: &str) {
    machines.args(["--require", "--only", row, "--programs"]).arg(folder).arg("--cache");
    machines.arg(folder.join("cache")).env("PATH", folder).env("CARGO_TARGET_DIR", folder);
    let output = machines.output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let line = printed.lines().find(|line| line.starts_with("machines: SKIPPED: "));
    let line = line.unwrap_or_else(|| panic!("nothing skipped: {printed}"));
    assert!(line.starts_with(&format!("machines: SKIPPED: {row}: {why}")), "{line}");
    assert!(line.contains(&format!("; remedy: {remedy}")), "{line}");
    assert!(printed.ends_with("machines: 0 passed, 0 failed, 1 skipped\n"), "{printed}");
    assert_eq!(output.status.code(), Some(2), "where nothing may be skipped");
}

#[test]
fn without_qemu() {
    if Path::new("/usr/sbin/qemu-system-x86_64").exists() {
        return writeln!(
            std::io::stderr(),
            "skipped: this system has QEMU where every PATH is looked through"
        )
        .unwrap();
    }
    let why = "qemu-system-x86_64 is not installed";
    is_skipped(
        Command::new(ZOO),
        &folder("qemu"),
        "lab-image",
        why,
        "install it: apt-get install qemu-system-x86",
    );
}

#[test]
fn without_apt() {
    let remedy = "run it where apt has lists of Debian's archive: apt-get update";
    is_skipped(Command::new(ZOO), &folder("apt"), "pc-6.1", "cannot run apt-get: ", remedy);
}

#[test]
fn without_an_address_of_the_archive() {
    let folder = folder("address");
    program(&folder, "apt-get", "echo main noble file:/ubuntu");
    let why = "apt has no lists of the archive of bookworm";
    is_skipped(Command::new(ZOO), &folder, "pc-6.1", why, "run it where apt has lists");
}

/// The tree of the kernel is half made; then the mirror is gone.
#[test]
fn without_a_mirror_half_way() {
    let folder = folder("mirror");
    let gone = "E: Failed to fetch file:/debian/linux-image-6.1.0-2-amd64.deb";
    program(&folder, "qemu-system-x86_64", "");
    let sources = "echo main bookworm file:/debian; echo main bookworm-security file:/security";
    program(&folder, "apt-get", sources);
    program(&folder, "mmdebstrap", &format!("echo '{gone}' >&2; exit 25"));
    let why = format!("mmdebstrap failed (exit status: 25): {gone}");
    is_skipped(Command::new(ZOO), &folder, "pc-6.1", &why, "install mmdebstrap");
}

/// On a disk of one inode, which is its root.
#[test]
fn without_space() {
    if !rustix::process::geteuid().is_root() {
        return writeln!(std::io::stderr(), "skipped: only root can make a full disk").unwrap();
    }
    let folder = folder("space");
    let cache = folder.join("cache").display().to_string();
    // For this run alone.
    let script = format!("/bin/mount -t tmpfs -o nr_inodes=1 none '{cache}' && exec \"$0\" \"$@\"");
    let mut full = Command::new("/usr/bin/unshare");
    full.args(["--mount", "/bin/sh", "-c", &script, ZOO]);
    let why = format!("cannot prepare {cache}/trees: No space left");
    is_skipped(full, &folder, "pc-6.1", &why, "check its permissions and free space");
}
