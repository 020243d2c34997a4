//! A saved clock as text.

use proptest::prelude::*;
use pvclock_host::msr::KVM_STEAL_TIME;
use pvclock_host::{
    ClockProvider, ClockSettings, GuestClock, PlainMemory, RestorePolicy, SavedGuestClock,
};
use serde_json::{Value, json};

use crate::common::{HOST_TSC, Rig, SECOND, at, cases};

const KVM: ClockSettings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC);
const HYPERV: ClockSettings = ClockSettings::new(ClockProvider::HyperV, HOST_TSC);

fn read(text: &str) -> Result<SavedGuestClock, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn what_is_no_saved_clock_is_refused() {
    let mut rig = Rig::kvm(KVM, 2, at(0));
    rig.write(1, KVM_STEAL_TIME, 0x101, at(0)).unwrap();
    let saved = rig.host.save(at(SECOND));
    let text = serde_json::to_string(&saved).unwrap();
    for length in 0..text.len() {
        assert!(read(&text[..length]).is_err(), "{length} bytes");
    }
    assert!(read(&format!("{text}0")).is_err());
    let changed = |pointer: &str, to: Value| {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        *value.pointer_mut(pointer).unwrap() = to;
        read(&value.to_string()).unwrap_err()
    };
    for (pointer, to, error) in [
        ("/version", json!(3), "the saved clock has version 3; this program knows version 4"),
        ("/provider", json!("xen"), "unknown variant `xen`"),
        ("/provider", json!(3), "expected value"),
        ("/tsc_hz", json!(7), "TSC frequency: no scale for 7 Hz"),
        ("/hyperv/unacknowledged_tsc_hz", json!(7), "TSC frequency: no scale for 7 Hz"),
        ("/hyperv/reenlightenment", json!(u64::MAX), "saved register: MSR 0x40000106"),
        ("/hyperv/emulation_control", json!(2), "saved register: MSR 0x40000107"),
        ("/hyperv/invariant_control", json!(2), "saved register: MSR 0x40000118"),
        ("/boot_vcpu_uses_old_msr", json!(2), "invalid type"),
        ("/host/boot_ns", json!(-1), "invalid value"),
        ("/vcpus/1/index", json!(0), "vCPU 0 follows vCPU 0"),
        ("/vcpus/1/tsc_hz", json!(u64::MAX), "TSC frequency"),
        ("/vcpus/0/msr_system_time", json!(0x43), "saved register: MSR 0x4b564d01"),
        ("/vcpus/1/msr_steal_time", json!(0x43), "saved register: MSR 0x4b564d03"),
    ] {
        let found = changed(pointer, to);
        assert!(found.contains(error), "{pointer}: {found}");
    }
    assert!(read(&text.replacen("\"tsc\"", "\"other\"", 1)).unwrap_err().contains("other"));
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// One byte changed in a good text: refused, or restored without a
    /// panic and saved again.
    #[test]
    fn nearly_good_text_is_answered(at_byte in 0usize..2_000, to in b' '..b'~', hyperv in any::<bool>()) {
        let mut rig = if hyperv { Rig::hyperv(HYPERV, 2, at(0)) } else { Rig::kvm(KVM, 2, at(0)) };
        let mut bytes = serde_json::to_vec(&rig.host.save(at(SECOND))).unwrap();
        let at_byte = at_byte % bytes.len();
        bytes[at_byte] = to;
        if let Ok(saved) = read(str::from_utf8(&bytes).unwrap()) {
            prop_assert_eq!(&crate::common::reread(&saved), &saved);
            let settings = ClockSettings::new(saved.kind(), HOST_TSC);
            for policy in [RestorePolicy::Advance, RestorePolicy::Freeze] {
                if let Ok((host, _)) = GuestClock::restore(&saved, settings, policy, at(2 * SECOND)) {
                    let mut rig = Rig { host, memory: PlainMemory::new(1) };
                    rig.enter_all(at(2 * SECOND));
                    rig.host.save(at(3 * SECOND));
                }
            }
        }
    }
}
