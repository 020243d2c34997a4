//! The programs: static, and without this machine's paths.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Arch, PROGRAMS, output};
use crate::project::Project;

/// A program that is larger does not go out. It was 10 MB, until `parachron` had 11.3 with all that
/// was added; with more of it built small (Cargo.toml, `profile.dist`) it has 10.7.
const LARGEST: u64 = 11_000_000;

/// What relocates a static program is its musl, which has read packed addresses since
/// 1.2.4; Rust brings a newer one since this version. Built by an older Rust, a program
/// would crash before `main`.
const OLDEST_RUST: (u32, u32) = (1, 93);

/// ELF's name of a program header that names a dynamic linker (elf(5)).
const PT_INTERP: usize = 3;

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
    cargo.args(["--package", "parachron", "--package", "parachron-daemon"]);
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
        if !is_static(&bytes) {
            return refuse("is no static program: it names a dynamic linker, or was cut short");
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

/// Whether a program needs no library of the machine it runs on, and so no glibc as new as the
/// builder's: of one cut short, nobody knows.
fn is_static(elf: &[u8]) -> bool {
    headers(elf).is_some_and(|kinds| !kinds.is_empty() && !kinds.contains(&PT_INTERP))
}

/// The kinds of the program headers of an ELF of 64 bits, little endian, if those and all that
/// they load are there (elf(5)).
fn headers(elf: &[u8]) -> Option<Vec<usize>> {
    let number = |at: usize, bytes: usize| {
        let bytes = elf.get(at..at.checked_add(bytes)?)?;
        let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let kind = |index: usize| {
        let header = first.checked_add(index * size)?;
        let (loaded, bytes) = (number(header.checked_add(8)?, 8)?, number(header + 32, 8)?);
        elf.get(loaded..loaded.checked_add(bytes)?)?;
        number(header, 4)
    };
    elf.starts_with(b"\x7fELF\x02\x01").then(|| (0..count).map(kind).collect())?
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
    fn a_program_with_a_dynamic_linker_or_cut_short_is_not_static() {
        let mut elf = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&elf));
        let number = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
        let (first, size, count) = (number(32), number(54), number(56));
        for header in (0..count).map(|index| first + index * size) {
            if elf[header..header + 4] == [3, 0, 0, 0] {
                // PT_NULL.
                elf[header] = 0;
            }
        }
        assert!(is_static(&elf));
        for length in [0, 4, 40, 63, first + size * count - 1, 20_000] {
            assert!(!is_static(&elf[..length]), "{length}");
        }
        // No program headers; 32 bits.
        let mut changed = elf.clone();
        changed[56..58].fill(0);
        assert!(!is_static(&changed));
        elf[4] = 1;
        assert!(!is_static(&elf));
    }
}
