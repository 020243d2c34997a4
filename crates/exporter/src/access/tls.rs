//! TLS and passwords, where *ring* is built and tested.

mod client;
mod passwords;
mod secured;
mod web;

pub(crate) use client::TlsClient;
pub(crate) use secured::Secured;
pub use web::{Tls, WebConfig, parse};
