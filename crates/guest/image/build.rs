//! Links a program that starts without an operating system.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=4096");
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/link.ld");
    println!("cargo::rerun-if-changed=link.ld");
}
