//! Bad input: no tree, however damaged, makes the reading of facts fail.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use facts::Facts;
use inspect::tree::Tree;
use proptest::prelude::*;

const MACHINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/machines");

/// The files of a machine, by path inside its tree.
fn files(machine: &str) -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let inside = path.strip_prefix(root).unwrap().to_owned();
                found.push((inside, fs::read(&path).unwrap()));
            }
        }
    }
    let root = Path::new(MACHINES).join(machine);
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    found.sort();
    found
}

fn write(root: &Path, path: &Path, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn read(root: &Path) -> Facts {
    inspect::read(&Tree::captured(root).unwrap())
}

#[derive(Debug, Clone)]
enum Damage {
    None,
    Gone,
    Empty,
    CutTo(usize),
    Bytes(Vec<u8>),
    ByteAt(usize, u8),
    Giant,
    Folder,
    Fifo,
    LinkOut,
    LinkRound,
    Twice,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => Just(Damage::None),
        1 => Just(Damage::Gone),
        1 => Just(Damage::Empty),
        2 => any::<usize>().prop_map(Damage::CutTo),
        2 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Damage::Bytes),
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::ByteAt(at, byte)),
        1 => Just(Damage::Giant),
        1 => Just(Damage::Folder),
        1 => Just(Damage::Fifo),
        1 => Just(Damage::LinkOut),
        1 => Just(Damage::LinkRound),
        1 => Just(Damage::Twice),
    ]
}

fn spoil(root: &Path, path: &Path, bytes: &[u8], damage: &Damage) {
    write(root, path, bytes);
    let place = root.join(path);
    let remove = || fs::remove_file(&place).unwrap();
    match damage {
        Damage::None => {}
        Damage::Gone => remove(),
        Damage::Empty => write(root, path, b""),
        Damage::CutTo(at) => write(root, path, &bytes[..at % (bytes.len() + 1)]),
        Damage::Bytes(bytes) => write(root, path, bytes),
        Damage::ByteAt(at, byte) => {
            let mut bytes = bytes.to_vec();
            let length = bytes.len();
            if let Some(place) = bytes.get_mut(at % length.max(1)) {
                *place = *byte;
            }
            write(root, path, &bytes);
        }
        Damage::Giant => fs::File::create(&place).unwrap().set_len(1 << 42).unwrap(),
        Damage::Folder => {
            remove();
            fs::create_dir(&place).unwrap();
        }
        Damage::Fifo => {
            remove();
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &place, kind, rustix::fs::Mode::RUSR, 0).unwrap();
        }
        Damage::LinkOut => {
            remove();
            symlink("/proc/self/maps", &place).unwrap();
        }
        Damage::LinkRound => {
            remove();
            symlink(place.file_name().unwrap(), &place).unwrap();
        }
        Damage::Twice => write(root, path, &[bytes, bytes].concat()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_to_a_tree_is_more_than_an_unknown(
        machine in prop::sample::select(vec!["healthy-kvm-guest", "hyperv-guest", "container-in-vm"]),
        damages in prop::collection::vec(damage(), 40),
    ) {
        let root = tempfile::tempdir().unwrap();
        for ((path, bytes), damage) in files(machine).iter().zip(damages.iter().cycle()) {
            spoil(root.path(), path, bytes, damage);
        }
        // Only a manifest that states a later format makes a tree unreadable.
        if let Ok(tree) = Tree::captured(root.path()) {
            let facts = inspect::read(&tree);
            // Whatever was made of it can be reported.
            serde_json::to_string(&facts).unwrap();
        }
    }
}

#[test]
fn damage_to_one_file_costs_no_other_fact() {
    let whole = files("healthy-kvm-guest");
    let root = tempfile::tempdir().unwrap();
    for (path, bytes) in &whole {
        write(root.path(), path, bytes);
    }
    let healthy = serde_json::to_value(read(root.path())).unwrap();
    // Facts that rest on a file of another name, too.
    let also = |path: &str| match path {
        "parachron/time-keepers" => &["steering.chrony"][..],
        "proc/cpuinfo" => &["cpu.flags", "cpu.model", "cpu.hypervisor", "cpu.generic_timer"],
        "proc/stat" | "proc/uptime" => &["load.steal_since_boot"],
        "parachron/cpuid" => &["cpu.hypervisor", "cpu.cpuid_tsc_hz"],
        _ => &[],
    };
    for (path, bytes) in &whole {
        write(root.path(), path, b"\xff\xfe\x00\x1b[2J");
        let damaged = serde_json::to_value(read(root.path())).unwrap();
        let mut changed = Vec::new();
        for (group, facts) in healthy.as_object().unwrap() {
            if facts.get("known").is_some() || facts.get("unknown").is_some() {
                if damaged[group] != *facts {
                    changed.push(group.clone());
                }
                continue;
            }
            for (name, fact) in facts.as_object().unwrap() {
                if damaged[group][name] != *fact {
                    changed.push(format!("{group}.{name}"));
                }
            }
        }
        let path = path.to_str().unwrap();
        changed.retain(|name| !also(path).contains(&name.as_str()));
        assert!(changed.len() <= 1, "{path} changed {changed:?}");
        write(root.path(), Path::new(path), bytes);
    }
}

#[test]
fn a_log_of_foreign_bytes_still_tells_what_it_can() {
    let root = tempfile::tempdir().unwrap();
    let log =
        b"\xff\xfe\xfd\n[    1.0] caf\xe9\n[    2.0] hrtimer: interrupt took 7 ns\n\x00\x00\n";
    write(root.path(), Path::new("var/log/kern.log"), log);
    let facts = read(root.path());
    let lines = facts.kernel.log.value().unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].text, "hrtimer: interrupt took 7 ns");
}

#[test]
fn of_a_log_too_long_the_end_is_read() {
    let root = tempfile::tempdir().unwrap();
    let mut log = b"[    1.0] hrtimer: interrupt took 1 ns\n".to_vec();
    log.extend(b"[    2.0] nothing to do with time\n".repeat(400_000));
    log.extend(b"[    3.0] hrtimer: interrupt took 3 ns\n");
    write(root.path(), Path::new("var/log/dmesg"), &log);
    let facts = read(root.path());
    let lines = facts.kernel.log.value().unwrap();
    assert_eq!(lines.iter().map(|line| line.at_s).collect::<Vec<_>>(), [Some(3.0)]);
}

/// As a container's copy of /sys has them. A kernel that offers none still has a current one.
#[test]
fn empty_files_are_no_list_of_clock_sources() {
    let root = tempfile::tempdir().unwrap();
    let sources = |current: &[u8]| {
        write(root.path(), Path::new(&facts::clocksource::AVAILABLE[1..]), b"\n");
        write(root.path(), Path::new(&facts::clocksource::CURRENT[1..]), current);
        read(root.path()).clocksources.available
    };
    assert_eq!(sources(b"refined-jiffies\n").value(), Some(&Vec::new()));
    assert_eq!(sources(b"\n").value(), None);
}
