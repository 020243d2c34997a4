//! Who may read the metrics: everyone, or, with the web configuration of Prometheus' exporter
//! toolkit, who speaks TLS and knows a password.

mod error;
mod http;
mod stream;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "access/no_tls.rs")]
mod tls;
mod yaml;

use std::path::Path;

pub use error::WebError;
pub(crate) use http::HttpConfig;
pub(crate) use stream::{ClientStream, ServedStream};
use tls::Secured;
pub(crate) use tls::TlsClient;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use tls::{Tls, WebConfig, parse};
use tokio::net::TcpStream;

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
