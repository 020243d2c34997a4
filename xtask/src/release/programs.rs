//! The programs: static, and without this machine's paths.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Arch, PROGRAMS, output};
use crate::project::Project;

/// A program that is larger does not go out.
const LARGEST: u64 = 10_000_000;

/// What relocates a static program is its musl, which has read packed addresses since
/// 1.2.4; Rust brings a newer one since this version. Built by an older Rust, a program
/// would crash before `main`.
const OLDEST_RUST: (u32, u32) = (1, 93);

/// ELF's name of a program header that names a dynamic linker (elf(5)).
const PT_INTERP: u32 = 3;

/// Builds the programs of a processor. Addresses to relocate take a bit each, and functions
/// of the same code are one: nothing compares their addresses.
pub(super) fn build(project: &Project, arch: &Arch) -> io::Result<PathBuf> {
    let rust = output(Command::new("rustc").arg("--version").current_dir(project.root()))?;
    if version(&rust).is_none_or(|version| version < OLDEST_RUST) {
        let (major, minor) = OLDEST_RUST;
        let why = format!("the programs take Rust {major}.{minor}, for its musl; here is {rust}");
        return Err(io::Error::other(why.trim_end().to_owned() + "\n  try: rustup update"));
    }
    let target = project.target_folder();
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    // Of two that fit, the later counts: the target folder may be below the root.
    let paths = [
        (Path::new(sysroot.trim()), "rust"),
        (&project.cargo_home(), "cargo"),
        (project.root(), "parachron"),
        (&target, "parachron/target"),
    ];
    let remap =
        |(path, name): &(&Path, &str)| format!("--remap-path-prefix={}=/{name}", path.display());
    let mut flags: Vec<String> = paths.iter().map(remap).collect();
    flags.extend(["-Clink-arg=--pack-dyn-relocs=relr", "-Clink-arg=--icf=all"].map(str::to_owned));
    // Rust brings its own linker for musl.
    let linker = format!("CARGO_TARGET_{}_LINKER", arch.target.to_uppercase().replace('-', "_"));
    // ring's C, which calls no library, by the compiler of the same processor's glibc.
    let compiler = format!("CC_{}", arch.target.replace('-', "_"));
    let gcc = format!("{}-gcc", arch.target.replace("unknown-linux-musl", "linux-gnu"));
    let mut cargo = project.cargo();
    cargo.env(&compiler, std::env::var_os(&compiler).unwrap_or_else(|| gcc.into()));
    cargo.args(["build", "--locked", "--quiet", "--profile", "dist", "--target", arch.target]);
    cargo.args(["--package", "parachron", "--package", "parachrond"]);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.env(linker, "rust-lld").env("CARGO_INCREMENTAL", "0");
    output(&mut cargo)?;
    Ok(target.join(arch.target).join("dist"))
}

/// Puts those of a folder into the release, if they may go out.
pub(super) fn publish(version: &str, arch: &Arch, from: &Path, out: &Path) -> io::Result<()> {
    for name in PROGRAMS {
        let bytes = fs::read(from.join(name))?;
        let refuse = |why: &str| Err(io::Error::other(format!("{name} for {} {why}", arch.debian)));
        if bytes.len() as u64 > LARGEST {
            return refuse(&format!("has {} bytes of {LARGEST}", bytes.len()));
        }
        if is_dynamic(&bytes) {
            return refuse("is not static: it names a dynamic linker");
        }
        fs::copy(from.join(name), out.join(format!("{name}-{version}-{}", arch.target)))?;
    }
    Ok(())
}

/// Of `rustc 1.95.0 (59807616e 2026-04-14)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split_whitespace().nth(1)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether a program of 64 bits, little endian, needs libraries of the machine it runs on,
/// and so a glibc as new as the builder's.
fn is_dynamic(elf: &[u8]) -> bool {
    let short = |at: usize| elf.get(at..at + 2).map_or(0, |it| u16::from_le_bytes([it[0], it[1]]));
    let offset = elf.get(32..36).map_or(0, |it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
    let (size, count) = (usize::from(short(54)), usize::from(short(56)));
    let header = |index: usize| offset as usize + index * size;
    let is_interpreter = |at: usize| elf.get(at..at + 4) == Some(&PT_INTERP.to_le_bytes()[..]);
    (0..count).map(header).any(is_interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rust_are_compared_by_number() {
        assert_eq!(version("rustc 1.95.0 (59807616e 2026-04-14)\n"), Some((1, 95)));
        assert!(version("rustc 1.9.0").unwrap() < OLDEST_RUST);
        assert_eq!(version("rustc nightly"), None);
    }

    #[test]
    fn a_program_with_a_dynamic_linker_is_found() {
        let mut elf = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(is_dynamic(&elf));
        // No program headers.
        elf[56..58].fill(0);
        assert!(!is_dynamic(&elf) && !is_dynamic(b"\x7fELF"));
    }
}
