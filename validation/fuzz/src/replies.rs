//! Replies of daemons.

use sources::wire::chronyd::{ChronydRequest, MAX_REPLY_BYTES, ReplyError};

/// A reply of chronyd's to the request whose number it carries, and to
/// another: parsed as the layout has it, or refused.
pub(crate) fn chronyd(data: &[u8]) {
    let sequence =
        data.get(16..20).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    match sources::wire::chronyd::tracking(data, sequence) {
        Ok(tracking) => {
            assert_eq!(data.len(), MAX_REPLY_BYTES);
            let bound = tracking.error_bound();
            assert!(bound.growth_ppb >= 1_000);
            assert!(bound.error_ns.is_none() || data[54..56] != [0, 3]);
            assert!(tracking.system_offset.value().is_finite());
            let other = sources::wire::chronyd::tracking(data, !sequence);
            assert_eq!(other, Err(ReplyError::Sequence(sequence)));
        }
        Err(ReplyError::Length { found, .. }) => assert_eq!(found, data.len()),
        Err(ReplyError::Sequence(other)) => panic!("{other} is not {sequence}"),
        Err(_) => {}
    }
    let burst = ChronydRequest::Burst { good: 3, max: 5 };
    for request in [ChronydRequest::MakeStep, ChronydRequest::ResetSources, burst] {
        if sources::wire::chronyd::acknowledgement(data, request, sequence).is_ok() {
            // Of one command only, and not also data.
            assert_eq!(data[5], request.encode(sequence)[5]);
            assert!(sources::wire::chronyd::tracking(data, sequence).is_err());
        }
    }
}
