//! User-mode Linux: a kernel that is a process of this machine. It needs no
//! emulation, no root and no disk, and boots in a second.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Workshop, emulated};
use crate::machine::Start;
use crate::outcome::Failure;
use crate::table::Row;
use crate::trees::Kernel;

/// The package of the kernel, and the program in it.
const PACKAGE: &str = "user-mode-linux";
const PROGRAM: &str = "usr/bin/linux.uml";

/// The dynamic linker as the program names it, and as it is renamed.
const LINKER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
const LINKER_HERE: &str = "./ld-linux-x86-64.so.2";

/// The libraries it needs, of the package libc6, which it depends on.
const LIBRARIES: [&str; 2] = ["ld-linux-x86-64.so.2", "libc.so.6"];
const FOLDERS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// Its console is the standard input and output, and no other is opened.
const PARAMETERS: &str = "con=null con0=fd:0,fd:1 quiet panic=-1";

pub(super) fn prepare(workshop: &Workshop, row: &Row, folder: &Path) -> Result<Start, Failure> {
    let suite = workshop.suite_of_kernel(&row.kernel)?;
    let tree = workshop.unpacked(suite, &format!("uml-{}", row.kernel), &[PACKAGE])?;
    let here = folder.display();
    let program = fs::read(tree.join(PROGRAM)).map_err(|error| error.to_string())?;
    let copy = folder.join("linux.uml");
    write_program(&copy, &with_linker_here(program)?)?;
    for library in LIBRARIES {
        let from = FOLDERS.map(|folder| tree.join(folder).join(library));
        let from = from.iter().find(|path| path.is_file());
        let from = from.ok_or_else(|| format!("no {library} in {}", tree.display()))?;
        fs::copy(from, folder.join(library)).map_err(|error| error.to_string())?;
    }
    let kernel = Kernel { image: copy, modules: PathBuf::new() };
    let initrd = emulated::initrd(workshop, &kernel, &[], row, folder)?;
    let fixed =
        format!("-C {here} LD_LIBRARY_PATH=. TMPDIR=/tmp ./linux.uml initrd={}", initrd.display());
    let words = [fixed.as_str(), PARAMETERS, emulated::DISPOSABLE, &row.options, &row.append];
    let arguments = words.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned);
    Ok(Start {
        // The libraries are for the kernel alone.
        program: "/usr/bin/env".into(),
        arguments: arguments.collect(),
        environment: row.environment.clone().into_iter().collect(),
        qmp: None,
        limit_s: row.limit_s,
    })
}

fn write_program(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = fs::write(path, bytes)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The program, to be started by a linker of the current folder: a newer one
/// than this system's may be needed, and UML takes its own place in memory
/// from where its linker put it, so that the linker cannot be called by hand.
fn with_linker_here(mut program: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let at = program.windows(LINKER.len()).position(|window| window == LINKER);
    let at = at.ok_or_else(|| format!("{PROGRAM} does not name its dynamic linker"))?;
    let name = &mut program[at..at + LINKER.len()];
    name.fill(0);
    name[..LINKER_HERE.len()].copy_from_slice(LINKER_HERE.as_bytes());
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_of_the_folder_is_named_in_place() {
        let program = [b"\x7fELF", LINKER, b"rest"].concat();
        let length = program.len();
        let changed = with_linker_here(program).unwrap();
        assert_eq!(changed.len(), length);
        let expected = b"\x7fELF./ld-linux-x86-64.so.2\0\0\0\0\0\0rest";
        assert_eq!(changed, expected);
        assert!(with_linker_here(b"\x7fELF static".to_vec()).is_err());
    }
}
