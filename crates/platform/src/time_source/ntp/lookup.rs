//! Looking a name up, without waiting for it: the system's resolver takes up to
//! tens of seconds where nobody answers it, and cannot be told to stop.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::reference::ntp::{NtpError, NtpServer};

/// Who looks up: [`NtpServer::find`], but for tests.
pub(super) type Find = fn(&str, Duration) -> Result<NtpServer, NtpError>;

/// A question that the resolver has, in a thread of its own that ends with the
/// answer.
#[derive(Debug)]
pub(super) struct Lookup {
    name: String,
    answer: Receiver<Result<NtpServer, NtpError>>,
}

impl Lookup {
    /// # Errors
    /// The system gives no thread.
    pub(super) fn begin(find: Find, name: &str, patience: Duration) -> Result<Self, NtpError> {
        let (say, answer) = sync_channel(1);
        let asked = name.to_owned();
        let look_up = move || {
            // Nobody may want to hear it any more.
            let _ = say.send(find(&asked, patience));
        };
        let begun = thread::Builder::new().name("resolver".into()).spawn(look_up);
        let name = name.to_owned();
        match begun {
            Ok(_) => Ok(Self { name, answer }),
            Err(error) => Err(NtpError::NoAddress { name, error: error.to_string() }),
        }
    }

    /// The answer, where it comes within `wait`.
    pub(super) fn answer(&self, wait: Duration) -> Option<Result<NtpServer, NtpError>> {
        match self.answer.recv_timeout(wait) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(NtpError::NoAddress {
                name: self.name.clone(),
                error: "the resolver's thread has ended without an answer".into(),
            })),
        }
    }
}
