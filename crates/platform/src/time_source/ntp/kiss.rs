//! A kiss-o'-death, obeyed (RFC 5905, section 7.4).

use std::time::{Duration, Instant};

use crate::reference::ntp::NtpError;

/// A server that asks to be asked less often is left alone for so long.
const SLOWER: Duration = Duration::from_secs(64);

/// What a server said that wants to be left alone.
#[derive(Debug)]
pub(super) struct Kiss {
    said: NtpError,
    /// Until then; none: for good.
    until: Option<Instant>,
}

impl Kiss {
    /// What is to be obeyed of an answer that came just now.
    pub(super) fn of(answer: &NtpError) -> Option<Self> {
        let until = answer.says_slower().then(|| Instant::now() + SLOWER);
        let is_kiss = answer.says_stop() || answer.says_slower();
        is_kiss.then(|| Self { said: answer.clone(), until })
    }

    /// What the server said, while it holds.
    pub(super) fn holds(&self, now: Instant) -> Option<&NtpError> {
        self.until.is_none_or(|until| now < until).then_some(&self.said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kiss_holds_as_long_as_its_code_says() {
        let kiss = |code: &str| Kiss::of(&NtpError::Kiss { name: "a".into(), code: code.into() });
        let begun = Instant::now();
        for code in ["DENY", "RSTR"] {
            assert!(kiss(code).unwrap().holds(begun + Duration::from_secs(1_000_000)).is_some());
        }
        let slower = kiss("RATE").unwrap();
        assert!(slower.holds(begun + Duration::from_secs(63)).is_some());
        assert!(slower.holds(Instant::now() + Duration::from_secs(64)).is_none());
        assert!(kiss("INIT").is_none());
        assert!(Kiss::of(&NtpError::NotSynchronised { name: "a".into() }).is_none());
    }
}
