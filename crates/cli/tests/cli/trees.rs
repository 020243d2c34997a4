//! `parachron doctor --root` on folders of any kind: a clear message, the
//! rest still reported.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::program::{Program, ProgramOutput, project, shared};

const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

fn diagnosed(program: &Program, root: &Path) -> ProgramOutput {
    let root = root.to_str().expect("UTF-8");
    let said = program.run(&["doctor", "--verbose", "--root", root]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{root}");
    assert!(said.has_verdict(), "{root}: {}", said.out);
    said
}

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("below the root")).expect("our own folder");
    fs::write(path, content).expect("our own file");
}

#[test]
fn every_captured_machine_is_diagnosed() {
    let Some(program) = &shared(&[]) else { return };
    let machines = fs::read_dir(project().join("testdata/machines")).expect("captured machines");
    for machine in machines.flatten().filter(|machine| machine.path().is_dir()) {
        diagnosed(program, &machine.path());
    }
}

#[test]
fn garbage_in_a_tree_is_survived() {
    let Some(program) = &shared(&[]) else { return };
    let place = tempfile::tempdir().expect("a temporary folder");
    let root = place.path();
    put(root, CURRENT, b"");
    put(root, "proc/cpuinfo", b"\xff\xfe\0\x1b[31m: : :\n\n:");
    put(root, "proc/cmdline", "clocksource=\u{1b}]0;x\u{7} tsc=".as_bytes());
    put(root, "proc/uptime", b"-1e999 nan");
    put(root, "proc/stat", b"cpu 18446744073709551616 -1\n");
    put(root, "parachron/adjtimex", b"offset zero\nstatus 0xffffffffffffffffff\n");
    put(root, "parachron/kernel-log", &[0xff; 4096]);
    put(root, "parachron/manifest.json", b"{\"format\": 1, \"taken\": [");
    // A folder where a file should be, and a file larger than any fact.
    fs::create_dir_all(root.join("proc/loadavg")).expect("our own folder");
    put(root, "etc/os-release", &vec![b'x'; 4 << 20]);
    let said = diagnosed(program, root);
    assert!(!said.out.contains('\u{1b}'), "a tree must not move the terminal's cursor");

    put(root, CURRENT, b"tsc\n");
    put(root, "parachron/manifest.json", b"{\"format\": 4000000000}");
    let said = program.run(&["doctor", "--root", root.to_str().expect("UTF-8")]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("4000000000"), "{}", said.err);
}

#[test]
fn links_do_not_lead_out_of_a_tree() {
    let Some(program) = &shared(&[]) else { return };
    let place = tempfile::tempdir().expect("a temporary folder");
    let root = place.path().join("tree");
    put(place.path(), "secret", b"sundial\n");
    put(&root, "proc/uptime", b"1.0 1.0\n");
    let current = root.join(CURRENT);
    fs::create_dir_all(current.parent().expect("below the root")).expect("our own folder");
    symlink(place.path().join("secret"), &current).expect("our own link");
    let said = diagnosed(program, &root);
    assert!(!said.out.contains("sundial"), "{}", said.out);
}

#[test]
fn forbidden_files_are_told() {
    let Some(program) = &shared(&[]) else { return };
    let place = tempfile::tempdir().expect("a temporary folder");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    put(place.path(), CURRENT, b"tsc\n");
    mode(place.path(), 0o755).expect("our own folder");
    mode(&place.path().join(CURRENT), 0o000).expect("our own file");
    let root = place.path().to_str().expect("UTF-8");
    let said = program.run_unprivileged(&["doctor", "--verbose", "--root", root]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.contains("Permission denied"), "{}", said.out);
}
