//! What the first bytes of a log show: its encoding, or that it is none.

/// How the bytes are to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Undecided,
    Utf8,
    Utf16Little,
    Utf16Big,
}

/// So many bytes show what a log is.
pub(super) const START: usize = 512;

/// By the byte order mark, or by which bytes are 0.
pub(super) fn encoding(start: &[u8]) -> Encoding {
    let zeros = |at: usize| start.iter().skip(at).step_by(2).take(64).filter(|byte| **byte == 0);
    let many = start.len().min(128) / 4;
    match start {
        [0xff, 0xfe, ..] => Encoding::Utf16Little,
        [0xfe, 0xff, ..] => Encoding::Utf16Big,
        _ if start.len() >= 8 && zeros(1).count() > many => Encoding::Utf16Little,
        _ if start.len() >= 8 && zeros(0).count() > many => Encoding::Utf16Big,
        _ => Encoding::Utf8,
    }
}

/// Why bytes are no log.
pub(super) fn no_text(start: &[u8], encoding: Encoding) -> Option<&'static str> {
    if start.starts_with(&[0x1f, 0x8b])
        || start.starts_with(b"\xfd7zXZ")
        || start.starts_with(b"(\xb5/\xfd")
    {
        return Some("it is compressed: unpack it first (zcat, xzcat, zstdcat)");
    }
    if start.starts_with(b"LPKSHHRH") {
        return Some("it is a journal's own file: read it with journalctl --file");
    }
    let is_control = |byte: &&u8| **byte < b' ' && !b"\t\n\r\x1b".contains(byte);
    let controls = start.iter().filter(is_control).count();
    // Bytes at random have 11 % of control characters; text in UTF-16 has half.
    let most = if encoding == Encoding::Utf8 { start.len() / 16 } else { start.len() * 5 / 8 };
    (start.len() >= START && controls > most).then_some("it is not text")
}

/// A log about clocks is ASCII except for names.
pub(super) fn push_unit(text: &mut Vec<u8>, unit: u16) {
    match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii() => text.push(byte),
        // The byte order mark.
        _ if unit == 0xfeff => {}
        _ => text.push(b'?'),
    }
}
