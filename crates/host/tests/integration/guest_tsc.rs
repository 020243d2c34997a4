//! The guest's TSC: where the host's begins anew, and where hardware scales it.

use crate::common::{HOST_TSC, Rig, SECOND, at};
use pvclock::kvm_clock::Flags;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::{ClockProvider, ClockSettings, HostEvent, TscRatio, VcpuId};

const KVM: ClockSettings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC);

#[test]
fn a_host_that_wakes_with_a_lower_tsc_lets_no_guest_tsc_go_back() {
    let mut rig = Rig::kvm(KVM, 2, at(10 * SECOND));
    rig.event(HostEvent::HostSuspended, at(20 * SECOND));
    let before = rig.host.guest_tsc(VcpuId(1), at(20 * SECOND)).unwrap();
    // Asleep for an hour; the TSC began anew.
    let woken = at(3_620 * SECOND).changed(|new| new.tsc = Ticks(1_000));
    rig.event(HostEvent::HostResumed, woken);
    assert_eq!(rig.host.guest_tsc(VcpuId(1), woken), Some(before));
    assert_eq!(rig.host.tsc_offset(VcpuId(0)), Some(before.wrapping_sub(1_000)));
    rig.enter_all(woken);
    assert_eq!(rig.guest_reads(1, woken), Ok(Nanos(3_610 * SECOND)), "its sleep included");
    assert!(rig.page(0).flags.contains(Flags::GUEST_STOPPED));
}

#[test]
fn a_host_that_did_not_say_that_it_sleeps_goes_on_from_the_last_entry() {
    let mut rig = Rig::kvm(KVM, 1, at(10 * SECOND));
    rig.host.before_entry(VcpuId(0), at(90 * SECOND), &rig.memory);
    let before = rig.host.guest_tsc(VcpuId(0), at(90 * SECOND)).unwrap();
    let woken = at(3_620 * SECOND).changed(|new| new.tsc = Ticks(1_000));
    rig.event(HostEvent::HostResumed, woken);
    assert_eq!(rig.host.guest_tsc(VcpuId(0), woken), Some(before));
}

/// By arithmetic in whole numbers: guest · 2^bits / host, cut.
#[test]
fn a_ratio_has_the_bits_that_its_hardware_has() {
    let (guest, host) = (Hertz(2_445_428_000), Hertz(2_994_375_000));
    for bits in [32, 48] {
        let ratio = TscRatio::new(guest, host, bits).unwrap();
        let exact = (u128::from(guest.0) << bits) / u128::from(host.0);
        assert_eq!(u128::from(ratio.raw()), exact << (48 - bits));
        // As that hardware computes it: the product, and `bits` of it cut off.
        let tsc = 987_654_321_987_654_321_u64;
        let scaled = (u128::from(tsc) * exact) >> bits;
        assert_eq!(u128::from(ratio.apply(tsc)), scaled);
    }
    // A second's worth, at 32 bits less than a cycle slow, and not the same.
    let [amd, intel] = [32, 48].map(|bits| TscRatio::new(guest, host, bits).unwrap());
    assert_eq!(guest.0 - amd.apply(host.0), 1);
    assert!(amd.apply(1 << 60) < intel.apply(1 << 60));
    let slow = |bits| TscRatio::new(Hertz(1_000), Hertz(1_000 << 33), bits);
    assert!(slow(32).is_err(), "cut to 0");
    assert!(slow(48).is_ok());
    // 2^8 and more do not fit AMD's register.
    let fast = |bits| TscRatio::new(Hertz(256_000), Hertz(1_000), bits);
    assert!(fast(32).is_err() && fast(48).is_ok());
}
