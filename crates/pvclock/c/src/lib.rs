//! The C and C++ interface of crate `pvclock`: `libpvclock_c.a` and
//! `include/pvclock.h`, which a C programmer reads instead of this page. How
//! to build and link is in the crate's README.md.
//!
//! The header is generated from this crate by cbindgen, comments included:
//! `UPDATE=1 cargo test -p parachron-pvclock-c header` rewrites it.
//!
//! One module a page holds what is safe, the values that cross the boundary
//! and their conversions; [`abi`] holds the functions, and all that is unsafe.

pub mod abi;
pub mod hyperv;
pub mod kvm_clock;
pub mod status;
pub mod steal_time;
pub mod vmclock;
