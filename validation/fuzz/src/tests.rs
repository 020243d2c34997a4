//! The seeds through every target, on any toolchain.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::TARGETS;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("a folder's entry").file_name().into_string().expect("UTF-8"))
        .collect()
}

#[test]
fn every_target_takes_its_seeds_and_all_others() {
    for target in TARGETS {
        for other in TARGETS {
            let seeds = folder("seeds").join(other.name);
            for seed in names(&seeds) {
                let data = fs::read(seeds.join(&seed)).expect("a seed can be read");
                println!("{} takes {}/{seed}", target.name, other.name);
                (target.run)(&data);
            }
        }
        (target.run)(b"");
        (target.run)(&[0xff; 4096]);
    }
}

#[test]
fn every_target_takes_what_machines_said() {
    let mut files = Vec::new();
    collect(&folder("../../testdata/machines"), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let data = fs::read(&file).expect("a machine's file can be read");
        println!("{}", file.display());
        TARGETS.iter().for_each(|target| (target.run)(&data));
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn every_target_has_its_seeds() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "two targets have one name");
    assert_eq!(names(&folder("seeds")), targets);
    for target in TARGETS {
        assert!(!names(&folder("seeds").join(target.name)).is_empty(), "{}", target.name);
    }
}
