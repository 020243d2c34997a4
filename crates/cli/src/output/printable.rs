//! Text from outside, as it may be printed.

/// `text` without control characters: text from a file or a log must not
/// control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
