//! A kernel that panics, one that says nothing, and a hypervisor that ends without a word,
//! through a whole row: it fails at once, or when its time to boot is over, and what its console
//! said is shown and kept.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A row of QEMU's emulation whose kernel needs no module.
const ROW: &str = "pc-6.1";

/// Far below the 150 s that a machine may take to boot.
const AT_ONCE: Duration = Duration::from_secs(60);
const BOOT_S: u64 = 150;

/// For a kernel that says nothing.
const SOON_S: u64 = 2;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A cache with a kernel of no content, and programs of none; a script for QEMU.
fn prepare(folder: &Path, qemu: &str) {
    for program in ["parachron", "parachrond", "guest-clock"] {
        write(&folder.join(program), "#!/bin/sh\n");
    }
    let version = "[ \"$1\" = --version ] && echo 'QEMU emulator version 0' && exit";
    write(&folder.join("qemu-system-x86_64"), &format!("#!/bin/sh\n{version}\n{qemu}\n"));
    let trees = folder.join("cache/trees");
    write(&trees.join("busybox/bin/busybox"), "");
    let kernel = trees.join("linux-6.1");
    write(&kernel.join("boot/vmlinuz-6.1.0-test"), "");
    fs::create_dir_all(kernel.join("lib/modules/6.1.0-test/kernel")).unwrap();
}

/// Greets as QEMU's protocol does, once the row's machine is started.
fn greet(row: &Path) {
    let start = Instant::now();
    while !row.join("errors").exists() {
        assert!(start.elapsed() < AT_ONCE, "no machine was started");
        thread::sleep(Duration::from_millis(10));
    }
    let (mut stream, _) = UnixListener::bind(row.join("qmp")).unwrap().accept().unwrap();
    stream.write_all(b"{\"QMP\": {}}\n").unwrap();
    let requests = BufReader::new(stream.try_clone().unwrap()).lines();
    for _ in requests.map_while(Result::ok) {
        let _ = stream.write_all(b"{\"return\": {}}\n");
    }
}

/// What a run of the row prints, its exit code, and its serial log.
fn run(qemu: &str, boot_s: u64) -> (String, Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder, qemu);
    let row = folder.join("machines").join(ROW);
    let mut machines = Command::new(env!("CARGO_BIN_EXE_machines"));
    machines
        .args(["--only", ROW, "--boot", &boot_s.to_string(), "--programs"])
        .arg(folder)
        .arg("--cache")
        .arg(folder.join("cache"));
    machines.env("PATH", folder).env("CARGO_TARGET_DIR", folder);
    let start = Instant::now();
    let output = thread::scope(|scope| {
        scope.spawn(|| greet(&row));
        machines.output().unwrap()
    });
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    let log = fs::read_to_string(row.join("serial.log")).unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code(), log)
}

#[test]
fn a_kernel_that_panics_fails_its_row_at_once_and_is_shown() {
    let panic = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)";
    let (printed, code, log) =
        run(&format!("echo '[    1.0] {panic}'; exec /bin/sleep 1000"), BOOT_S);
    assert!(printed.contains(&format!("{ROW} ")) && printed.contains("FAILED"), "{printed}");
    assert!(printed.contains("the kernel panicked (all of its console: "), "{printed}");
    assert!(printed.contains(panic) && log.contains(panic), "{printed}\n{log}");
    assert!(printed.ends_with("machines: 0 passed, 1 failed, 0 skipped\n"), "{printed}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_hypervisor_that_ends_without_a_word_fails_its_row() {
    let said = "Could not allocate memory";
    // It has greeted: its errors are shown, as nothing is on the console.
    let (printed, code, log) = run(&format!("/bin/sleep 1; echo '{said}' >&2; exit 1"), BOOT_S);
    assert!(printed.contains("FAILED") && printed.contains(said), "{printed}");
    assert!(printed.ends_with("machines: 0 passed, 1 failed, 0 skipped\n"), "{printed}");
    assert_eq!((code, log.as_str()), (Some(1), ""));
}

#[test]
fn a_kernel_that_says_nothing_fails_its_row_when_its_time_to_boot_is_over() {
    let start = Instant::now();
    let (printed, code, log) = run("exec /bin/sleep 1000", SOON_S);
    assert!(start.elapsed() >= Duration::from_secs(SOON_S), "{:?}", start.elapsed());
    assert!(printed.contains("FAILED"), "{printed}");
    assert!(
        printed.contains(&format!("no ready within {SOON_S} s (all of its console: ")),
        "{printed}"
    );
    assert!(printed.ends_with("machines: 0 passed, 1 failed, 0 skipped\n"), "{printed}");
    assert_eq!((code, log.as_str()), (Some(1), ""));
}
