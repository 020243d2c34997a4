//! Builds the guest's image with the same compiler. It runs without an operating
//! system, so it is a workspace of its own.
//!
//! Cargo names crates outside of a workspace by their absolute path, and by that name
//! (`-C metadata`) symbols and functions are sorted: so this program stands before the
//! image's compiler as well (`RUSTC_WRAPPER`), and names them by theirs alone.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Settings for the host's programs, which must not apply to the image.
const HOST_SETTINGS: [&str; 6] = [
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
];

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some((compiler, arguments)) = words.split_first() {
        return compile(Command::new(compiler), arguments);
    }
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let image = here.join("guest/image");
    for source in ["guest/src", "guest/image", "guest/Cargo.toml", "../pvclock/src"] {
        println!("cargo::rerun-if-changed={}", here.join(source).display());
    }
    let program = build(&image, &out.join("image"));
    println!("cargo::rustc-env=GUEST_IMAGE={}", program.display());
    ExitCode::SUCCESS
}

/// What Cargo wants of the compiler, with the crate's own name.
fn compile(mut compiler: Command, arguments: &[OsString]) -> ExitCode {
    let name = arguments.iter().skip_while(|word| *word != "--crate-name").nth(1);
    for argument in arguments {
        match (argument.to_str(), name) {
            (Some(text), Some(name)) if text.starts_with("metadata=") => {
                compiler.arg(format!("metadata={}", name.display()))
            }
            _ => compiler.arg(argument),
        };
    }
    let status = compiler.status().expect("the compiler starts");
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    cargo.env("RUSTC_WRAPPER", env::current_exe().expect("this program has a path"));
    // One flag, whatever spaces the path has: RUSTFLAGS would be split at them.
    let remap = format!("--remap-path-prefix={}=.", root.display());
    cargo.env("CARGO_ENCODED_RUSTFLAGS", remap);
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the guest's image does not build: {status}");
    target.join("release/guest-image")
}
