//! Processors on which *ring* is not tested: no TLS, and so no passwords.

use std::path::Path;

use tokio::net::TcpStream;

use super::{Connection, WebError};

/// There is none.
pub(super) enum Secured {}

impl Secured {
    pub(super) fn read(path: &Path) -> Result<Self, WebError> {
        let why = "TLS and passwords are not supported on this processor".to_owned();
        Err(WebError { path: path.to_owned(), why })
    }

    pub(super) async fn accept(&self, _: TcpStream) -> Option<Box<dyn Connection>> {
        match *self {}
    }

    pub(super) async fn authorizes(&self, _: Option<&[u8]>) -> bool {
        match *self {}
    }
}
