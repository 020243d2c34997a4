//! Arbitrary bytes as a saved machine with a Linux guest.

use vmm::SavedMachine;

/// What is read is written as it was; all else is refused with a reason.
pub(crate) fn vmm_saved(data: &[u8]) {
    let written = |saved: &SavedMachine| {
        let mut bytes = Vec::new();
        saved.write_to(&mut bytes).expect("it was read");
        bytes
    };
    // With the checksum, which no fuzzer finds.
    let summed = [data, &crc32fast::hash(data).to_le_bytes()].concat();
    for bytes in [data, &summed] {
        match SavedMachine::read_from(bytes) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(saved) => {
                let bytes = written(&saved);
                let again = SavedMachine::read_from(bytes.as_slice()).expect("it was just written");
                assert_eq!(written(&again), bytes);
            }
        }
    }
}
