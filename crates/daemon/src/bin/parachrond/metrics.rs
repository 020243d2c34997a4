//! Its metrics over HTTP, by a thread of their own: a scrape reads the status that the daemon
//! posted last, so none holds it up.

use std::time::Duration;
use std::{io, thread};

use daemon::exporter::{ListenAddress, ScrapeListener, ServedPages};
use daemon::{Settings, StatusBoard};

use crate::error::ProgramError;
use crate::log::DaemonLog;
use crate::scrapes::{begin, scrapes};

/// The tokio runtime's; a scrape is made by another thread.
const STACK_BYTES: usize = 256 << 10;

/// A port that another process has is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);

/// Where it listens, once it can, and who is asked.
pub(crate) struct Metrics {
    address: ListenAddress,
    listener: Option<ScrapeListener>,
    consumers: Vec<String>,
}

impl Metrics {
    /// Listens, if that is configured.
    ///
    /// Not yet where another process does: any user may have been first, and the clock
    /// is kept all the same.
    pub(crate) fn open(settings: &Settings, log: &DaemonLog) -> Result<Option<Self>, ProgramError> {
        let Some(address) = settings.metrics.clone() else { return Ok(None) };
        if !address.is_local() {
            log.notice(&address.exposure());
        }
        let listener = match address.bind() {
            Ok(listener) => Some(listener),
            Err(error) => {
                let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
                let failed = ProgramError::Listen { address: address.clone(), error };
                if !is_in_use {
                    return Err(failed);
                }
                let retry = format!("{failed}; retrying every {} s", AGAIN.as_secs());
                log.error(&retry, &failed.remedy());
                None
            }
        };
        let consumers = settings.consumers.clone();
        Ok(Some(Self { address, listener, consumers }))
    }

    /// Serves them until the process ends.
    pub(crate) fn serve(self, board: StatusBoard) -> Result<(), ProgramError> {
        let Self { address, listener, consumers } = self;
        let scrapes = scrapes(board, &consumers);
        let serve = move || {
            let listener = listener.map_or_else(|| bind_when_free(&address, AGAIN), Ok)?;
            daemon::exporter::serve(listener, ServedPages::All, move || scrapes.reply())
        };
        begin("metrics", STACK_BYTES, serve)
    }
}

/// Waits until no other process listens there.
fn bind_when_free(address: &ListenAddress, again: Duration) -> io::Result<ScrapeListener> {
    loop {
        match address.bind() {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => thread::sleep(again),
            bound => return bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_another_process_has_is_taken_once_it_is_free() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ListenAddress::Tcp(other.local_addr().unwrap());
        let asked = address.clone();
        let waiting = thread::spawn(move || bind_when_free(&asked, Duration::from_millis(1)));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(other);
        assert!(waiting.join().unwrap().is_ok());
        // 192.0.2.1 is nobody's (RFC 5737): no reason to wait.
        assert!(bind_when_free(&"192.0.2.1:1".parse().unwrap(), AGAIN).is_err());
    }
}
