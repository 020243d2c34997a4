use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::FileType;

use super::*;

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::captured(folder.path()).unwrap();
    (folder, tree)
}

fn not_there<T>(what: &str) -> Fact<T> {
    Fact::Unknown(Unknown::not_there(what))
}

#[test]
fn a_hand_made_tree_needs_no_manifest() {
    let (_folder, tree) = tree(&[("proc/cmdline", "quiet\n"), ("parachron/adjtimex", "tai 37\n")]);
    assert_eq!(tree.text("/proc/cmdline"), Fact::Known("quiet\n".into()));
    assert_eq!(tree.text("/proc/stat"), not_there("/proc/stat"));
    let never = || unreachable!("a captured tree reads nothing of this machine");
    assert_eq!(tree.probe("adjtimex", never), Fact::Known("tai 37\n".into()));
    assert_eq!(tree.probe("cpuid", never), not_there("parachron/cpuid"));
}

#[test]
fn what_nobody_captured_is_not_absent() {
    let current = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let by_hand = (manifest::PATH, r#"{ "format": 1, "listed": { "/sys/class/rtc": [] } }"#);
    let not_captured = format!("not in the capture: {current}");
    for files in [&[by_hand][..], &[by_hand, ("proc/cpuinfo", "flags : tsc\n")]] {
        let (_folder, tree) = tree(files);
        assert_eq!(tree.text(current).unknown().unwrap().to_string(), not_captured);
        assert_eq!(tree.names("/sys/class/rtc"), Fact::Known(vec![]));
    }
    let tried = format!(
        r#"{{ "format": 1, "not_taken": {{ "{current}": {{ "reason": "not-there", "what": "{current}" }} }} }}"#
    );
    let (_folder, tree) = tree(&[(manifest::PATH, &tried)]);
    assert_eq!(tree.text(current), not_there(current));
}

#[test]
fn what_was_recorded_reads_the_same_elsewhere() {
    let (_folder, original) = tree(&[
        ("proc/cmdline", "quiet secret tsc=reliable\n"),
        ("sys/class/ptp/ptp0/clock_name", "KVM virtual PTP\n"),
        (
            "parachron/manifest.json",
            r#"{ "format": 1, "listed": { "/sys/class/rtc": [] }, "not_taken":
               { "parachron/kernel-log": { "reason": "needs-root", "what": "the kernel log" } } }"#,
        ),
    ]);
    let read = |tree: &Tree| {
        (
            tree.reduced("/proc/cmdline", "words", |text| text.replace("secret ", "")),
            tree.names("/sys/class/ptp"),
            tree.names("/sys/class/rtc"),
            tree.names("/sys/class/net"),
            tree.digest("kernel-log", "lines", |_| unreachable!()),
            tree.digest("acpi-oem", "a word", |files| {
                files.bytes("/proc/cmdline", 100).map(|bytes| bytes.len().to_string())
            }),
        )
    };
    let original = original.recording();
    let first = read(&original);
    assert_eq!(first.0, Fact::Known("quiet tsc=reliable\n".into()));
    assert_eq!(first.2, Fact::Known(vec![]));
    assert_eq!(first.4, Fact::Unknown(Unknown::NeedsRoot { what: "the kernel log".into() }));

    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().join("captured");
    let recording = original.into_recording();
    recording.write(&place, &recording.manifest("1.2.3", 7)).unwrap();
    assert_eq!(read(&Tree::captured(&place).unwrap()), first);
    // And no unfinished folder is left.
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);

    fs::remove_file(place.join("proc/cmdline")).unwrap();
    let lost = Tree::captured(&place).unwrap().text("/proc/cmdline");
    assert_eq!(
        lost.unknown().unwrap().to_string(),
        "not readable: /proc/cmdline: captured, but missing in the folder"
    );
}

#[test]
fn a_damaged_manifest_is_the_reason_for_what_is_missing() {
    for damage in ["", "{", "[1,2]", "{\"format\": \"x\"}", "\u{0}\u{1}"] {
        let (_folder, tree) = tree(&[("proc/cmdline", "quiet"), (manifest::PATH, damage)]);
        assert_eq!(tree.text("/proc/cmdline"), Fact::Known("quiet".into()));
        let why = tree.text("/proc/stat").unknown().unwrap().to_string();
        assert!(
            why.starts_with("malformed: parachron/manifest.json: expected a manifest"),
            "{why}"
        );
    }
}

#[test]
fn a_tree_of_a_later_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("parachron")).unwrap();
    fs::write(folder.path().join(manifest::PATH), r#"{"format": 2}"#).unwrap();
    let error = Tree::captured(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("was captured in format 2; this version reads up to 1"), "{error}");
}

#[test]
fn no_name_in_a_manifest_leads_out_of_its_folder() {
    let (_folder, tree) = tree(&[(
        manifest::PATH,
        r#"{"format": 1, "listed": {"/sys/class/ptp": ["ptp0", "..", ".", "", "a/b", "/etc"]}}"#,
    )]);
    assert_eq!(tree.names("/sys/class/ptp"), Fact::Known(vec!["ptp0".to_owned()]));
}

#[test]
fn links_stay_inside() {
    let (folder, tree) = tree(&[("etc/hostname", "inside\n")]);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "outside\n").unwrap();
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    let link = |to: &Path, name: &str| symlink(to, folder.path().join("proc").join(name)).unwrap();
    link(&outside.path().join("secret"), "absolute");
    link(Path::new("../../../../../../../etc/hostname"), "upward");
    link(Path::new("/etc/hostname"), "root");
    link(Path::new("round"), "round");
    assert_eq!(tree.text("/proc/absolute"), not_there("/proc/absolute"));
    // `..` at the top stays at the tree's own top, as it does at `/`.
    assert_eq!(tree.text("/proc/upward"), Fact::Known("inside\n".into()));
    assert_eq!(tree.text("/proc/root"), Fact::Known("inside\n".into()));
    let why = tree.text("/proc/round").unknown().unwrap().to_string();
    assert_eq!(why, "not readable: /proc/round: a symbolic link that is not followed");
}

#[test]
fn fifos_folders_and_giants_neither_hang_nor_fill_memory() {
    let (folder, tree) = tree(&[("proc/uptime/file", "")]);
    let fifo = folder.path().join("proc/stat");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let giant = fs::File::create(folder.path().join("proc/cmdline")).unwrap();
    giant.set_len(1 << 40).unwrap();
    for name in ["/proc/stat", "/proc/uptime"] {
        let why = tree.text(name).unknown().unwrap().to_string();
        assert_eq!(why, format!("not readable: {name}: not a regular file"));
    }
    let why = tree.text("/proc/cmdline").unknown().unwrap().to_string();
    assert_eq!(why, "malformed: /proc/cmdline: expected at most 1048576 bytes, found \"more\"");
}

#[test]
fn control_characters_and_foreign_bytes_are_replaced() {
    assert_eq!(clean(b"a\x1b[31m\xffb\r\n\tc\0"), "a\u{fffd}[31m\u{fffd}b\n\tc\u{fffd}");
}

#[test]
fn a_full_place_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine"), "").unwrap();
    let recording = Recording::default();
    let manifest = recording.manifest("1", 0);
    let error = recording.write(place.path(), &manifest).unwrap_err().to_string();
    assert!(error.ends_with("exists and is not an empty folder"), "{error}");
    let error = recording.write(Path::new("/"), &manifest).unwrap_err().to_string();
    assert_eq!(error, "/ exists and is not an empty folder");
    let error = recording.write(&place.path().join("no/such/place"), &manifest).unwrap_err();
    assert!(error.to_string().contains("no/such/place: No such file"), "{error}");
    fs::remove_file(place.path().join("mine")).unwrap();
    recording.write(place.path(), &manifest).unwrap();
    assert!(place.path().join(manifest::PATH).is_file());
}
