#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod agent;
mod connection;
mod exchange;
mod host;
mod told;

use std::time::Duration;

use wire::hosttime::Reason;

pub use address::{Address, NotAnAddress};
pub use agent::MAX_REPLY_BYTES;
use connection::GuestConnection;
pub use host::{HostState, Unusable};
pub use told::{TellFailure, TellOutcome};

/// Tells one guest, within `limit`, and a day at the most.
///
/// # Errors
/// Why it was not told.
pub fn tell(
    guest: &Address,
    host: HostState,
    reason: Reason,
    limit: Duration,
) -> Result<TellOutcome, TellFailure> {
    let mut connection = GuestConnection::open(guest, limit)?;
    match guest {
        Address::Agent(_) => agent::set_time(&mut connection, host),
        _ => exchange::answer(&mut connection, host, reason),
    }
}
