//! Gives the shared library a name with the version of its interface.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpvclock_c.so.0");
}
