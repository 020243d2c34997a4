//! Text that both formats allow.

/// `text` without control characters, which neither format allows.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
