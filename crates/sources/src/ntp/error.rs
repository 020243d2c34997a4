//! Why a server gives no time.

/// Why there is no usable reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NtpError {
    /// No such host.
    #[error("{name}: no address found: {error}")]
    NoAddress {
        /// The server as named.
        name: String,
        /// The resolver's error.
        error: String,
    },
    /// There is no route to it.
    #[error("{name}: unreachable: {error}")]
    Unreachable {
        /// The server as named.
        name: String,
        /// The system's error.
        error: String,
    },
    /// The host is there, and nothing listens on the port.
    #[error("{name}: connection refused on UDP port {port}")]
    Refused {
        /// The server as named.
        name: String,
        /// Which port.
        port: u16,
    },
    /// The time for a reply is over.
    #[error("{name}: no reply within {timeout_ms} ms")]
    Timeout {
        /// The server as named.
        name: String,
        /// How long the wait was.
        timeout_ms: u128,
    },
    /// A kiss-o'-death (RFC 5905, section 7.4): stop, or query less often.
    #[error("{name}: kiss-o'-death {code}")]
    Kiss {
        /// The server as named.
        name: String,
        /// Its four letters.
        code: String,
    },
    /// The server reports that its own clock is not synchronised.
    #[error("{name}: reports that it is not synchronised")]
    NotSynchronised {
        /// The server as named.
        name: String,
    },
    /// The reply contradicts the protocol or itself.
    #[error("{name}: invalid reply: {what}")]
    Invalid {
        /// The server as named.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

impl NtpError {
    /// Whether the server must not be queried again: RFC 5905 obliges a
    /// client to stop at DENY and RSTR.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Kiss { code, .. } if code == "DENY" || code == "RSTR")
    }

    /// Whether the server asks for fewer queries.
    pub fn is_rate_limit(&self) -> bool {
        matches!(self, Self::Kiss { code, .. } if code == "RATE")
    }
}
