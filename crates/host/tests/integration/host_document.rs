//! docs/protocols/host.md: each sum is done again, and its figures are what
//! this crate gives.

#[path = "../../../pvclock/c/tests/protocol_examples/arithmetic.rs"]
mod arithmetic;
#[path = "../../../pvclock/c/tests/protocol_examples/document.rs"]
#[allow(dead_code, reason = "this document shows no page's bytes")]
mod document;

use crate::common::{HOST_TSC, Rig, SECOND, at, at_rate};
use document::Document;
use pvclock::{Hertz, Nanos, Ticks};
use pvclock_host::{
    ClockProvider, ClockSettings, GuestClock, HostEvent, RestorePolicy, RestoredTransfer, TscRatio,
    VcpuId,
};

const HOST: Document = Document::of(include_str!("../../../../docs/protocols/host.md"));
const KVM: ClockSettings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC);

#[test]
fn every_sum_is_right() {
    assert_eq!(HOST.check_sums(), 10);
}

#[test]
fn the_step_of_a_host_that_is_steered() {
    // The clock runs 10 ppm slower than the TSC's rate says.
    let settings = KVM.changed(|new| new.never_back = false);
    let mut rig = Rig::kvm(settings, 1, at(0));
    let tsc = at(100 * SECOND).tsc;
    let now = at(100 * SECOND - 1_000_000).changed(|new| new.tsc = tsc);
    let before = rig.guest_reads(0, now).unwrap().0;
    rig.event(HostEvent::TscOffsetChanged { vcpu: VcpuId(0), tsc_offset: 0 }, now);
    rig.enter_all(now);
    let back = before - rig.guest_reads(0, now).unwrap().0;
    // mul is cut by less than 2^−31.
    assert!((1_000_000 - 50..=1_000_000).contains(&back), "{back}");
    HOST.states("a millisecond");
}

#[test]
fn the_frequency_that_virtualbox_advertised() {
    let host = Hertz(3_400_109_000);
    let settings = ClockSettings::new(ClockProvider::Kvm, host).advertise(Hertz(3_478_274_491));
    let rig = Rig::kvm(settings, 1, at_rate(0, host));
    let counted = rig.guest_reads(0, at_rate(300 * SECOND, host)).unwrap().0;
    assert!((293_258_252_803 - 140..=293_258_252_803).contains(&counted), "{counted}");
    HOST.states("293.26 s");
}

#[test]
fn the_example_of_a_restore() {
    let known = |error| Some(Nanos(error));
    let mut rig = Rig::kvm(KVM.changed(|new| new.real_time_error = known(300)), 1, at(0));
    let saved = rig.host.save(at(SECOND));
    assert_eq!(saved.clock(), Nanos(999_999_999));
    assert_eq!(saved.vcpus().next(), Some((VcpuId(0), 2_600_000_000)));
    let here = ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000)).changed(|new| {
        new.tsc_scaling = Some(48);
        new.real_time_error = known(50);
    });
    let now = at(61 * SECOND).changed(|new| {
        new.tsc = Ticks(122_000_000_087);
        new.boot = Nanos(61_000_000_005);
    });
    let restored = RestoredTransfer::plan(&saved, &here, RestorePolicy::Advance, now).unwrap();
    assert_eq!(restored.clock, Nanos(60_999_999_999));
    assert_eq!(restored.ratio.raw(), 365_917_469_723_852);
    assert_eq!(restored.ratio, TscRatio::new(HOST_TSC, here.host_tsc, 48).unwrap());
    assert_eq!(restored.ratio.apply(now.tsc.0), 158_600_000_113);
    assert_eq!(restored.vcpus[0].tsc, 158_600_000_000);
    assert_eq!(restored.vcpus[0].tsc_offset.cast_signed(), -113);
    assert_eq!(restored.step.bound, Nanos(354));
    let (host, again) = GuestClock::restore(&saved, here, RestorePolicy::Advance, now).unwrap();
    assert_eq!(again, restored);
    assert_eq!(host.tsc_offset(VcpuId(0)), Some(restored.vcpus[0].tsc_offset));
}
