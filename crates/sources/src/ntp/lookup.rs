//! Resolving a name without waiting for it: the system's resolver takes up to
//! tens of seconds where no name server replies, and cannot be stopped.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::error::NtpError;
use super::server::NtpPeer;

/// What resolves a name: [`NtpPeer::find`], or a test's.
pub(super) type Resolve = fn(&str, Duration) -> Result<NtpPeer, NtpError>;

/// A lookup that the resolver is working on, in a thread of its own that ends
/// with the result.
#[derive(Debug)]
pub(super) struct Lookup {
    name: String,
    result: Receiver<Result<NtpPeer, NtpError>>,
}

impl Lookup {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn begin(resolve: Resolve, name: &str, timeout: Duration) -> Result<Self, NtpError> {
        let (send, result) = sync_channel(1);
        let wanted = name.to_owned();
        // Who samples clocks stays on one CPU, and the resolver need not.
        let free = linux::cpus::free();
        let look_up = move || {
            free.run();
            // The receiver may be gone.
            let _ = send.send(resolve(&wanted, timeout));
        };
        let begun = thread::Builder::new().name("resolver".into()).spawn(look_up);
        let name = name.to_owned();
        match begun {
            Ok(_) => Ok(Self { name, result }),
            Err(error) => Err(NtpError::NoAddress { name, error: error.to_string() }),
        }
    }

    /// The result, where it comes within `wait`.
    pub(super) fn result(&self, wait: Duration) -> Option<Result<NtpPeer, NtpError>> {
        match self.result.recv_timeout(wait) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(NtpError::NoAddress {
                name: self.name.clone(),
                error: "the resolver's thread ended without a result".into(),
            })),
        }
    }
}
