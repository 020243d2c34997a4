//! Who is let in to what is served.

use std::future::{Future, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Decides over connections and requests. A type of its own each, so that a program which
/// lets in all links none of what passwords and TLS take.
pub trait Gate: Send + Sync + 'static {
    /// What requests are read from.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// What becomes of a connection; none where it ends.
    fn enter(&self, stream: TcpStream) -> impl Future<Output = Option<Self::Stream>> + Send;

    /// Whether a request with this `Authorization` is answered.
    fn lets_in(&self, authorization: Option<&[u8]>) -> impl Future<Output = bool> + Send;
}

/// Lets in all.
#[derive(Debug, Clone, Copy)]
pub struct Open;

impl Gate for Open {
    type Stream = TcpStream;

    fn enter(&self, stream: TcpStream) -> impl Future<Output = Option<TcpStream>> + Send {
        ready(Some(stream))
    }

    fn lets_in(&self, _: Option<&[u8]>) -> impl Future<Output = bool> + Send {
        ready(true)
    }
}
