//! A kiss-o'-death, and how long it holds (RFC 5905, section 7.4).

use std::time::{Duration, Instant};

use super::error::NtpError;

/// After RATE a server is not queried for this long.
const RATE_PAUSE: Duration = Duration::from_secs(64);

/// What a server replied that must not be queried.
#[derive(Debug)]
pub(super) struct Kiss {
    error: NtpError,
    /// Until then; none: for ever.
    until: Option<Instant>,
}

impl Kiss {
    /// The kiss in a reply that came just now.
    pub(super) fn from_reply(reply: &NtpError) -> Option<Self> {
        let until = reply.is_rate_limit().then(|| Instant::now() + RATE_PAUSE);
        let is_kiss = reply.is_stop() || reply.is_rate_limit();
        is_kiss.then(|| Self { error: reply.clone(), until })
    }

    /// The server's reply, while it holds.
    pub(super) fn holds(&self, now: Instant) -> Option<&NtpError> {
        self.until.is_none_or(|until| now < until).then_some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kiss_holds_as_long_as_its_code_demands() {
        let kiss =
            |code: &str| Kiss::from_reply(&NtpError::Kiss { name: "a".into(), code: code.into() });
        let begun = Instant::now();
        for code in ["DENY", "RSTR"] {
            assert!(kiss(code).unwrap().holds(begun + Duration::from_secs(1_000_000)).is_some());
        }
        let slower = kiss("RATE").unwrap();
        assert!(slower.holds(begun + Duration::from_secs(63)).is_some());
        assert!(slower.holds(Instant::now() + Duration::from_secs(64)).is_none());
        assert!(kiss("INIT").is_none());
        assert!(Kiss::from_reply(&NtpError::NotSynchronised { name: "a".into() }).is_none());
    }
}
