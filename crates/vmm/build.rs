//! Builds the guest's image with the same compiler. It runs without an operating
//! system, so it is a workspace of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings for the host's programs, which must not apply to the image.
const HOST_SETTINGS: [&str; 6] = [
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let image = here.join("../guest/image");
    for source in
        ["../guest/src", "../units/src", "../guest/image", "../guest/Cargo.toml", "../pvclock/src"]
    {
        println!("cargo::rerun-if-changed={}", here.join(source).display());
    }
    let program = build(&image, &out.join("image"));
    println!("cargo::rustc-env=GUEST_IMAGE={}", program.display());
}

fn build(image: &Path, target: &Path) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo.args(["build", "--release", "--locked", "--offline", "--quiet"]);
    cargo.arg("--manifest-path").arg(image.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target);
    for setting in HOST_SETTINGS {
        cargo.env_remove(setting);
    }
    // The image is part of our programs, which hold no path of the machine that
    // built them: two builds are the same to the byte.
    let root = image.join("../../..");
    let root = root.canonicalize().expect("the repository's root is there");
    cargo.env("RUSTFLAGS", format!("--remap-path-prefix={}=.", root.display()));
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the guest's image does not build: {status}");
    target.join("release/guest-image")
}
