//! What comes back from a daemon that was asked.

use clock::timeline::chronyd::{self, NoAnswer};

/// A reply of chronyd's to the request whose number it carries, and to
/// another: read as the layout has it, or refused.
pub(crate) fn chronyd(data: &[u8]) {
    let sequence =
        data.get(16..20).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    match chronyd::parse(data, sequence) {
        Ok(tracking) => {
            assert_eq!(data.len(), chronyd::BYTES);
            assert!(tracking.growth_ppb >= 1_000);
            assert!(tracking.error_ns.is_none() || data[54..56] != [0, 3]);
            let other = chronyd::parse(data, !sequence);
            assert_eq!(other, Err(NoAnswer::Sequence(sequence)));
        }
        Err(NoAnswer::Length(length)) => assert_eq!(length, data.len()),
        Err(NoAnswer::Sequence(other)) => panic!("{other} is not {sequence}"),
        Err(NoAnswer::Version(..) | NoAnswer::Refused(..)) => {}
    }
}
