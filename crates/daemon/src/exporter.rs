//! A machine's clock served to Prometheus as OpenMetrics, over HTTP or as a file for
//! node_exporter's textfile collector, and as a web page. [`fleet`](crate::fleet) defines the
//! metrics.
//!
//! ```
//! use daemon::exporter::openmetrics;
//! use daemon::fleet::{Snapshot, samples};
//!
//! let clock = Snapshot { error_bound_s: Some(0.002), ..Snapshot::default() };
//! let text = openmetrics(samples(&clock));
//! assert!(text.contains("\nparachron_clock_error_bound_seconds 0.002\n"), "{text}");
//! assert!(text.ends_with("# EOF\n"));
//! ```

mod exposition;
mod listen;
mod machine;
mod pages;
mod serve;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::fleet::{Snapshot, samples};

pub use exposition::{CONTENT_TYPE, openmetrics, textfile};
pub use listen::{BadListenAddress, ListenAddress, ScrapeListener};
pub use machine::MachineScrape;
pub use serve::{MOST_CONNECTIONS, REQUEST_TIMEOUT, ScrapeReply, ServedPages, serve};

/// Scrapes of this machine.
pub struct Scrapes {
    ask: Box<dyn Fn() -> DaemonReply + Send + Sync>,
    version: &'static str,
    consumers_here: Vec<String>,
    machine: Mutex<MachineScrape>,
    was_up: AtomicBool,
}

/// What came of asking the daemon.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DaemonReply {
    /// What it knows, if it replied.
    pub knows: Option<Snapshot>,
    /// Its reply.
    pub status: Option<String>,
    /// It is to be there, as its socket is.
    pub is_expected: bool,
}

impl Scrapes {
    /// By an exporter of this version; these trust the clock; `ask` asks the daemon.
    pub fn new(
        version: &'static str,
        consumers: &[String],
        ask: impl Fn() -> DaemonReply + Send + Sync + 'static,
    ) -> Self {
        let mut consumers_here = consumers.to_vec();
        consumers_here.sort();
        consumers_here.dedup();
        let (machine, was_up) = (Mutex::default(), AtomicBool::new(false));
        Self { ask: Box::new(ask), version, consumers_here, machine, was_up }
    }

    /// What is known now.
    pub fn snapshot(&self) -> Snapshot {
        self.with_status().0
    }

    /// The same, as it is served.
    pub fn reply(&self) -> ScrapeReply {
        let (snapshot, status) = self.with_status();
        ScrapeReply { metrics: openmetrics(samples(&snapshot)), status }
    }

    fn with_status(&self) -> (Snapshot, Option<String>) {
        let DaemonReply { knows, status, is_expected } = (self.ask)();
        // Once there, it is missed; a machine that never had one has not lost it.
        let was_up = self.was_up.fetch_or(knows.is_some(), Relaxed) || is_expected;
        let daemon_up = was_up.then_some(false);
        let mut snapshot = knows.unwrap_or_else(|| Snapshot { daemon_up, ..Snapshot::default() });
        self.version.clone_into(&mut snapshot.version);
        snapshot.consumers_here.clone_from(&self.consumers_here);
        let mut machine = self.machine.lock().unwrap_or_else(|broken| broken.into_inner());
        machine.add_to(&mut snapshot);
        (snapshot, status)
    }
}
