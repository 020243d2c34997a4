//! Bytes as text.

use std::io::Write;
use std::process::{Command, Stdio};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648, section 4.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize % 64];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// As a content policy has it: of what is between a script's tags, in base64.
pub(super) fn sha256(text: &str) -> Result<String, String> {
    let failed = |why: std::io::Error| format!("sha256sum: {why}");
    let mut sum = Command::new("sha256sum");
    let mut sum = sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    sum.stdin.take().map_or(Ok(()), |mut to| to.write_all(text.as_bytes())).map_err(failed)?;
    let output = sum.wait_with_output().map_err(failed)?.stdout;
    let digits = output.get(..64).and_then(|digits| std::str::from_utf8(digits).ok());
    let bytes: Option<Vec<u8>> = digits.and_then(|digits| {
        (0..32).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()).collect()
    });
    bytes.map(|bytes| base64(&bytes)).ok_or_else(|| "sha256sum told no sum".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4648s_examples() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        // FIPS 180-2, appendix B.1, "abc".
        assert_eq!(sha256("abc").unwrap(), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }
}
