//! Links a program that starts without an operating system.

fn main() {
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=4096");
    // Cargo links in the workspace's folder, which this is: no absolute path
    // outlives a move of the tree.
    println!("cargo::rustc-link-arg-bins=-Wl,-T,link.ld");
    println!("cargo::rerun-if-changed=link.ld");
}
