//! What is wrong with a file of comparisons.

/// Why it cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The first lines or bytes are not ours.
    #[error("is not a record of parachron drift: expected {expected}, found {found:?}")]
    NoRecords {
        /// How a file of comparisons begins.
        expected: String,
        /// How this one does.
        found: String,
    },
    /// Ours, of another version.
    #[error("has another version: expected {expected}, found {found:?}")]
    OtherVersion {
        /// The version that is understood.
        expected: String,
        /// The one that was found.
        found: String,
    },
    /// A whole line that is no comparison.
    #[error("line {number} is not a comparison: {found:?}")]
    Line {
        /// Which, from 1 on.
        number: u64,
        /// Its beginning.
        found: String,
    },
    /// A Parquet file that lost its end.
    #[error("is truncated: {found} of {expected} bytes")]
    CutShort {
        /// The length that it was written with.
        expected: u64,
        /// The length that it has.
        found: u64,
    },
    /// A Parquet file of which a part changed.
    #[error("is damaged: checksum {found:08x}, expected {expected:08x}")]
    Changed {
        /// The checksum that it was written with.
        expected: u32,
        /// The one that it has.
        found: u32,
    },
    /// A Parquet file whose inside makes no sense.
    #[error("is damaged: {what}")]
    Inside {
        /// What the reader found.
        what: String,
    },
}

/// The beginning of what was found, to be quoted.
pub(crate) fn beginning(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).chars().take(60).collect()
}
