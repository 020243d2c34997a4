//! The committed header is what the crate's sources say.

use std::env;
use std::fs;
use std::path::Path;

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

    let path = crate_folder.join("include/parachron_clock.h");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "include/parachron_clock.h is stale: run UPDATE=1 cargo test -p clock-c header"
    );
}
