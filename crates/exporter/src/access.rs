//! How a client proves who it is to a server, and checks the server.

mod error;
mod http;
mod stream;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "access/no_tls.rs")]
mod tls;
mod yaml;

pub use error::WebError;
pub(crate) use http::HttpConfig;
pub(crate) use stream::ClientStream;
pub(crate) use tls::TlsClient;
