//! Connections with TLS or without.

use std::io::{Read, Write};

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of a client, with TLS or without.
pub(crate) trait ClientStream: Read + Write {}
impl<S: Read + Write> ClientStream for S {}

/// A connection of the server, with TLS or without.
pub(crate) trait ServedStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ServedStream for S {}
