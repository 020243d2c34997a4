//! docs/reference/for-vmm-builders.md has the example `save_restore`, and both examples run.

use std::path::Path;

#[path = "../../examples/save_restore.rs"]
mod save_restore;
#[path = "../../examples/write_page.rs"]
mod write_page;

const GUIDE: &str = include_str!("../../../../../docs/reference/for-vmm-builders.md");

#[test]
fn the_guide_has_the_example_as_it_is() {
    let save_restore = include_str!("../../examples/save_restore.rs");
    let save_restore = save_restore.split("/// A VM with two vCPUs").next().unwrap();
    let code = save_restore.split_once("\n\n").unwrap().1.trim();
    assert!(GUIDE.contains(code), "examples/save_restore.rs");
}

#[test]
fn the_examples_run() {
    if !Path::new("/dev/kvm").exists() {
        return println!("skipped: no /dev/kvm");
    }
    write_page::main().unwrap();
    save_restore::main().unwrap();
}
