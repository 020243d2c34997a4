//! Each source once: one that is named twice would have two votes.

use std::net::SocketAddr;

/// A source by its name, such as `ntp 192.0.2.1`, and its address, where it is
/// a server whose address is known.
pub type Named<'n> = (&'n str, Option<SocketAddr>);

/// In which way one is a duplicate of the other; nothing where it is not.
pub fn duplicate_of(one: Named<'_>, other: Named<'_>) -> Option<String> {
    match (one, other) {
        ((one, _), (other, _)) if one == other => Some(format!("{one} is given twice")),
        ((one, Some(address)), (other, Some(same))) if address == same => {
            Some(format!("{one} and {other} are one server, {address}"))
        }
        _ => None,
    }
}

/// What to do about a duplicate.
pub const REMEDY: &str = "name each source once: a source that is named twice would have two votes";
