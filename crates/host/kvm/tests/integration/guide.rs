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
