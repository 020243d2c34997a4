//! How much a test tries. `cargo test` tries what finds faults within a minute;
//! with `PARACHRON_LONG=1` each test tries all that it can, over hours.
//!
//! A large number has earned its place by a fault that a smaller one missed: the
//! test states which number found what.

/// Set to `1` to run the tests at their full size.
pub const LONG: &str = "PARACHRON_LONG";

/// The usual size of a test, or its full one.
pub fn size<T>(usual: T, full: T) -> T {
    if std::env::var_os(LONG).is_some_and(|value| value == "1") { full } else { usual }
}
