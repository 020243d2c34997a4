//! The host's side of time messages: sends a guest the time over AF_VSOCK, over the Unix socket
//! of Firecracker and cloud-hypervisor, over a virtio-serial port, or, to a guest without
//! Parachron, over qemu-guest-agent's protocol.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use sources::tell::{self, Address, HostState};
//! use sources::wire::hosttime::Reason;
//!
//! let guest: Address = "vsock:3".parse()?;
//! let host = HostState::read(None)?;
//! let told = tell::tell(&guest, host, Reason::Restored, Duration::from_secs(2))?;
//! println!("it was off by {} ns ± {} ns", told.before.offset_ns, told.before.bound_ns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guest decides whether to trust its host. A host that does not know its own clock's error
//! sends nothing.

#![forbid(unsafe_code)]

mod address;
mod agent;
mod connection;
mod exchange;
mod host;
mod told;

use std::time::Duration;

use crate::wire::hosttime::Reason;

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
