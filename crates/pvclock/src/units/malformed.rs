//! Foreign bytes that cannot be what they are read as.

use core::fmt;

/// A field that contains what none of its writers can have meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// What it is a field of: "a frame".
    pub of: &'static str,
    /// Its name.
    pub field: &'static str,
    /// What it contains.
    pub found: u64,
}

impl Malformed {
    /// The field of that name, and its contents.
    pub fn new(of: &'static str, field: &'static str, found: u64) -> Self {
        Self { of, field, found }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: its {} is {:#x}", self.of, self.field, self.found)
    }
}

impl core::error::Error for Malformed {}
