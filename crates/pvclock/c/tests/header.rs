//! The committed header is what the crate's sources give: of this crate, and of
//! each whose manifest names this file as a test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The one header that the crate has.
fn header(crate_folder: &Path) -> PathBuf {
    let entries = fs::read_dir(crate_folder.join("include")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

#[test]
fn header_is_up_to_date() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(crate_folder.join("src/lib.rs"))
        .generate()
        .unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let generated = String::from_utf8(generated).unwrap();

    let path = header(crate_folder);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "{} is stale: run UPDATE=1 cargo test -p {} header",
        path.strip_prefix(crate_folder).unwrap().display(),
        env!("CARGO_PKG_NAME"),
    );
}
