//! kvm-clock as a guest meets it: whose page is written when, and what is in
//! it.

use crate::common::{HOST_TSC, REAL_AT_BOOT, Rig, SECOND, at, info};
use pvclock::kvm_clock::{Flags, TimeReader, WallClockReader};
use pvclock::steal_time::StealReader;
use pvclock::{Hertz, Nanos};
use pvclock_host::msr::{
    HV_REFERENCE_TSC, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK,
};
use pvclock_host::pages::{StealPage, TimePage, WallClockPage};
use pvclock_host::{
    ClockMemory, ClockProvider, ClockSettings, GuestClock, HostEvent, Misplaced, MsrError, PerVcpu,
    PlainMemory, VcpuId,
};

const KVM: ClockSettings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC);
const MOVE_0: HostEvent = HostEvent::VcpuMoved { vcpu: VcpuId(0), physical_cpu: 7 };

/// Which vCPUs' pages an event is followed by an update of, at their next
/// entries and, where that is later, after the deadline.
#[test]
fn an_event_updates_the_pages_of_the_table() {
    let per_vcpu = KVM.changed(|new| new.host_clocksource_is_tsc = false);
    let synced = KVM.changed(|new| new.sync_period = Some(Nanos(300 * SECOND)));
    let offset = |vcpu| HostEvent::TscOffsetChanged { vcpu: VcpuId(vcpu), tsc_offset: 9 };
    let none: &[u32] = &[];
    let (all, first): (&[u32], &[u32]) = (&[0, 1, 2], &[0]);
    // Settings, event, at the next entry, after the deadline too.
    let table = [
        (KVM, MOVE_0, none, none),
        (per_vcpu, MOVE_0, first, all),
        (per_vcpu, HostEvent::VcpuMoved { vcpu: VcpuId(0), physical_cpu: 0 }, none, none),
        (KVM, offset(0), all, none),
        (per_vcpu, offset(2), all, none),
        (KVM, HostEvent::TscFrequencyAdvertised { frequency: Hertz(2_000_000_000) }, all, none),
        (KVM, HostEvent::ClockSet { clock: Nanos(77 * SECOND) }, all, none),
        (KVM, HostEvent::HostSuspended, all, none),
        (KVM, HostEvent::HostResumed, all, none),
        (KVM, HostEvent::HostClocksource { is_tsc: false }, all, none),
        (per_vcpu, HostEvent::HostClocksource { is_tsc: true }, all, none),
        (KVM, HostEvent::HostClocksource { is_tsc: true }, none, none),
        (KVM, HostEvent::PhysicalCpuAdded { physical_cpu: 9, tsc_agrees: true }, none, none),
        (KVM, HostEvent::PhysicalCpuAdded { physical_cpu: 9, tsc_agrees: false }, all, none),
        (KVM, HostEvent::VcpuCreated { vcpu: VcpuId(3), tsc_offset: 0 }, none, none),
        (KVM, HostEvent::VcpuCreated { vcpu: VcpuId(3), tsc_offset: 1 }, all, none),
        (KVM, HostEvent::VcpuCreated { vcpu: VcpuId(2), tsc_offset: 1 }, all, none),
        (KVM, HostEvent::VcpuCreated { vcpu: VcpuId(2), tsc_offset: 0 }, none, none),
        (KVM, HostEvent::Paused, none, none),
        (KVM, HostEvent::Resumed, none, none),
        (KVM, HostEvent::Timer, none, none),
        (synced, HostEvent::Timer, none, all),
        (KVM, HostEvent::StealMeasured { vcpu: VcpuId(0), stolen: Nanos(1) }, none, none),
        (KVM, HostEvent::VcpuPreempted { vcpu: VcpuId(0) }, none, none),
    ];
    for (settings, event, at_entry, at_deadline) in table {
        let mut rig = Rig::kvm(settings, 3, at(SECOND));
        let before: Vec<_> = (0..3).map(|vcpu| rig.page(vcpu)).collect();
        rig.event(event, at(2 * SECOND));
        let unchanged: Vec<_> = (0..3).map(|vcpu| rig.page(vcpu)).collect();
        assert_eq!(before, unchanged, "{event:?} wrote a page outside an entry");
        rig.enter_all(at(2 * SECOND + 500));
        let updated = |rig: &Rig, rounds: u32| -> Vec<u32> {
            let version = |vcpu: u32| before[vcpu as usize].version + 2 * rounds;
            (0..3).filter(|&vcpu| rig.page(vcpu).version == version(vcpu)).collect()
        };
        let untouched = updated(&rig, 0);
        assert_eq!(updated(&rig, 1), at_entry, "{event:?} under {settings:?}");
        assert_eq!(untouched.len() + at_entry.len(), 3, "{event:?}: one update each");
        if let Some(deadline) = rig.host.deadline() {
            rig.event(HostEvent::Timer, at(deadline.0));
            let due: Vec<u32> = rig.host.due().map(|vcpu| vcpu.0).collect();
            assert_eq!(due, at_deadline, "{event:?} under {settings:?}, later");
        } else {
            assert_eq!(at_deadline, none, "{event:?} under {settings:?}: no deadline");
        }
    }
}

#[test]
fn registering_a_page_updates_it_at_entry_and_all_soon() {
    let mut rig = Rig::new(KVM, 2, at(SECOND));
    rig.register(0, at(SECOND));
    assert_eq!(rig.page(0).version, 0, "not before the entry");
    rig.enter(0, at(SECOND));
    assert_eq!(rig.page(0).version, 2);
    rig.register(1, at(SECOND + 10));
    assert_eq!(rig.host.deadline(), Some(Nanos(SECOND + 100_000_000)));
    rig.enter_all(at(SECOND + 20));
    rig.event(HostEvent::Timer, at(SECOND + 99_999_999));
    assert_eq!(rig.host.due().count(), 0, "the deadline has not come");
    rig.event(HostEvent::Timer, at(SECOND + 100_000_000));
    rig.enter_all(at(SECOND + 100_000_001));
    assert_eq!((rig.page(0).version, rig.page(1).version), (4, 4));
    assert_eq!(rig.host.deadline(), None);
}

#[test]
fn with_a_master_clock_all_pages_hold_one_line() {
    let mut rig = Rig::kvm(KVM, 2, at(5 * SECOND));
    rig.event(MOVE_0, at(6 * SECOND));
    rig.enter_all(at(6 * SECOND));
    let page = rig.page(0);
    assert_eq!(page, rig.page(1));
    assert_eq!(page.flags, Flags::TSC_STABLE);
    assert_eq!(page.system_time, Nanos(0));
    let read = rig.guest_reads(1, at(8 * SECOND)).unwrap().0;
    assert!((3 * SECOND - 4..=3 * SECOND).contains(&read), "{read}");
    assert_eq!(rig.host.time(VcpuId(1), at(8 * SECOND)), Nanos(read));
}

#[test]
fn a_page_may_be_four_byte_aligned_only() {
    let mut rig = Rig::new(KVM, 1, at(SECOND));
    let address = PlainMemory::time_split(0);
    rig.write(0, KVM_SYSTEM_TIME, address.0 | 1, at(SECOND)).unwrap();
    rig.enter(0, at(SECOND));
    assert_eq!(info(&rig.memory, address).unwrap().version, 2);
    assert_eq!(rig.read(0, KVM_SYSTEM_TIME_OLD, at(SECOND)), Ok(address.0 | 1));
}

#[test]
fn each_condition_ends_the_master_clock_and_restores_it() {
    let mut rig = Rig::kvm(KVM, 2, at(SECOND));
    let now = at(2 * SECOND);
    let offset = |tsc_offset| HostEvent::TscOffsetChanged { vcpu: VcpuId(1), tsc_offset };
    let pairs = [
        (
            HostEvent::HostClocksource { is_tsc: false },
            PerVcpu::HostClocksource,
            HostEvent::HostClocksource { is_tsc: true },
        ),
        (offset(5), PerVcpu::TscOffsets, offset(0)),
    ];
    for (off, why, on) in pairs {
        rig.event(off, now);
        assert_eq!(rig.host.why_per_vcpu(), Some(why));
        rig.enter_all(now);
        assert_eq!(rig.page(1).flags, Flags(0));
        rig.event(on, now);
        assert!(rig.host.master_clock());
        rig.enter_all(now);
        assert_eq!(rig.page(1).flags, Flags::TSC_STABLE);
    }
    rig.write(0, KVM_SYSTEM_TIME_OLD, PlainMemory::time(0).0 | 1, now).unwrap();
    assert_eq!(rig.host.why_per_vcpu(), Some(PerVcpu::OldMsr));
    rig.write(1, KVM_SYSTEM_TIME, PlainMemory::time(1).0 | 1, now).unwrap();
    assert!(!rig.host.master_clock(), "the boot vCPU decides");
    rig.register(0, now);
    assert!(rig.host.master_clock());
    rig.event(HostEvent::PhysicalCpuAdded { physical_cpu: 9, tsc_agrees: false }, now);
    assert_eq!(rig.host.why_per_vcpu(), Some(PerVcpu::PhysicalTscs));
    rig.event(HostEvent::PhysicalCpuRemoved { physical_cpu: 8 }, now);
    assert!(!rig.host.master_clock(), "another one");
    rig.event(HostEvent::PhysicalCpuRemoved { physical_cpu: 9 }, now);
    assert!(rig.host.master_clock(), "it is gone");
}

#[test]
fn the_wall_clock_is_written_once_at_each_write() {
    let mut rig = Rig::kvm(KVM, 1, at(SECOND));
    let address = PlainMemory::wall_clock(0);
    rig.write(0, KVM_WALL_CLOCK, address.0, at(3 * SECOND)).unwrap();
    let read = |rig: &Rig| {
        let page: &WallClockPage = rig.memory.page(address).unwrap();
        WallClockReader::new(page).read().unwrap()
    };
    let zero = read(&rig);
    // The VM's clock was 0 one second after the host's boot.
    let error = zero.plus(Nanos(0)).0.abs_diff(REAL_AT_BOOT + SECOND);
    assert!(error <= 4, "{error} ns");
    let later = at(4 * SECOND).changed(|new| new.real = pvclock::units::UnixTime(Nanos(5)));
    rig.event(HostEvent::ClockSet { clock: Nanos(0) }, later);
    rig.enter_all(later);
    assert_eq!(read(&rig), zero);
    assert_eq!(rig.read(0, KVM_WALL_CLOCK, later), Ok(address.0));
}

#[test]
fn an_advertised_frequency_that_is_too_high_makes_a_slow_guest() {
    let (host, advertised) = (Hertz(3_400_109_000), Hertz(3_478_274_491));
    let at = |ns| crate::common::at_rate(ns, host);
    let mut rig =
        Rig::kvm(ClockSettings::new(ClockProvider::Kvm, host).advertise(advertised), 1, at(0));
    let read = rig.guest_reads(0, at(300 * SECOND)).unwrap().0;
    assert!(read.abs_diff(293_258_239_000) < 1_000_000, "300 s are 293.26 s: {read}");
    // An update takes the time from the host's clock.
    rig.event(HostEvent::TscOffsetChanged { vcpu: VcpuId(0), tsc_offset: 1 }, at(300 * SECOND));
    rig.enter_all(at(300 * SECOND));
    assert_eq!(rig.guest_reads(0, at(300 * SECOND)), Ok(Nanos(300 * SECOND)));
}

#[test]
fn an_update_sets_no_fast_guest_back_unless_it_may() {
    let host = HOST_TSC;
    let fast = ClockSettings::new(ClockProvider::Kvm, host).advertise(Hertz(2_500_000_000));
    let update = HostEvent::TscOffsetChanged { vcpu: VcpuId(0), tsc_offset: 1 };
    for (settings, goes_back) in [(fast, false), (fast.changed(|new| new.never_back = false), true)]
    {
        let mut rig = Rig::kvm(settings, 1, at(0));
        let before = rig.guest_reads(0, at(100 * SECOND)).unwrap();
        assert!(before > Nanos(103 * SECOND));
        rig.event(update, at(100 * SECOND));
        rig.enter_all(at(100 * SECOND));
        let after = rig.guest_reads(0, at(100 * SECOND)).unwrap();
        assert_eq!(after < before, goes_back, "{before} to {after}");
        if goes_back {
            assert_eq!(after, Nanos(100 * SECOND));
        } else {
            assert_eq!(after, before);
        }
        rig.event(HostEvent::ClockSet { clock: Nanos(SECOND) }, at(100 * SECOND));
        rig.enter_all(at(100 * SECOND));
        assert_eq!(rig.guest_reads(0, at(100 * SECOND)), Ok(Nanos(SECOND)), "setting may");
    }
}

#[test]
fn guest_stopped_is_raised_once_a_pause_and_before_the_guest_runs() {
    let mut rig = Rig::kvm(KVM, 2, at(SECOND));
    let took = |rig: &Rig, vcpu| {
        let page: &TimePage = rig.memory.page(PlainMemory::time(vcpu)).unwrap();
        TimeReader::new(page).take_guest_stopped()
    };
    for _ in 0..2 {
        rig.event(HostEvent::Paused, at(2 * SECOND));
        rig.event(HostEvent::Paused, at(3 * SECOND));
        rig.enter_all(at(3 * SECOND));
        assert!(!took(&rig, 0), "not while it stands still");
        rig.event(HostEvent::Resumed, at(4 * SECOND));
        rig.event(HostEvent::Resumed, at(4 * SECOND));
        let before = rig.page(0).version;
        rig.enter_all(at(4 * SECOND));
        assert_eq!(rig.page(0).version, before + 2, "one update");
        assert!(took(&rig, 0) && took(&rig, 1));
        assert!(!took(&rig, 0) && !took(&rig, 1));
        rig.event(HostEvent::ClockSet { clock: Nanos(SECOND) }, at(5 * SECOND));
        rig.enter_all(at(5 * SECOND));
        assert!(!took(&rig, 0), "nor at any update later");
    }
}

#[test]
fn a_page_that_is_switched_off_has_nothing_due() {
    let mut rig = Rig::kvm(KVM, 1, at(SECOND));
    rig.event(HostEvent::Paused, at(SECOND));
    rig.event(HostEvent::Resumed, at(SECOND));
    assert_eq!(rig.host.due().count(), 1);
    rig.write(0, KVM_SYSTEM_TIME, 0, at(SECOND)).unwrap();
    assert_eq!(rig.host.due().count(), 0);
}

/// A VMM may take memory away under a page: the page tells nothing then, and
/// the VM's clock goes on.
#[test]
fn a_page_whose_memory_is_gone_tells_nothing() {
    let mut rig = Rig::kvm(KVM.advertise(Hertz(5_200_000_000)), 1, at(0));
    rig.event(HostEvent::HostClocksource { is_tsc: false }, at(2 * SECOND));
    rig.memory = PlainMemory::new(0);
    rig.enter_all(at(2 * SECOND));
    assert_eq!(rig.host.time(VcpuId(0), at(4 * SECOND)), Nanos(4 * SECOND));
}

#[test]
fn steal_time_goes_on_from_what_the_page_holds() {
    let mut rig = Rig::new(KVM, 1, at(SECOND));
    let address = PlainMemory::steal(0);
    let stolen = |ns| HostEvent::StealMeasured { vcpu: VcpuId(0), stolen: Nanos(ns) };
    rig.event(stolen(500), at(SECOND));
    rig.write(0, KVM_STEAL_TIME, address.0 | 1, at(SECOND)).unwrap();
    rig.enter(0, at(SECOND));
    let read = |rig: &Rig| {
        let page: &StealPage = rig.memory.page(address).unwrap();
        StealReader::new(page).read().unwrap()
    };
    assert_eq!((read(&rig).version, read(&rig).steal), (2, Nanos(0)), "nothing from before");
    rig.event(stolen(800), at(SECOND));
    rig.event(HostEvent::VcpuPreempted { vcpu: VcpuId(0) }, at(SECOND));
    assert!(read(&rig).preempted);
    rig.enter(0, at(SECOND));
    assert_eq!((read(&rig).steal, read(&rig).preempted), (Nanos(300), false));
    rig.enter(0, at(SECOND));
    assert_eq!(read(&rig).version, 4, "nothing due, nothing written");
    rig.write(0, KVM_STEAL_TIME, 0, at(SECOND)).unwrap();
    rig.event(stolen(900), at(SECOND));
    rig.event(HostEvent::VcpuPreempted { vcpu: VcpuId(0) }, at(SECOND));
    rig.enter(0, at(SECOND));
    assert_eq!(read(&rig).version, 4, "switched off");
}

#[test]
fn wild_values_are_refused_and_change_nothing() {
    let mut rig = Rig::kvm(KVM, 1, at(SECOND));
    let before = rig.read(0, KVM_SYSTEM_TIME, at(SECOND));
    let outside = |msr, value: u64, length| {
        let why = Misplaced::Outside { address: value & !1, length };
        MsrError::Misplaced { msr, value, why }
    };
    let wall_unaligned = MsrError::Misplaced {
        msr: KVM_WALL_CLOCK,
        value: 0xc1,
        why: Misplaced::Unaligned { address: 0xc1, alignment: 4 },
    };
    let reserved = |msr, value, reserved| MsrError::Reserved { msr, value, reserved };
    let refused = [
        (KVM_SYSTEM_TIME, 0x43, reserved(KVM_SYSTEM_TIME, 0x43, 2)),
        (KVM_SYSTEM_TIME, u64::MAX, reserved(KVM_SYSTEM_TIME, u64::MAX, 2)),
        (KVM_SYSTEM_TIME, 0x2041, outside(KVM_SYSTEM_TIME, 0x2041, 32)),
        (KVM_SYSTEM_TIME_OLD, 1 << 60 | 1, outside(KVM_SYSTEM_TIME_OLD, 1 << 60 | 1, 32)),
        (KVM_STEAL_TIME, 0x121, reserved(KVM_STEAL_TIME, 0x121, 0x3e)),
        (KVM_STEAL_TIME, 0x3101, outside(KVM_STEAL_TIME, 0x3101, 64)),
        (KVM_WALL_CLOCK, 0xc1, wall_unaligned),
        (KVM_WALL_CLOCK, 0x8000, outside(KVM_WALL_CLOCK, 0x8000, 12)),
        (
            HV_REFERENCE_TSC,
            1,
            MsrError::NotOurs { msr: HV_REFERENCE_TSC, kind: ClockProvider::Kvm },
        ),
    ];
    for (msr, value, why) in refused {
        assert_eq!(rig.write(0, msr, value, at(SECOND)), Err(why), "{msr:#x} {value:#x}");
    }
    let nobody = MsrError::NoSuchVcpu { msr: KVM_SYSTEM_TIME, vcpu: VcpuId(9) };
    assert_eq!(rig.write(9, KVM_SYSTEM_TIME, 0, at(SECOND)), Err(nobody));
    assert_eq!(rig.read(0, KVM_SYSTEM_TIME, at(SECOND)), before);
}

#[test]
fn providers_without_pages_have_no_msrs() {
    for kind in [ClockProvider::None, ClockProvider::Legacy, ClockProvider::Minimal] {
        let mut rig = Rig::new(ClockSettings::new(kind, HOST_TSC), 1, at(SECOND));
        for msr in [KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, HV_REFERENCE_TSC] {
            assert_eq!(rig.write(0, msr, 0, at(SECOND)), Err(MsrError::NotOurs { msr, kind }));
            assert_eq!(rig.read(0, msr, at(SECOND)), Err(MsrError::NotOurs { msr, kind }));
        }
    }
}

#[test]
fn a_reset_switches_the_pages_off() {
    let mut rig = Rig::kvm(KVM, 1, at(SECOND));
    let before = rig.page(0);
    rig.event(HostEvent::VcpuReset { vcpu: VcpuId(0) }, at(SECOND));
    rig.event(HostEvent::ClockSet { clock: Nanos(0) }, at(2 * SECOND));
    rig.enter_all(at(2 * SECOND));
    assert_eq!(rig.page(0), before);
    assert_eq!(rig.read(0, KVM_SYSTEM_TIME, at(SECOND)), Ok(0));
}

#[test]
fn an_emulated_tsc_is_the_hosts_clock_at_the_advertised_frequency() {
    let settings = KVM.advertise(Hertz(1_000_000_000)).changed(|new| {
        new.tsc_mode = pvclock_host::TscMode::Emulated;
        new.host_clocksource_is_tsc = false;
    });
    let mut rig = Rig::kvm(settings, 2, at(5 * SECOND));
    assert!(rig.host.traps_tsc() && rig.host.master_clock());
    assert_eq!(rig.host.guest_tsc(VcpuId(0), at(7 * SECOND)), Some(2 * SECOND));
    assert_eq!(rig.guest_reads(1, at(7 * SECOND)), Ok(Nanos(2 * SECOND)));
    // Another rate: the TSC continues from its value, and so does the time.
    let frequency = Hertz(2_000_000_000);
    rig.event(HostEvent::TscFrequencyAdvertised { frequency }, at(7 * SECOND));
    rig.enter_all(at(7 * SECOND));
    assert_eq!(rig.host.guest_tsc(VcpuId(0), at(8 * SECOND)), Some(4 * SECOND));
    let read = rig.guest_reads(1, at(8 * SECOND)).unwrap().0;
    assert!((3 * SECOND - 4..=3 * SECOND).contains(&read), "{read}");
}

#[test]
fn a_rate_that_no_page_can_express_is_refused_and_logged() {
    let mut rig = Rig::kvm(KVM, 1, at(SECOND));
    rig.event(HostEvent::TscFrequencyAdvertised { frequency: Hertz(999) }, at(SECOND));
    assert_eq!(rig.host.settings().advertised_tsc, HOST_TSC);
    let log: Vec<String> = rig.host.log().map(ToString::to_string).collect();
    assert_eq!(
        log,
        [
            "      1.000000000 s  TSC: advertised as 2600000000 Hz, the host's own; \
             the host's runs at 2600000000 Hz (+0.000 ppm)",
            "      1.000000000 s  master clock: all vCPUs share one clock snapshot, and TSC_STABLE is set",
            "      1.000000000 s  TSC: the advertised frequency is unchanged: no scale for \
             999 Hz: it must be from 1000 Hz to 1099511627776 Hz",
        ]
    );
    assert!(GuestClock::new(KVM.advertise(Hertz(0)), at(0)).is_err());
    assert!(
        GuestClock::new(ClockSettings::new(ClockProvider::HyperV, Hertz(10_000_000)), at(0))
            .is_err()
    );
}
