//! Connections with TLS or without.

use std::io::{Read, Write};

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of a client, with TLS or without.
pub(crate) trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A connection of the server, with TLS or without.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection for S {}
