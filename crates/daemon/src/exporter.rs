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
mod scrapes;
mod serve;

pub use exposition::{CONTENT_TYPE, openmetrics, textfile};
pub use listen::{BadListenAddress, ListenAddress, ScrapeListener};
pub use machine::MachineScrape;
pub use scrapes::{DaemonReply, Scrapes};
pub use serve::{MOST_CONNECTIONS, REQUEST_TIMEOUT, ScrapeReply, ServedPages, serve};
