//! A source of the time is named once: one that is named twice would vote twice.

use std::net::SocketAddr;

use crate::error::CliError;

/// A source by its name, such as `ntp 192.0.2.1`, and its address, where it is
/// a server whose address is known.
pub(crate) type Named<'n> = (&'n str, Option<SocketAddr>);

/// In which way two are one, for people; nothing where they are two.
pub(crate) fn how_same(one: Named<'_>, other: Named<'_>) -> Option<String> {
    match (one, other) {
        ((one, _), (other, _)) if one == other => Some(format!("{one} is given twice")),
        ((one, Some(address)), (other, Some(same))) if address == same => {
            Some(format!("{one} and {other} are one server, {address}"))
        }
        _ => None,
    }
}

/// Two are one, in that way.
pub(crate) fn would_count_twice(cause: String) -> CliError {
    CliError::Failed {
        cause,
        remedy: "each one once: of several the majority is believed, and this one would count \
                 twice"
            .into(),
    }
}
