//! Who may read the metrics: everyone, or, with the web configuration of Prometheus' exporter
//! toolkit, who speaks TLS and knows a password.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod client;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere;
mod error;
mod http;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod passwords;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod secured;
mod stream;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod web;
mod yaml;

use std::path::Path;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use client::TlsClient;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use elsewhere::NoTls as Secured;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use elsewhere::PlainClient as TlsClient;
pub use error::WebError;
pub(crate) use http::HttpConfig;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use secured::Secured;
pub(crate) use stream::{ClientStream, ServedStream};
use tokio::net::TcpStream;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use web::{Tls, WebConfig, parse};

/// Who may read what is served.
pub struct WebAccess(Option<Secured>);

impl WebAccess {
    /// Everyone who reaches the address may read.
    pub const fn everyone() -> Self {
        Self(None)
    }

    /// Access by a web configuration, which is read again when it may have changed.
    ///
    /// # Errors
    /// What is wrong with the file, or with a file that it names.
    pub fn from_file(path: &Path) -> Result<Self, WebError> {
        Secured::read(path).map(|secured| Self(Some(secured)))
    }

    /// A connection after its TLS handshake, if it needs one; none where that fails.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<Box<dyn ServedStream>> {
        match &self.0 {
            None => Some(Box::new(stream)),
            Some(secured) => secured.accept(stream).await,
        }
    }

    /// Whether a request with this `Authorization` header is answered.
    pub(crate) async fn authorizes(&self, authorization: Option<&[u8]>) -> bool {
        match &self.0 {
            None => true,
            Some(secured) => secured.authorizes(authorization).await,
        }
    }
}
