//! The programs of docs/reference/for-vmm-builders.md are the crate's examples, and they run.

use std::path::Path;

#[path = "../../examples/save_restore.rs"]
mod save_restore;
#[path = "../../examples/write_page.rs"]
mod write_page;

const GUIDE: &str = include_str!("../../../../../docs/reference/for-vmm-builders.md");

#[test]
fn the_guide_has_the_examples_as_they_are() {
    let after = |text: &'static str, from: &str| text.split_once(from).unwrap().1.trim();
    let write_page = after(include_str!("../../examples/write_page.rs"), "\n\n");
    assert!(GUIDE.contains(write_page), "examples/write_page.rs");
    let save_restore = include_str!("../../examples/save_restore.rs");
    let save_restore = save_restore.split("/// A VM with two vCPUs").next().unwrap();
    assert!(GUIDE.contains(after(save_restore, "\n\n")), "examples/save_restore.rs");
}

#[test]
fn the_examples_run() {
    if !Path::new("/dev/kvm").exists() {
        return println!("skipped: no /dev/kvm");
    }
    write_page::main().unwrap();
    save_restore::main().unwrap();
}
