//! What a daemon is asked and told: requests on its status socket, and its
//! configuration file.

use ::daemon::{configuration, status_socket};

/// Anything but a request is refused.
pub(crate) fn status_request(data: &[u8]) {
    if let Ok(bound_ns) = status_socket::parse(data) {
        assert_eq!(status_socket::request(bound_ns), data);
    } else {
        assert_ne!(data, status_socket::REQUEST);
    }
}

/// A file is taken as a whole, or refused with a place inside it for each
/// mistake.
pub(crate) fn configuration(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match configuration::parse(&text) {
        Ok(settings) => settings.check().expect("what is taken can be used"),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let lines = 1 + text.matches('\n').count();
            for mistake in mistakes {
                assert!((1..=lines).contains(&mistake.line), "{mistake}");
                let line = text.split('\n').nth(mistake.line - 1).unwrap_or_default();
                // The end of a line is a place too.
                assert!((1..=line.chars().count() + 1).contains(&mistake.column), "{mistake}");
            }
        }
    }
}
