//! Processors on which *ring* is not tested: no TLS, and so no passwords.

use std::io::{Error, ErrorKind, Result as IoResult};
use std::net::TcpStream as Socket;
use std::path::Path;

use tokio::net::TcpStream;

use super::error::WebError;
use super::stream::{ClientStream, ServedStream};

pub(crate) use NoTls as Secured;
pub(crate) use PlainClient as TlsClient;

/// There is none.
pub(crate) enum NoTls {}

impl NoTls {
    pub(crate) fn read(path: &Path) -> Result<Self, WebError> {
        let why = "TLS and passwords are not supported on this processor".to_owned();
        Err(WebError { path: path.to_owned(), why })
    }

    pub(crate) async fn accept(&self, _: TcpStream) -> Option<Box<dyn ServedStream>> {
        match *self {}
    }

    pub(crate) async fn authorizes(&self, _: Option<&[u8]>) -> bool {
        match *self {}
    }
}

/// A client without TLS.
#[derive(Default)]
pub(crate) struct PlainClient;

impl PlainClient {
    pub(crate) fn new(roots: Option<&Path>, _: Option<String>) -> Result<Self, WebError> {
        let why = "TLS is not supported on this processor".to_owned();
        roots.map_or(Ok(Self), |path| Err(WebError { path: path.to_owned(), why }))
    }

    pub(crate) fn connect(&self, _: &str, _: Socket) -> IoResult<Box<dyn ClientStream>> {
        Err(Error::new(ErrorKind::Unsupported, "TLS is not supported on this processor"))
    }
}
