//! Rows as JSON lines.

use std::io::{self, BufRead, Read};

use crate::row::Row;

/// A line is shorter; a longer one is none of ours.
pub(super) const LINE_BYTES: u64 = 16 << 10;

/// What came of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packed {
    /// Rows.
    pub rows: u64,
    /// Whole lines that are none, and are left out: of a power failure, say.
    pub left_out: u64,
}

/// One, with its end.
pub fn line<R: Row>(row: &R) -> Vec<u8> {
    // Numbers and texts become JSON whatever they are.
    let mut line = serde_json::to_vec(row).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Gives each row to `take`, while it returns true. A last line without its end is not
/// there.
///
/// # Errors
/// They cannot be read.
pub fn read<R: Row>(mut from: impl BufRead, mut take: impl FnMut(R) -> bool) -> io::Result<Packed> {
    let (mut packed, mut line) = (Packed::default(), Vec::new());
    loop {
        line.clear();
        from.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") && (line.len() as u64) < LINE_BYTES {
            return Ok(packed);
        }
        match serde_json::from_slice(&line) {
            Err(_) => packed.left_out += 1,
            Ok(row) => {
                packed.rows += 1;
                if !take(row) {
                    return Ok(packed);
                }
            }
        }
    }
}
