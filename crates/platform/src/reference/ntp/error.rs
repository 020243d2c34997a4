//! Why a server is no reference.

/// Why there is no answer to go by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NtpError {
    /// No such host.
    #[error("{name}: no address found: {error}")]
    NoAddress {
        /// The server as asked for.
        name: String,
        /// The resolver's words.
        error: String,
    },
    /// The network does not get there.
    #[error("{name}: cannot be reached: {error}")]
    Unreachable {
        /// The server as asked for.
        name: String,
        /// The system's words.
        error: String,
    },
    /// Something is there, and nothing listens on the port.
    #[error("{name}: nothing answers on UDP port {port}")]
    NothingListens {
        /// The server as asked for.
        name: String,
        /// Which port.
        port: u16,
    },
    /// Silence.
    #[error("{name}: no answer in {patience_ms} ms")]
    NoAnswer {
        /// The server as asked for.
        name: String,
        /// How long was waited.
        patience_ms: u128,
    },
    /// A kiss-o'-death (RFC 5905, section 7.4): leave, or ask less often.
    #[error("{name}: kiss-o'-death {code}")]
    Kiss {
        /// The server as asked for.
        name: String,
        /// Its four letters.
        code: String,
    },
    /// The server says that its own clock is not set.
    #[error("{name}: says that it is not synchronised")]
    NotSynchronised {
        /// The server as asked for.
        name: String,
    },
    /// What came is no answer to be trusted.
    #[error("{name}: wrong answer: {what}")]
    Wrong {
        /// The server as asked for.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

impl NtpError {
    /// Whether the server asked not to be asked again: RFC 5905 obliges a
    /// client to stop at DENY and RSTR.
    pub fn says_stop(&self) -> bool {
        matches!(self, Self::Kiss { code, .. } if code == "DENY" || code == "RSTR")
    }

    /// Whether the server asked to be asked less often.
    pub fn says_slower(&self) -> bool {
        matches!(self, Self::Kiss { code, .. } if code == "RATE")
    }
}
