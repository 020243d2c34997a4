//! Who may read the metrics: everyone, or, with the web configuration of Prometheus' exporter
//! toolkit, who speaks TLS and knows a password.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod client;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere;
mod http;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod passwords;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod secured;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod web;
mod yaml;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use client::TlsClient;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use elsewhere::Secured;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use elsewhere::TlsClient;
pub(crate) use http::HttpConfig;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use secured::Secured;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use web::{Tls, WebConfig, parse};

/// Who may read what is served.
pub struct Access(Option<Secured>);

/// A configuration of TLS and passwords that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct WebError {
    /// The file: the configuration, or one that it names.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// A connection of a client, with TLS or without.
pub(crate) trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A connection of the server, with TLS or without.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection for S {}

impl Access {
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
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<Box<dyn Connection>> {
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
