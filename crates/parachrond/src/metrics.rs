//! Its metrics over HTTP, by a thread of their own: a scrape asks the daemon at its
//! socket, as `parachron status` does, so none holds it up.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use access::Secured;
use daemon::{Settings, program};
use exporter::{Answer, Open, Scrapes};

use crate::Failure;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use elsewhere::Secured;

/// The tokio runtime's; a scrape is made by another thread.
const STACK_BYTES: usize = 256 << 10;

/// A listener, and who is asked.
pub(crate) struct Metrics {
    listener: TcpListener,
    secured: Option<Secured>,
    socket: PathBuf,
    consumers: Vec<String>,
}

impl Metrics {
    /// Listens, if that is configured.
    pub(crate) fn open(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(address) = settings.metrics else { return Ok(None) };
        let Some(socket) = settings.status_socket.clone() else {
            let cause = "metrics are made of what is told at status-socket, which is empty";
            return Err((cause.into(), "name a status-socket".into(), program::USAGE));
        };
        let secured = secured(settings)?;
        let listener = TcpListener::bind(address).map_err(|why| {
            let remedy = "another address or port: metrics";
            (format!("cannot listen at {address}: {why}"), remedy.into(), program::FAILED)
        })?;
        Ok(Some(Self { listener, secured, socket, consumers: settings.consumers.clone() }))
    }

    /// Serves them until the process ends.
    pub(crate) fn serve(self) -> Result<(), Failure> {
        let Self { listener, secured, socket, consumers } = self;
        let ask = move || {
            let (knows, status) = daemon::metrics::ask(&socket).unzip();
            Answer { knows, status, is_expected: true }
        };
        let scrapes = Scrapes::new(env!("CARGO_PKG_VERSION"), &consumers, ask);
        let serve = move || match secured {
            None => exporter::serve(listener, Open, move || scrapes.told()),
            Some(secured) => exporter::serve(listener, secured, move || scrapes.told()),
        };
        let thread = std::thread::Builder::new().name("metrics".into()).stack_size(STACK_BYTES);
        let failed =
            |why: io::Error| (format!("no thread: {why}"), "ulimit -u".into(), program::FAILED);
        thread.spawn(serve).map(|_| ()).map_err(failed)
    }
}

/// Who may ask; none where all may.
pub(crate) fn secured(settings: &Settings) -> Result<Option<Secured>, Failure> {
    let secured = settings.web_config.as_deref().map(Secured::by).transpose();
    secured.map_err(|why| (why.to_string(), "mend it: web-config".into(), program::USAGE))
}
