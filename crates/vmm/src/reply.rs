//! What a guest's reply means.

use guest::discovery::Found;
use guest::protocol::Words;
use guest::request::{Outcome, Request};

use crate::error::MachineError;

/// A vCPU's reply to a request, by its code.
///
/// # Errors
/// The guest could not do it, or there is no such code.
pub fn decode(
    vcpu: usize,
    request: Request,
    code: u64,
    words: Words,
) -> Result<Words, MachineError> {
    let request = || format!("{request:?}");
    match Outcome::from_number(code) {
        Some(Outcome::Done) => Ok(words),
        Some(outcome) => Err(MachineError::Declined { vcpu, request: request(), outcome }),
        None => Err(MachineError::InvalidReply { vcpu, request: request(), code, words }),
    }
}

/// The clocks in a reply to [`Request::Discover`].
///
/// # Errors
/// [`MachineError::InvalidReply`].
pub fn found(vcpu: usize, words: Words) -> Result<Found, MachineError> {
    let (request, code) = (format!("{:?}", Request::Discover), Outcome::Done.number());
    Found::decode(&words).ok_or(MachineError::InvalidReply { vcpu, request, code, words })
}
