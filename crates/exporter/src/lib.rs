#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

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
