#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod access;
mod exposition;
mod machine;
mod ntpd;
mod pages;
pub mod pair;
mod scrapes;
mod serve;

pub use access::{WebAccess, WebError};
pub use exposition::{CONTENT_TYPE, openmetrics, textfile};
pub use machine::MachineScrape;
pub use scrapes::{DaemonReply, Scrapes};
pub use serve::{MOST_CONNECTIONS, REQUEST_TIMEOUT, ScrapeReply, ServedPages, serve};
