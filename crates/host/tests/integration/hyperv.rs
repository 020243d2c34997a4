//! Hyper-V's time as a guest meets it.

use crate::common::{HOST_TSC, Rig, SECOND, at, cases, reread};
use proptest::prelude::*;
use pvclock::hyperv::{ReferenceInfo, ReferenceReader, ReferenceScale};
use pvclock::{Hertz, Nanos, ReadError};
use pvclock_host::msr::{
    HV_APIC_FREQUENCY, HV_GUEST_OS_ID, HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC,
    HV_TIME_REF_COUNT, HV_TSC_EMULATION_CONTROL, HV_TSC_EMULATION_STATUS, HV_TSC_FREQUENCY,
    HV_VP_INDEX,
};
use pvclock_host::pages::ReferencePage;
use pvclock_host::{
    ClockMemory, ClockProvider, ClockSettings, HostClocks, HostEvent, Misplaced, MsrError,
    PlainMemory, VcpuId,
};

const HYPERV: ClockSettings = ClockSettings::new(ClockProvider::HyperV, HOST_TSC);

fn info(rig: &Rig) -> Result<ReferenceInfo, ReadError> {
    let page: &ReferencePage = rig.memory.page(PlainMemory::reference(0)).unwrap();
    ReferenceReader::new(page).info()
}

fn guest_reads(rig: &Rig, vcpu: u32, now: HostClocks) -> Result<u64, ReadError> {
    let tsc = rig.host.guest_tsc(VcpuId(vcpu), now).unwrap();
    let page: &ReferencePage = rig.memory.page(PlainMemory::reference(0)).unwrap();
    ReferenceReader::new(page).units_100ns(&|| tsc)
}

#[test]
fn the_page_is_good_at_once_and_the_counter_agrees_with_it() {
    let mut rig = Rig::hyperv(HYPERV, 2, at(5 * SECOND));
    let page = info(&rig).unwrap();
    assert_eq!((page.sequence, page.scale), (1, ReferenceScale::from_hertz(HOST_TSC).unwrap()));
    for ns in [5 * SECOND, 6 * SECOND + 123_456_789, 5_000 * SECOND] {
        let read = guest_reads(&rig, 1, at(ns)).unwrap();
        assert_eq!(rig.read(1, HV_TIME_REF_COUNT, at(ns)), Ok(read));
        assert_eq!(rig.host.time(VcpuId(1), at(ns)), Nanos(read * 100));
        let exact = (ns - 5 * SECOND) / 100;
        assert!(exact.abs_diff(read) <= 1, "{read} where {exact} is right");
    }
    assert_eq!(rig.read(0, HV_TSC_FREQUENCY, at(0)), Ok(HOST_TSC.0));
    assert_eq!(rig.read(0, HV_APIC_FREQUENCY, at(0)), Ok(1_000_000_000));
    assert_eq!(rig.read(1, HV_VP_INDEX, at(0)), Ok(1));
}

/// hyperv_features (selftests) and kvm_hv_set_msr_pw: bit 0 alone, and for good.
#[test]
fn an_invariant_tsc_is_promised_once_and_kept() {
    const CONTROL: u32 = 0x4000_0118;
    let mut without = Rig::new(HYPERV, 1, at(0));
    for refused in [without.write(0, CONTROL, 1, at(0)), without.read(0, CONTROL, at(0)).map(drop)]
    {
        assert!(matches!(refused, Err(MsrError::NotOurs { msr: CONTROL, .. })), "{refused:?}");
    }
    let settings = HYPERV.changed(|new| new.tsc_invariant = true);
    // Before the guest's id, as Linux.
    let mut rig = Rig::new(settings, 1, at(0));
    assert_eq!((rig.read(0, CONTROL, at(0)), rig.write(0, CONTROL, 0, at(0))), (Ok(0), Ok(())));
    assert!(matches!(rig.write(0, CONTROL, 3, at(0)), Err(MsrError::Reserved { .. })));
    assert_eq!(rig.write(0, CONTROL, 1, at(0)), Ok(()));
    assert_eq!(rig.write(0, CONTROL, 1, at(0)), Ok(()), "by the next kernel too");
    assert_eq!(rig.write(0, CONTROL, 0, at(0)), Err(MsrError::StaysSet { msr: CONTROL, value: 0 }));
    rig.write(0, HV_GUEST_OS_ID, 0, at(0)).unwrap();
    assert_eq!(rig.read(0, CONTROL, at(0)), Ok(1));

    let saved = reread(&rig.host.save(at(SECOND)));
    let restore = |host: ClockSettings| {
        let plan = pvclock_host::RestoredTransfer::plan(
            &saved,
            &host,
            pvclock_host::RestorePolicy::Advance,
            at(2 * SECOND),
        );
        plan.map(|plan| plan.ratio.raw())
    };
    let other = settings.changed(|new| new.host_tsc = Hertz(2_000_000_000));
    assert!(restore(settings).is_ok());
    assert!(restore(other.changed(|new| new.tsc_scaling = Some(48))).is_ok(), "scaled");
    let (promised, here) = (HOST_TSC, Hertz(2_000_000_000));
    let refused = Err(pvclock_host::RestoreError::InvariantTsc { promised, here });
    assert_eq!(restore(other), refused);
    let refused = restore(HYPERV);
    assert!(matches!(refused, Err(pvclock_host::RestoreError::InvariantTsc { .. })), "{refused:?}");
}

#[test]
fn the_page_is_off_while_the_tsc_is_no_clock_and_the_counter_goes_on() {
    let mut rig = Rig::hyperv(HYPERV, 2, at(SECOND));
    let off = Err(ReadError::SwitchedOff { version: 0 });
    let offset = |tsc_offset| HostEvent::TscOffsetChanged { vcpu: VcpuId(1), tsc_offset };
    let clocksource = |is_tsc| HostEvent::HostClocksource { is_tsc };
    let mut sequence = 1;
    for (breaks, mends) in [(offset(1 << 40), offset(0)), (clocksource(false), clocksource(true))] {
        rig.event(breaks, at(2 * SECOND));
        assert_eq!(guest_reads(&rig, 0, at(2 * SECOND)), off);
        assert_eq!(rig.read(1, HV_TIME_REF_COUNT, at(3 * SECOND)), Ok(20_000_000));
        rig.event(mends, at(3 * SECOND));
        sequence += 1;
        assert_eq!(info(&rig).unwrap().sequence, sequence, "it counts on");
        assert_eq!(guest_reads(&rig, 0, at(3 * SECOND)), Ok(20_000_000));
    }
}

#[test]
fn a_page_that_was_switched_off_is_not_written_again() {
    let mut rig = Rig::hyperv(HYPERV, 1, at(SECOND));
    let before = info(&rig);
    rig.write(0, HV_REFERENCE_TSC, 0, at(2 * SECOND)).unwrap();
    rig.event(HostEvent::ClockSet { clock: Nanos(0) }, at(2 * SECOND));
    rig.event(HostEvent::HostClocksource { is_tsc: false }, at(2 * SECOND));
    assert_eq!(info(&rig), before);
    rig.event(HostEvent::HostClocksource { is_tsc: true }, at(2 * SECOND));
    rig.write(0, HV_REFERENCE_TSC, PlainMemory::reference(1).0 | 1, at(2 * SECOND)).unwrap();
    assert_eq!(info(&rig), before, "the page is elsewhere now");
    rig.write(0, HV_GUEST_OS_ID, 0, at(2 * SECOND)).unwrap();
    assert_eq!(rig.read(0, HV_REFERENCE_TSC, at(2 * SECOND)), Ok(0), "no guest, no page");
}

/// As Linux 6.1 does (arch/x86/kernel/cpu/mshyperv.c, ms_hyperv_init_platform).
#[test]
fn a_guest_may_enable_its_page_before_it_writes_its_id() {
    let mut rig = Rig::new(HYPERV, 1, at(SECOND));
    let page = PlainMemory::reference(0).0 | 1;
    rig.write(0, HV_REFERENCE_TSC, page, at(SECOND)).unwrap();
    let before = info(&rig).unwrap();
    rig.write(0, HV_GUEST_OS_ID, 7, at(SECOND)).unwrap();
    assert_eq!(info(&rig), Ok(before));
}

#[test]
fn wild_values_are_refused() {
    let mut rig = Rig::new(HYPERV, 1, at(SECOND));
    let interrupt = 1 << 16 | 0xee;
    let before_os = MsrError::NoGuestOs { msr: HV_REENLIGHTENMENT_CONTROL, value: interrupt };
    assert_eq!(rig.write(0, HV_REENLIGHTENMENT_CONTROL, interrupt, at(SECOND)), Err(before_os));
    rig.write(0, HV_GUEST_OS_ID, 7, at(SECOND)).unwrap();
    let reserved = |msr, value, reserved| MsrError::Reserved { msr, value, reserved };
    let outside = MsrError::Misplaced {
        msr: HV_REFERENCE_TSC,
        value: !0xffe,
        why: Misplaced::Outside { address: !0xfff, length: 24 },
    };
    let (control, emulation) = (HV_REENLIGHTENMENT_CONTROL, HV_TSC_EMULATION_CONTROL);
    let refused = [
        (HV_REFERENCE_TSC, !0xffe, outside),
        (control, 1 << 17, reserved(control, 1 << 17, 0xfffe_ff00)),
        (emulation, 2, reserved(emulation, 2, !1)),
        (HV_TSC_EMULATION_STATUS, 1, reserved(HV_TSC_EMULATION_STATUS, 1, u64::MAX)),
        (HV_TIME_REF_COUNT, 5, MsrError::ReadOnly { msr: HV_TIME_REF_COUNT, value: 5 }),
        (HV_TSC_FREQUENCY, 5, MsrError::ReadOnly { msr: HV_TSC_FREQUENCY, value: 5 }),
    ];
    for (msr, value, why) in refused {
        assert_eq!(rig.write(0, msr, value, at(SECOND)), Err(why), "{msr:#x} {value:#x}");
    }
    assert_eq!(rig.read(0, HV_REFERENCE_TSC, at(SECOND)), Ok(0));
}

/// Hyper-V as a guest keeps the page's values: tsc_page_update_unsafe,
/// arch/x86/kvm/hyperv.c.
#[test]
fn a_page_of_a_guest_that_wants_emulation_stays_until_it_writes_its_msr() {
    let mut rig = Rig::hyperv(HYPERV, 2, at(SECOND));
    let opts_in = [(HV_REENLIGHTENMENT_CONTROL, 1 << 16 | 0xee), (HV_TSC_EMULATION_CONTROL, 1)];
    for (msr, value) in opts_in {
        rig.write(0, msr, value, at(SECOND)).unwrap();
    }
    let before = info(&rig);
    let events = [
        HostEvent::HostClocksource { is_tsc: false },
        HostEvent::HostClocksource { is_tsc: true },
        HostEvent::HostResumed,
        HostEvent::ClockSet { clock: Nanos(0) },
        HostEvent::TscOffsetChanged { vcpu: VcpuId(1), tsc_offset: 1 << 40 },
        HostEvent::TscOffsetChanged { vcpu: VcpuId(1), tsc_offset: 0 },
    ];
    for (second, event) in (2..).zip(events) {
        rig.event(event, at(second * SECOND));
        assert_eq!(info(&rig), before, "{event:?}");
        let read = guest_reads(&rig, 0, at(second * SECOND)).unwrap();
        assert_eq!(rig.read(0, HV_TIME_REF_COUNT, at(second * SECOND)), Ok(read), "{event:?}");
    }
    let page = PlainMemory::reference(0).0 | 1;
    rig.write(0, HV_REFERENCE_TSC, page, at(9 * SECOND)).unwrap();
    assert_eq!(info(&rig).unwrap().sequence, before.unwrap().sequence + 1);
}

/// TLFS: bits 1 to 11 are to be preserved.
#[test]
fn the_page_register_keeps_its_reserved_bits() {
    let mut rig = Rig::new(HYPERV, 1, at(SECOND));
    rig.write(0, HV_GUEST_OS_ID, 7, at(SECOND)).unwrap();
    let value = PlainMemory::reference(0).0 | 0xfff;
    rig.write(0, HV_REFERENCE_TSC, value, at(SECOND)).unwrap();
    assert_eq!(rig.read(0, HV_REFERENCE_TSC, at(SECOND)), Ok(value));
    let page: &ReferencePage = rig.memory.page(PlainMemory::reference(0)).unwrap();
    assert!(ReferenceReader::new(page).info().is_ok());
}

#[test]
fn the_hypercall_page_is_the_vmms() {
    let mut rig = Rig::new(HYPERV, 1, at(SECOND));
    let msr = 0x4000_0001;
    let not_ours = MsrError::NotOurs { msr, kind: ClockProvider::HyperV };
    assert_eq!(rig.read(0, msr, at(SECOND)), Err(not_ours));
}

proptest! {
    #![proptest_config(cases(500))]

    /// Two VMs on one host, one for each page: their times differ by
    /// Hyper-V's unit and by the cut of kvm-clock's mul.
    #[test]
    fn hyperv_and_kvm_clock_agree(
        host_hz in 100_000_000u64..6_000_000_000,
        advertised_ppm in 900_000u64..1_100_000,
        start in 0u64..1 << 50,
        elapsed in 0u64..1 << 46,
    ) {
        let advertised = Hertz(host_hz / 1_000_000 * advertised_ppm);
        let at = |ns| crate::common::at_rate(ns, Hertz(host_hz));
        let settings = |kind| ClockSettings::new(kind, Hertz(host_hz)).advertise(advertised);
        let kvm = Rig::kvm(settings(ClockProvider::Kvm), 1, at(start));
        let hyperv = Rig::hyperv(settings(ClockProvider::HyperV), 1, at(start));
        let by_kvm = kvm.guest_reads(0, at(start + elapsed)).unwrap().0;
        let by_hyperv = guest_reads(&hyperv, 0, at(start + elapsed)).unwrap() * 100;
        let bound = 202 + (by_kvm >> 31);
        prop_assert!(by_kvm.abs_diff(by_hyperv) <= bound, "{by_kvm} and {by_hyperv}");
    }
}
