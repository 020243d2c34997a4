//! Saving, restoring and migrating.

use crate::common::{HOST_TSC, REAL_AT_BOOT, Rig, SECOND, at, at_rate, cases, reread};
use proptest::prelude::*;
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::TimeReader;
use pvclock::steal_time::StealReader;
use pvclock::units::UnixTime;
use pvclock::{Hertz, Nanos, ReadError, Ticks};
use pvclock_host::msr::{
    HV_REENLIGHTENMENT_CONTROL, HV_TIME_REF_COUNT, HV_TSC_EMULATION_CONTROL,
    HV_TSC_EMULATION_STATUS, HV_TSC_FREQUENCY, KVM_STEAL_TIME,
};
use pvclock_host::pages::{ReferencePage, StealPage, TimePage};
use pvclock_host::{
    ClockMemory, ClockProvider, ClockSettings, GuestClock, HostClocks, HostEvent, HostLogEvent,
    Reenlightenment, RestoreError, RestorePolicy, RestoredTransfer, SettingsError, TscRatio,
    VcpuId,
};

const KVM: ClockSettings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC);
const HYPERV: ClockSettings = ClockSettings::new(ClockProvider::HyperV, HOST_TSC);

/// Another host's clocks: `real` ns after the first one's boot by real time,
/// on a machine up for a week less, whose TSC began somewhere.
fn elsewhere(real: u64, tsc: Hertz) -> HostClocks {
    let up = real % (900 * SECOND) + 5;
    let ticks = u128::from(up) * u128::from(tsc.0) / u128::from(SECOND) + 77;
    HostClocks::new(Ticks(ticks as u64), Nanos(up), UnixTime(Nanos(REAL_AT_BOOT + real)))
}

/// The same VM on another host, its memory with it.
fn moved(
    rig: Rig,
    settings: ClockSettings,
    policy: RestorePolicy,
    from: HostClocks,
    to: HostClocks,
) -> (Rig, RestoredTransfer) {
    let Rig { mut host, memory } = rig;
    let saved = reread(&host.save(from));
    let (host, restored) = GuestClock::restore(&saved, settings, policy, to).unwrap();
    (Rig { host, memory }, restored)
}

fn takes_guest_stopped(rig: &Rig, vcpu: u32) -> bool {
    let page: &TimePage = rig.memory.page(pvclock_host::PlainMemory::time(vcpu)).unwrap();
    TimeReader::new(page).take_guest_stopped()
}

#[test]
fn advance_and_freeze_do_what_they_say_to_clock_and_tsc() {
    for (policy, away) in [(RestorePolicy::Advance, 60 * SECOND), (RestorePolicy::Freeze, 0)] {
        let rig = Rig::kvm(KVM, 2, at(0));
        let (from, to) = (at(10 * SECOND), elsewhere(70 * SECOND, HOST_TSC));
        let tsc = rig.host.guest_tsc(VcpuId(1), from).unwrap();
        let (mut rig, restored) = moved(rig, KVM, policy, from, to);
        let passed = away / 1_000 * (HOST_TSC.0 / 1_000_000);
        assert_eq!(rig.host.guest_tsc(VcpuId(1), to), Some(tsc + passed));
        assert_eq!(restored.vcpus[1].tsc_offset, rig.host.tsc_offset(VcpuId(1)).unwrap());
        assert_eq!(restored.ratio, TscRatio::ONE);
        rig.enter_all(to);
        let read = rig.guest_reads(1, to).unwrap().0;
        assert!(read.abs_diff(10 * SECOND + away) <= 4, "{policy:?}: {read}");
        let log: Vec<_> = rig.host.log().map(|entry| entry.what).collect();
        let expected = HostLogEvent::Restored { clock: restored.clock, away: Nanos(away) };
        assert_eq!(log.last(), Some(&expected));
    }
}

#[test]
fn guest_stopped_is_seen_exactly_once_after_a_restore() {
    for sends_resumed in [false, true] {
        let mut rig = Rig::kvm(KVM, 2, at(0));
        rig.event(HostEvent::Paused, at(SECOND));
        let (from, to) = (at(SECOND), elsewhere(2 * SECOND, HOST_TSC));
        let (mut rig, _) = moved(rig, KVM, RestorePolicy::Advance, from, to);
        let version = rig.page(0).version;
        if sends_resumed {
            rig.event(HostEvent::Resumed, to);
        }
        rig.enter_all(to);
        assert_eq!(rig.page(0).version, version + 2, "one update");
        assert!(takes_guest_stopped(&rig, 0) && takes_guest_stopped(&rig, 1));
        rig.event(HostEvent::ClockSet { clock: Nanos(SECOND) }, to);
        rig.enter_all(to);
        assert!(!takes_guest_stopped(&rig, 0));
    }
}

#[test]
fn a_restore_describes_itself() {
    let mut rig = Rig::kvm(KVM, 1, at(0));
    let saved = rig.host.save(at(SECOND));
    let scaling = ClockSettings::new(ClockProvider::Kvm, Hertz(2_000_000_000))
        .changed(|new| new.tsc_scaling = Some(48));
    let to = elsewhere(61 * SECOND, scaling.host_tsc);
    let restored = RestoredTransfer::plan(&saved, &scaling, RestorePolicy::Advance, to).unwrap();
    assert_eq!(
        restored.to_string(),
        "policy advance: the time away passed for the guest\n\
         clock: 999999999 ns + 60000000000 ns away = 60999999999 ns\n\
         step of the clock: at most 4 ns plus the real-time errors of the two hosts, which are \
         unknown, and any leap second in between, as TAI is unknown\n\
         TSC: advertised as 2600000000 Hz\n\
         TSC: scaled by 0x14ccccccccccc · 2^-48\n\
         TSC of vCPU 0: 2600000000 + 156000000000 = 158600000000; offset -113\n"
    );
    // The host's TSC is 61.000000005 s · 2 GHz + 77 = 122000000087; times 1.3
    // it is 158600000113, the ratio being cut.
    let known = |error| scaling.changed(|new| new.real_time_error = Some(Nanos(error)));
    let mut rig = Rig::kvm(KVM.changed(|new| new.real_time_error = Some(Nanos(300))), 1, at(0));
    let saved = rig.host.save(at(SECOND));
    let step = RestoredTransfer::plan(&saved, &known(50), RestorePolicy::Advance, to).unwrap().step;
    assert_eq!((step.bound, step.without_real_time), (Nanos(354), false));
    let frozen = RestoredTransfer::plan(&saved, &scaling, RestorePolicy::Freeze, to).unwrap().step;
    assert_eq!((frozen.bound, frozen.without_real_time), (Nanos(4), false));
    let earlier = to.changed(|new| new.real = UnixTime(Nanos(saved.host_clocks().real.0.0 - 9)));
    let back = RestoredTransfer::plan(&saved, &known(50), RestorePolicy::Advance, earlier).unwrap();
    assert_eq!((back.away, back.real_time_back, back.step.bound), (Nanos(0), Nanos(9), Nanos(363)));
}

#[test]
fn an_advertised_frequency_keeps_its_error() {
    let advertised = KVM.advertise(Hertz(2_860_000_000));
    let rig = Rig::kvm(advertised, 1, at(0));
    let here = ClockSettings::new(ClockProvider::Kvm, Hertz(1_300_000_000));
    let (from, to) = (at(SECOND), elsewhere(2 * SECOND, here.host_tsc));
    let (rig, restored) = moved(rig, here, RestorePolicy::Advance, from, to);
    assert_eq!(restored.advertised_tsc, Hertz(1_430_000_000), "still 10 % too much");
    assert_eq!(rig.host.settings().advertised_tsc, restored.advertised_tsc);
    let leaf = rig.host.cpuid(0x4000_0010, 0).unwrap();
    assert_eq!((leaf.eax, leaf.ebx), (1_430_000, 1_000_000));
}

#[test]
fn what_cannot_be_restored_is_refused_with_its_operands() {
    let mut rig = Rig::kvm(KVM, 1, at(0));
    rig.event(HostEvent::ClockSet { clock: Nanos(u64::MAX - 10) }, at(0));
    rig.enter_all(at(0));
    let saved = rig.host.save(at(0));
    let restore = |settings, now| {
        GuestClock::restore(&saved, settings, RestorePolicy::Advance, now).map(|_| ())
    };
    let kind =
        RestoreError::Provider { saved: ClockProvider::Kvm, requested: ClockProvider::HyperV };
    assert_eq!(restore(HYPERV, at(0)), Err(kind));
    let clock = RestoreError::Clock { clock: Nanos(u64::MAX - 10), away: Nanos(11) };
    assert_eq!(restore(KVM, at(11)), Err(clock));
    let slow = ClockSettings::new(ClockProvider::Kvm, Hertz(5));
    assert!(matches!(restore(slow, at(0)), Err(RestoreError::Settings(_))));
    let scaling = ClockSettings::new(ClockProvider::Kvm, Hertz(1_000))
        .changed(|new| new.tsc_scaling = Some(48));
    assert!(matches!(restore(scaling, at(0)), Err(RestoreError::Ratio(_))));
    let mut rig = Rig::kvm(KVM, 1, at(0));
    let saved = rig.host.save(at(0).changed(|new| new.real = UnixTime(Nanos(0))));
    let far = at(0).changed(|new| new.real = UnixTime(Nanos(u64::MAX / 2)));
    let tsc = GuestClock::restore(&saved, KVM, RestorePolicy::Advance, far).map(|_| ());
    let (vcpu, away) = (VcpuId(0), Nanos(u64::MAX / 2));
    assert_eq!(tsc, Err(RestoreError::Tsc { vcpu, away, rate: HOST_TSC }));
}

#[test]
fn a_vcpu_that_was_preempted_when_it_was_saved_runs_when_it_is_restored() {
    let mut rig = Rig::kvm(KVM, 1, at(0));
    let address = pvclock_host::PlainMemory::steal(0);
    rig.write(0, KVM_STEAL_TIME, address.0 | 1, at(0)).unwrap();
    let stolen = |ns| HostEvent::StealMeasured { vcpu: VcpuId(0), stolen: Nanos(ns) };
    rig.event(stolen(500), at(0));
    rig.enter(0, at(0));
    rig.event(HostEvent::VcpuPreempted { vcpu: VcpuId(0) }, at(0));
    let to = elsewhere(SECOND, HOST_TSC);
    let (mut rig, _) = moved(rig, KVM, RestorePolicy::Advance, at(0), to);
    let read = |rig: &Rig| {
        let page: &StealPage = rig.memory.page(address).unwrap();
        StealReader::new(page).read().unwrap()
    };
    assert!(read(&rig).preempted);
    rig.enter(0, to);
    assert_eq!((read(&rig).preempted, read(&rig).steal), (false, Nanos(500)));
    rig.event(stolen(7), to);
    rig.enter(0, to);
    assert_eq!(read(&rig).steal, Nanos(507), "the sum continues");
}

/// The rate that a guest is to acknowledge must be one that its page can express.
#[test]
fn a_rate_that_no_page_can_express_is_refused_before_the_restore() {
    let mut rig = Rig::hyperv(HYPERV, 1, at(0));
    rig.write(0, HV_REENLIGHTENMENT_CONTROL, 1 << 16, at(0)).unwrap();
    rig.write(0, HV_TSC_EMULATION_CONTROL, 1, at(0)).unwrap();
    let saved = rig.host.save(at(SECOND));
    let slow = Hertz(9_000_000);
    let here =
        ClockSettings::new(ClockProvider::HyperV, slow).changed(|new| new.tsc_trapping = true);
    let refused =
        GuestClock::restore(&saved, here, RestorePolicy::Freeze, at_rate(SECOND, slow)).map(|_| ());
    assert!(
        matches!(refused, Err(RestoreError::Settings(SettingsError::AdvertisedTsc(_)))),
        "{refused:?}"
    );
}

fn hyperv_reads(rig: &Rig, now: HostClocks) -> Result<u64, ReadError> {
    let tsc = rig.host.guest_tsc(VcpuId(0), now).unwrap();
    let page: &ReferencePage = rig.memory.page(pvclock_host::PlainMemory::reference(0)).unwrap();
    ReferenceReader::new(page).units_100ns(&|| tsc)
}

/// A guest that requested re-enlightenment, moved to a host of another rate.
fn reenlightened(traps: bool, emulation: u64) -> (Rig, RestoredTransfer, HostClocks, Hertz) {
    let mut rig = Rig::hyperv(HYPERV, 1, at(0));
    rig.write(0, HV_REENLIGHTENMENT_CONTROL, 1 << 16 | 0xee, at(0)).unwrap();
    rig.write(0, HV_TSC_EMULATION_CONTROL, emulation, at(0)).unwrap();
    let slower = Hertz(2_000_000_000);
    let here =
        ClockSettings::new(ClockProvider::HyperV, slower).changed(|new| new.tsc_trapping = traps);
    let to = elsewhere(3 * SECOND, slower);
    let (mut rig, restored) = moved(rig, here, RestorePolicy::Advance, at(SECOND), to);
    rig.enter_all(to);
    (rig, restored, to, slower)
}

fn later(now: HostClocks, seconds: u64, tsc: Hertz) -> HostClocks {
    HostClocks::new(
        Ticks(now.tsc.0 + seconds * tsc.0),
        Nanos(now.boot.0 + seconds * SECOND),
        UnixTime(Nanos(now.real.0.0 + seconds * SECOND)),
    )
}

#[test]
fn a_hyperv_guest_has_the_old_rate_emulated_until_it_acknowledges() {
    let (mut rig, restored, to, rate) = reenlightened(true, 1);
    assert!(restored.traps_tsc && rig.host.traps_tsc());
    assert_eq!(restored.interrupt, Some(Reenlightenment { vector: 0xee, vcpu: VcpuId(0) }));
    assert_eq!(restored.advertised_tsc, HOST_TSC);
    let now = later(to, 1, rate);
    let page = |rig: &Rig| {
        let page: &ReferencePage =
            rig.memory.page(pvclock_host::PlainMemory::reference(0)).unwrap();
        ReferenceReader::new(page).info().unwrap()
    };
    assert_eq!(page(&rig).sequence, 1, "as it was saved");
    rig.event(HostEvent::HostResumed, now);
    assert_eq!(page(&rig).sequence, 1, "emulation has not ended");
    let tsc = |rig: &Rig, at| rig.host.guest_tsc(VcpuId(0), at).unwrap();
    assert_eq!(tsc(&rig, now) - tsc(&rig, to), HOST_TSC.0, "the old rate");
    assert!(hyperv_reads(&rig, now).unwrap().abs_diff(40_000_000) <= 4);
    assert_eq!(rig.read(0, HV_TSC_EMULATION_STATUS, now), Ok(1));
    assert_eq!(rig.read(0, HV_TSC_FREQUENCY, now), Ok(rate.0), "the rate to come");
    let before = tsc(&rig, now);
    rig.write(0, HV_TSC_EMULATION_STATUS, 0, now).unwrap();
    assert!(!rig.host.traps_tsc());
    assert_eq!(tsc(&rig, now), before, "it goes on");
    assert_eq!(page(&rig).sequence, 2, "written for the new rate");
    let then = later(now, 1, rate);
    assert_eq!(tsc(&rig, then) - tsc(&rig, now), rate.0, "the new rate");
    assert!(hyperv_reads(&rig, then).unwrap().abs_diff(50_000_000) <= 6);
    assert_eq!(rig.read(0, HV_TSC_EMULATION_STATUS, then), Ok(0));
}

/// On a host of the same rate: bytes and sequence stay, and the counter gives
/// the page's time.
#[test]
fn a_page_of_a_guest_that_wants_emulation_is_restored_as_it_was() {
    for policy in [RestorePolicy::Advance, RestorePolicy::Freeze] {
        let mut rig = Rig::hyperv(HYPERV, 1, at(0));
        rig.write(0, HV_REENLIGHTENMENT_CONTROL, 1 << 16 | 0xee, at(0)).unwrap();
        rig.write(0, HV_TSC_EMULATION_CONTROL, 1, at(0)).unwrap();
        let page = |rig: &Rig| {
            let page: &ReferencePage =
                rig.memory.page(pvclock_host::PlainMemory::reference(0)).unwrap();
            ReferenceReader::new(page).info()
        };
        let saved = page(&rig);
        let to = elsewhere(3 * SECOND, HOST_TSC);
        let (mut rig, restored) = moved(rig, HYPERV, policy, at(SECOND), to);
        assert_eq!(restored.interrupt, None);
        rig.enter_all(to);
        assert_eq!(page(&rig), saved, "{policy:?}");
        let now = later(to, 1, HOST_TSC);
        let read = hyperv_reads(&rig, now).unwrap();
        let expected = 20_000_000 + if policy == RestorePolicy::Advance { 20_000_000 } else { 0 };
        assert!(read.abs_diff(expected) <= 4, "{policy:?}: {read}");
        assert_eq!(rig.read(0, HV_TIME_REF_COUNT, now), Ok(read), "{policy:?}");
    }
}

#[test]
fn a_hyperv_guest_without_emulation_has_no_page_until_it_takes_note() {
    for (traps, emulation) in [(false, 1), (true, 0)] {
        let (rig, restored, to, rate) = reenlightened(traps, emulation);
        assert!(!restored.traps_tsc && restored.interrupt.is_some());
        assert_eq!(hyperv_reads(&rig, to), Err(ReadError::SwitchedOff { version: 0 }));
        // Moved on before it took note: it still waits.
        let onward = ClockSettings::new(ClockProvider::HyperV, rate);
        let next = elsewhere(5 * SECOND, rate);
        let (mut rig, again) = moved(rig, onward, RestorePolicy::Advance, later(to, 1, rate), next);
        rig.enter_all(next);
        assert!(again.interrupt.is_some());
        assert_eq!(hyperv_reads(&rig, next), Err(ReadError::SwitchedOff { version: 0 }));
        let counter = rig.read(0, HV_TIME_REF_COUNT, next).unwrap();
        assert!(counter.abs_diff(50_000_000) <= 4, "{counter}");
        rig.write(0, HV_TSC_EMULATION_STATUS, 0, next).unwrap();
        assert!(hyperv_reads(&rig, next).unwrap().abs_diff(50_000_000) <= 4);
    }
}

#[test]
fn a_hyperv_guest_that_wants_no_notice_gets_a_new_page_at_once() {
    let rig = Rig::hyperv(HYPERV, 1, at(0));
    let here = ClockSettings::new(ClockProvider::HyperV, Hertz(2_000_000_000));
    let to = elsewhere(3 * SECOND, here.host_tsc);
    let (mut rig, restored) = moved(rig, here, RestorePolicy::Advance, at(SECOND), to);
    assert_eq!((restored.interrupt, restored.advertised_tsc), (None, here.host_tsc));
    rig.enter_all(to);
    assert!(hyperv_reads(&rig, later(to, 1, here.host_tsc)).unwrap().abs_diff(40_000_000) <= 4);
}

#[test]
fn a_saved_clock_is_what_its_text_states() {
    let hyperv = Rig::hyperv(HYPERV, 2, at(0)).host.save(at(SECOND));
    let kvm = Rig::kvm(KVM, 3, at(0)).host.save(at(SECOND));
    for saved in [hyperv, kvm, reenlightened(true, 1).0.host.save(at(SECOND))] {
        assert_eq!(reread(&saved), saved);
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// Whatever the hosts' rates: the guest's clock goes on within the bound,
    /// its TSC by the same span at the rate it had.
    #[test]
    fn a_restore_steps_within_its_bound(
        from_khz in 500_000u64..5_000_000,
        to_khz in prop_oneof![3 => 500_000u64..5_000_000, 1 => Just(0)],
        apart_khz in 0u64..2_000,
        ran in 0u64..1 << 42,
        away in 0u64..1 << 45,
        advances in any::<bool>(),
        scales in any::<bool>(),
        per_vcpu in any::<bool>(),
        offset in any::<u64>(),
    ) {
        // KVM's rates are whole kHz; some are within its tolerance, and not scaled.
        let to_khz = if to_khz == 0 { from_khz + apart_khz } else { to_khz };
        let (from_hz, to_hz) = (from_khz * 1_000, to_khz * 1_000);
        let settings = ClockSettings::new(ClockProvider::Kvm, Hertz(from_hz)).changed(|new| {
            new.host_clocksource_is_tsc = !per_vcpu;
            new.real_time_error = Some(Nanos(0));
        });
        let from = |ns| crate::common::at_rate(ns, Hertz(from_hz));
        let mut rig = Rig::kvm(settings, 2, from(0));
        for index in 0..2 {
            let vcpu = VcpuId(index);
            rig.event(HostEvent::TscOffsetChanged { vcpu, tsc_offset: offset }, from(ran / 2));
            rig.enter(index, from(ran / 2 + u64::from(index)));
        }
        let before = [0, 1].map(|vcpu| rig.guest_reads(vcpu, from(ran)).unwrap().0);
        let tsc = rig.host.guest_tsc(VcpuId(1), from(ran)).unwrap();
        let here = settings.changed(|new| {
            new.host_tsc = Hertz(to_hz);
            new.tsc_scaling = scales.then_some(48);
        });
        let policy = if advances { RestorePolicy::Advance } else { RestorePolicy::Freeze };
        let to = elsewhere(ran + away, Hertz(to_hz));
        let (mut rig, restored) = moved(rig, here, policy, from(ran), to);
        rig.enter_all(to);
        let passed = if advances { away } else { 0 };
        for (vcpu, before) in before.into_iter().enumerate() {
            let after = rig.guest_reads(vcpu as u32, to).unwrap().0;
            prop_assert!(after >= before, "the clock went back");
            let step = (after - before).abs_diff(passed);
            prop_assert!(step <= restored.step.bound.0, "{step} ns, {}", restored.step);
        }
        let cycles = u128::from(passed) * u128::from(from_hz) / u128::from(SECOND);
        let tsc_after = rig.host.guest_tsc(VcpuId(1), to).unwrap();
        prop_assert_eq!(tsc_after, tsc.wrapping_add(cycles as u64));
        // One second on, the TSC has run at the rate it should.
        let scales = scales && from_khz.abs_diff(to_khz) * 1_000_000 > 250 * to_khz + 1_000_000;
        let tolerated = from_khz.abs_diff(to_khz) * 1_000_000 < 250 * to_khz;
        prop_assume!(scales || tolerated || here.tsc_scaling.is_none());
        let ran_at = if scales { from_hz } else { to_hz };
        let next = later(to, 1, Hertz(to_hz));
        let in_second = rig.host.guest_tsc(VcpuId(1), next).unwrap().wrapping_sub(tsc_after);
        prop_assert!(in_second.abs_diff(ran_at) <= 1, "{in_second} where {ran_at} is right");
        let read = rig.guest_reads(0, next).unwrap().0;
        prop_assert!(read.abs_diff(restored.clock.0 + SECOND) <= 6, "{read}");
    }
}
