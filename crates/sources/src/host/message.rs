//! The messages on the host's socket.

/// The longest message, bytes.
pub(super) const LIMIT_BYTES: usize = 128;

/// The error of a time that states none, ns.
const DEFAULT_ERROR_NS: u64 = 1_000_000_000;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMessage {
    /// The time is this now.
    Time {
        /// Since 1970, ns.
        since_1970_ns: u64,
        /// Give or take, ns.
        error_ns: u64,
    },
    /// The machine was stopped, and runs again.
    Resumed,
}

/// A datagram that is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found:?}")]
pub struct MalformedMessage {
    /// What would have been right.
    pub expected: &'static str,
    /// The first of what came instead.
    pub found: String,
}

/// Characters of a datagram that an error carries.
const FOUND_LIMIT: usize = 40;

impl MalformedMessage {
    fn new(expected: &'static str, found: &str) -> Self {
        Self { expected, found: found.chars().take(FOUND_LIMIT).collect() }
    }
}

impl HostMessage {
    /// The message in a datagram.
    ///
    /// # Errors
    /// It is no message.
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let lossy = String::from_utf8_lossy(bytes);
        let malformed = |expected| MalformedMessage::new(expected, &lossy);
        if bytes.len() > LIMIT_BYTES {
            return Err(malformed("at most 128 bytes"));
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return Err(malformed("text")) };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let nanoseconds = |seconds: &str| {
            nanoseconds(seconds).ok_or_else(|| {
                malformed("seconds as 1795000000.123456789, up to nine digits after the point")
            })
        };
        match words[..] {
            ["resumed"] => Ok(Self::Resumed),
            ["time", at] => {
                Ok(Self::Time { since_1970_ns: nanoseconds(at)?, error_ns: DEFAULT_ERROR_NS })
            }
            ["time", at, "+-" | "±", error] => {
                Ok(Self::Time { since_1970_ns: nanoseconds(at)?, error_ns: nanoseconds(error)? })
            }
            _ => Err(malformed("`time SECONDS`, `time SECONDS +- SECONDS` or `resumed`")),
        }
    }
}

/// Nanoseconds of a decimal number of seconds.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if !digits(whole) || !digits(fraction) || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let whole_ns = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    whole_ns.checked_add(format!("{fraction:0<9}").parse().ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_parsed() {
        let time = |since_1970_ns, error_ns| Ok(HostMessage::Time { since_1970_ns, error_ns });
        for (text, expected) in [
            ("resumed", Ok(HostMessage::Resumed)),
            ("resumed\n", Ok(HostMessage::Resumed)),
            ("time 1795000000", time(1_795_000_000_000_000_000, 1_000_000_000)),
            ("time 1795000000.5 +- 0.002", time(1_795_000_000_500_000_000, 2_000_000)),
            ("time 1795000000.123456789 ± 0\r\n", time(1_795_000_000_123_456_789, 0)),
        ] {
            assert_eq!(HostMessage::parse(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_quoted_back() {
        for text in [
            "",
            "time",
            "time now",
            "time -5",
            "time +5",
            "time 5.",
            "time .5",
            "time 5.1234567890",
            "time 1e9",
            "time 18446744074",
            "time 5 0.1",
            "time 5 +- -1",
            "time 5 +- 1 more",
            "Resumed",
            "resumed twice",
            "time 1795000000\0",
        ] {
            let error = HostMessage::parse(text.as_bytes()).expect_err(text);
            assert!(text.starts_with(&error.found), "{error}");
        }
        assert!(HostMessage::parse(b"time \xff").is_err());
        let long = HostMessage::parse(&[b' '; 129]).unwrap_err().to_string();
        assert!(long.starts_with("expected at most 128 bytes, found "), "{long}");
    }

    proptest! {
        #[test]
        fn a_message_parses_to_its_figures(at in any::<u64>(), error in any::<u64>()) {
            let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            let text = format!("time {} +- {}", seconds(at), seconds(error));
            let parsed = HostMessage::parse(text.as_bytes());
            prop_assert_eq!(parsed, Ok(HostMessage::Time { since_1970_ns: at, error_ns: error }));
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = HostMessage::parse(&bytes);
        }
    }
}
