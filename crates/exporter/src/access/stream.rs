//! Connections with TLS or without.

use std::io::{Read, Write};

/// A connection of a client, with TLS or without.
pub(crate) trait ClientStream: Read + Write {}
impl<S: Read + Write> ClientStream for S {}
