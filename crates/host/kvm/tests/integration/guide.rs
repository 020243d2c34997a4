//! The examples that docs/reference/for-vmm-builders.md refers to run.

use std::path::Path;

#[path = "../../examples/save_restore.rs"]
mod save_restore;
#[path = "../../examples/write_page.rs"]
mod write_page;

#[test]
fn the_examples_run() {
    if !Path::new("/dev/kvm").exists() {
        return println!("skipped: no /dev/kvm");
    }
    write_page::main().unwrap();
    save_restore::main().unwrap();
}

/// The guide's lines for Cargo.toml have the versions that this repository builds with.
#[test]
fn the_dependencies_are_those_of_the_workspace() {
    let read = |path: &str| std::fs::read_to_string(format!("../../../{path}")).unwrap();
    let (guide, workspace) = (read("docs/reference/for-vmm-builders.md"), read("Cargo.toml"));
    let version = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
        line.split('"')
            .find(|part| part.starts_with(|first: char| first.is_ascii_digit()))
            .map(str::to_owned)
    };
    for name in ["kvm-bindings", "kvm-ioctls", "serde_json", "vm-memory"] {
        assert_eq!(version(&guide, name), version(&workspace, name), "{name}");
    }
}
