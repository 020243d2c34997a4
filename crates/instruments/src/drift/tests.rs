//! What an estimate promises, by simulated clocks of known error.

mod promises;
pub(super) mod simulated;
