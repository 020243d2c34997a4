//! What metrics and records share: both are made of the daemon's status, in a thread of
//! their own, so that neither holds it up.

use std::thread;

use daemon::StatusBoard;
use daemon::exporter::{DaemonReply, Scrapes};
use daemon::fleet::Snapshot;

use crate::error::ProgramError;

/// What is known of this machine's clock.
pub(crate) fn scrapes(board: StatusBoard, consumers: &[String]) -> Scrapes {
    let ask = move || {
        let status = board.latest();
        let json = status.as_ref().and_then(|status| serde_json::to_string(status).ok());
        DaemonReply {
            knows: status.as_ref().map(Snapshot::from),
            status: json.map(|json| json + "\n"),
            is_expected: true,
        }
    };
    Scrapes::new(env!("CARGO_PKG_VERSION"), consumers, ask)
}

/// Works in a thread until the process ends.
pub(crate) fn begin<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(), ProgramError> {
    let thread = thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    thread.spawn(work).map(|_| ()).map_err(ProgramError::Thread)
}
