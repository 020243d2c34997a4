//! The bytes of a saved clock.

use crate::common::{HOST_TSC, Rig, SECOND, at, cases};
use proptest::prelude::*;
use pvclock_host::msr::KVM_STEAL_TIME;
use pvclock_host::{
    ClockProvider, ClockSettings, DecodeError, GuestClock, RestorePolicy, SavedGuestClock, VcpuId,
};

const KVM: ClockSettings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC);
const HYPERV: ClockSettings = ClockSettings::new(ClockProvider::HyperV, HOST_TSC);

#[test]
fn bytes_that_are_no_saved_clock_are_refused() {
    let mut rig = Rig::kvm(KVM, 2, at(0));
    rig.write(1, KVM_STEAL_TIME, 0x101, at(0)).unwrap();
    let saved = rig.host.save(at(SECOND));
    let bytes = saved.to_bytes();
    assert_eq!(bytes.len(), 16 + 10 * 8 + 8 + 6 * 8 + 4 + 2 * 36);
    for length in 0..bytes.len() {
        let cut = SavedGuestClock::from_bytes(&bytes[..length]);
        assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "{length} bytes: {cut:?}");
    }
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        SavedGuestClock::from_bytes(&bytes).unwrap_err()
    };
    assert!(matches!(changed(0, 0), DecodeError::Magic { .. }));
    assert_eq!(changed(8, 4), DecodeError::Version { found: 4 });
    assert_eq!(changed(12, 5).to_string(), "5 where a provider from 0 to 4 is expected");
    assert!(matches!(changed(23, 0xff), DecodeError::Rate(_)));
    assert_eq!(changed(96, 2), DecodeError::Choice { found: 2, what: "0 or 1" });
    assert_eq!(changed(156 + 36, 0), DecodeError::Order { before: VcpuId(0), after: VcpuId(0) });
    assert!(matches!(changed(156 + 20, 0x43), DecodeError::Register(_)));
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(SavedGuestClock::from_bytes(&longer), Err(DecodeError::Trailing { extra: 1 }));
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_bytes_are_answered(mut bytes in prop::collection::vec(any::<u8>(), 0..300), head in any::<bool>()) {
        if head {
            let saved = Rig::kvm(KVM, 2, at(0)).host.save(at(1));
            bytes.splice(0..0, saved.to_bytes().into_iter().take(40));
        }
        if let Ok(saved) = SavedGuestClock::from_bytes(&bytes) && bytes[8] == 3 {
            prop_assert_eq!(saved.to_bytes(), bytes);
        }
    }

    /// One byte changed in a good encoding: refused, or restored without a
    /// panic and saved again.
    #[test]
    fn nearly_good_bytes_are_answered(at_byte in 0usize..220, to in any::<u8>(), hyperv in any::<bool>()) {
        let mut rig = if hyperv { Rig::hyperv(HYPERV, 2, at(0)) } else { Rig::kvm(KVM, 2, at(0)) };
        let mut bytes = rig.host.save(at(SECOND)).to_bytes();
        let at_byte = at_byte % bytes.len();
        bytes[at_byte] = to;
        if let Ok(saved) = SavedGuestClock::from_bytes(&bytes) {
            prop_assert_eq!(saved.to_bytes(), bytes);
            let settings = ClockSettings::new(saved.kind(), HOST_TSC);
            for policy in [RestorePolicy::Advance, RestorePolicy::Freeze] {
                if let Ok((host, _)) = GuestClock::restore(&saved, settings, policy, at(2 * SECOND)) {
                    let mut rig = Rig { host, memory: pvclock_host::PlainMemory::new(1) };
                    rig.enter_all(at(2 * SECOND));
                    rig.host.save(at(3 * SECOND));
                }
            }
        }
    }
}
