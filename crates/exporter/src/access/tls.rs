//! TLS, where *ring* is built and tested.

mod client;

pub(crate) use client::TlsClient;
