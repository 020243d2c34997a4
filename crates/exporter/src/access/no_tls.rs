//! Processors on which *ring* is not tested: no TLS.

use std::io::{Error, ErrorKind, Result as IoResult};
use std::net::TcpStream as Socket;
use std::path::Path;

use super::error::WebError;
use super::stream::ClientStream;

pub(crate) use PlainClient as TlsClient;

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
