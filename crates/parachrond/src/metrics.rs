//! Its metrics over HTTP, by a thread of their own: a scrape asks the daemon at its
//! socket, as `parachron status` does, so none holds it up.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use std::{io, thread};

use daemon::{Settings, program};
use exporter::{Access, Pages, Scrapes};

use crate::log::Log;
use crate::{Failure, asking};

/// The tokio runtime's; a scrape is made by another thread.
const STACK_BYTES: usize = 256 << 10;

/// A port that another process has is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);

/// Where it listens, once it can, and who is asked.
pub(crate) struct Metrics {
    address: SocketAddr,
    listener: Option<TcpListener>,
    access: Access,
    scrapes: Scrapes,
}

impl Metrics {
    /// Listens, if that is configured.
    ///
    /// Not yet where another process does: any user may have been first, and the clock
    /// is kept all the same.
    pub(crate) fn open(settings: &Settings, log: &Log) -> Result<Option<Self>, Failure> {
        let Some(address) = settings.metrics else { return Ok(None) };
        let scrapes = asking::scrapes("metrics", settings, &settings.consumers)?;
        let access = access(settings)?;
        let remedy = "another address or port: metrics";
        let listener = match TcpListener::bind(address) {
            Ok(listener) => Some(listener),
            Err(why) => {
                let cause = format!("cannot listen at {address}: {why}");
                if why.kind() != io::ErrorKind::AddrInUse {
                    return Err((cause, remedy.into(), program::FAILED));
                }
                log.error(&format!("{cause}; tried again each {} s", AGAIN.as_secs()), remedy);
                None
            }
        };
        Ok(Some(Self { address, listener, access, scrapes }))
    }

    /// Serves them until the process ends.
    pub(crate) fn serve(self) -> Result<(), Failure> {
        let Self { address, listener, access, scrapes } = self;
        let serve = move || {
            let listener = listener.map_or_else(|| freed(address, AGAIN), Ok)?;
            exporter::serve(listener, access, Pages::All, move || scrapes.reply())
        };
        asking::begin("metrics", STACK_BYTES, serve)
    }
}

/// Waits until no other process listens there.
fn freed(address: SocketAddr, again: Duration) -> io::Result<TcpListener> {
    loop {
        match TcpListener::bind(address) {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => thread::sleep(again),
            bound => return bound,
        }
    }
}

/// Who may read the metrics.
pub(crate) fn access(settings: &Settings) -> Result<Access, Failure> {
    let Some(path) = &settings.web_config else { return Ok(Access::everyone()) };
    let remedy = "fix the file named by `web-config`";
    Access::from_file(path).map_err(|why| (why.to_string(), remedy.into(), program::USAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_process_has_is_taken_once_it_is_free() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = other.local_addr().unwrap();
        let waiting = thread::spawn(move || freed(address, Duration::from_millis(1)));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(other);
        assert_eq!(waiting.join().unwrap().unwrap().local_addr().unwrap(), address);
        // 192.0.2.1 is nobody's (RFC 5737): no reason to wait.
        assert!(freed("192.0.2.1:1".parse().unwrap(), AGAIN).is_err());
    }
}
