//! The bytes of a saved clock.

mod common;

use common::{HOST_TSC, Rig, SECOND, at, cases};
use host::msr::KVM_STEAL_TIME;
use host::{DecodeError, GuestClock, Kind, Policy, Saved, Settings, VcpuId};
use proptest::prelude::*;

const KVM: Settings = Settings::new(Kind::Kvm, HOST_TSC);
const HYPERV: Settings = Settings::new(Kind::HyperV, HOST_TSC);

#[test]
fn bytes_that_are_no_saved_clock_are_refused() {
    let mut rig = Rig::kvm(KVM, 2, at(0));
    rig.write(1, KVM_STEAL_TIME, 0x101, at(0)).unwrap();
    let saved = rig.host.save(at(SECOND));
    let bytes = saved.to_bytes();
    assert_eq!(bytes.len(), 16 + 7 * 8 + 8 + 5 * 8 + 4 + 2 * 28);
    for length in 0..bytes.len() {
        let cut = Saved::from_bytes(&bytes[..length]);
        assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "{length} bytes: {cut:?}");
    }
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        Saved::from_bytes(&bytes).unwrap_err()
    };
    assert!(matches!(changed(0, 0), DecodeError::Magic { .. }));
    assert_eq!(changed(8, 2), DecodeError::Version { found: 2 });
    assert_eq!(changed(12, 5).to_string(), "5 where a provider from 0 to 4 is expected");
    assert!(matches!(changed(23, 0xff), DecodeError::Rate(_)));
    assert_eq!(changed(72, 2), DecodeError::Choice { found: 2, what: "0 or 1" });
    assert_eq!(changed(124 + 28, 0), DecodeError::Order { before: VcpuId(0), after: VcpuId(0) });
    assert!(matches!(changed(124 + 12, 0x43), DecodeError::Register(_)));
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(Saved::from_bytes(&longer), Err(DecodeError::Trailing { extra: 1 }));
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn any_bytes_are_answered(mut bytes in prop::collection::vec(any::<u8>(), 0..300), head in any::<bool>()) {
        if head {
            let saved = Rig::kvm(KVM, 2, at(0)).host.save(at(1));
            bytes.splice(0..0, saved.to_bytes().into_iter().take(40));
        }
        if let Ok(saved) = Saved::from_bytes(&bytes) {
            prop_assert_eq!(saved.to_bytes(), bytes);
        }
    }

    /// One byte changed in a good encoding: refused, or restored without a
    /// panic and saved again.
    #[test]
    fn nearly_good_bytes_are_answered(at_byte in 0usize..180, to in any::<u8>(), hyperv in any::<bool>()) {
        let mut rig = if hyperv { Rig::hyperv(HYPERV, 2, at(0)) } else { Rig::kvm(KVM, 2, at(0)) };
        let mut bytes = rig.host.save(at(SECOND)).to_bytes();
        let at_byte = at_byte % bytes.len();
        bytes[at_byte] = to;
        if let Ok(saved) = Saved::from_bytes(&bytes) {
            prop_assert_eq!(saved.to_bytes(), bytes);
            let settings = Settings::new(saved.kind(), HOST_TSC);
            for policy in [Policy::Advance, Policy::Freeze] {
                if let Ok((host, _)) = GuestClock::restore(&saved, settings, policy, at(2 * SECOND)) {
                    let mut rig = Rig { host, memory: host::PlainMemory::new(1) };
                    rig.enter_all(at(2 * SECOND));
                    rig.host.save(at(3 * SECOND));
                }
            }
        }
    }
}
