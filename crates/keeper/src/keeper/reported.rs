//! What the kernel knows of the clock's error.

/// What the kernel was told of the clock's error.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// When the error was last measured.
    pub(super) measured_ns: u64,
    /// The estimate then.
    pub(super) estimated_ns: u64,
    /// When the kernel was last told.
    pub(super) told_ns: u64,
}
