//! What a guest's reply means.

use guest::discovery::Discovery;
use guest::protocol::Words;
use guest::request::{GuestRequest, RequestOutcome};

use crate::error::MachineError;

/// A vCPU's reply to a request, by its code.
///
/// # Errors
/// The guest could not do it, or there is no such code.
pub fn decode(
    vcpu: usize,
    request: GuestRequest,
    code: u64,
    words: Words,
) -> Result<Words, MachineError> {
    let request = || format!("{request:?}");
    match RequestOutcome::from_number(code) {
        Some(RequestOutcome::Done) => Ok(words),
        Some(outcome) => Err(MachineError::Declined { vcpu, request: request(), outcome }),
        None => Err(MachineError::InvalidReply { vcpu, request: request(), code, words }),
    }
}

/// The clocks in a reply to [`GuestRequest::Discover`].
///
/// # Errors
/// [`MachineError::InvalidReply`].
pub fn decode_discovery(vcpu: usize, words: Words) -> Result<Discovery, MachineError> {
    let (request, code) = (format!("{:?}", GuestRequest::Discover), RequestOutcome::Done.number());
    Discovery::decode(&words).ok_or(MachineError::InvalidReply { vcpu, request, code, words })
}
