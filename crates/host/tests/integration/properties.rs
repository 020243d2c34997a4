//! What holds whatever happens: time on a vCPU does not go back, a page that
//! is off is left alone, no value a guest writes brings its host down.

use crate::common::{HOST_TSC, Rig, SECOND, at, cases, info};
use proptest::prelude::*;
use pvclock::kvm_clock::{TimeInfo, WallClockReader};
use pvclock::steal_time::{StealInfo, StealReader};
use pvclock::{Hertz, Nanos};
use pvclock_host::msr::{
    HV_REFERENCE_TSC, HV_TIME_REF_COUNT, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD,
    KVM_WALL_CLOCK,
};
use pvclock_host::pages::{StealPage, WallClockPage};
use pvclock_host::{
    ClockAddress, ClockMemory, ClockProvider, ClockSettings, GuestClock, HostEvent, PlainMemory,
    TscMode, VcpuId,
};

const VCPUS: u32 = 3;

/// Something that happens, or that a guest does.
#[derive(Debug, Clone, Copy)]
enum Step {
    Event(HostEvent),
    /// It writes an MSR.
    Write {
        vcpu: u32,
        msr: u32,
        value: u64,
    },
    Enter {
        vcpu: u32,
    },
    Passes {
        ns: u64,
    },
}

fn vcpu() -> impl Strategy<Value = VcpuId> {
    (0..VCPUS).prop_map(VcpuId)
}

/// All events that leave the clock where it is.
fn event() -> impl Strategy<Value = HostEvent> {
    prop_oneof![
        (vcpu(), 0u32..3)
            .prop_map(|(vcpu, physical_cpu)| HostEvent::VcpuMoved { vcpu, physical_cpu }),
        (vcpu(), prop_oneof![Just(0), any::<u64>()])
            .prop_map(|(vcpu, tsc_offset)| HostEvent::TscOffsetChanged { vcpu, tsc_offset }),
        Just(HostEvent::HostSuspended),
        Just(HostEvent::HostResumed),
        any::<bool>().prop_map(|is_tsc| HostEvent::HostClocksource { is_tsc }),
        (0u32..2, any::<bool>()).prop_map(|(physical_cpu, tsc_agrees)| {
            HostEvent::PhysicalCpuAdded { physical_cpu, tsc_agrees }
        }),
        (0u32..2).prop_map(|physical_cpu| HostEvent::PhysicalCpuRemoved { physical_cpu }),
        Just(HostEvent::Paused),
        Just(HostEvent::Resumed),
        Just(HostEvent::Timer),
        (vcpu(), any::<u64>())
            .prop_map(|(vcpu, ns)| HostEvent::StealMeasured { vcpu, stolen: Nanos(ns) }),
        vcpu().prop_map(|vcpu| HostEvent::VcpuPreempted { vcpu }),
        (2_500_000_000u64..2_700_000_000)
            .prop_map(|hz| HostEvent::TscFrequencyAdvertised { frequency: Hertz(hz) }),
        (vcpu(), prop_oneof![Just(HOST_TSC.0), 2_500_000_000u64..2_700_000_000])
            .prop_map(|(vcpu, hz)| HostEvent::TscRateChanged { vcpu, rate: Hertz(hz) }),
    ]
}

/// Registers a vCPU's own page again, by the new or the old number.
fn registers() -> impl Strategy<Value = Step> {
    (0..VCPUS, any::<bool>()).prop_map(|(vcpu, old)| Step::Write {
        vcpu,
        msr: if old { KVM_SYSTEM_TIME_OLD } else { KVM_SYSTEM_TIME },
        value: PlainMemory::time(vcpu).0 | 1,
    })
}

fn lives_on() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => event().prop_map(Step::Event),
        1 => registers(),
        4 => (0..VCPUS).prop_map(|vcpu| Step::Enter { vcpu }),
        3 => (0u64..2 * SECOND).prop_map(|ns| Step::Passes { ns }),
    ]
}

fn settings() -> impl Strategy<Value = ClockSettings> {
    let frequency = prop_oneof![Just(HOST_TSC.0), 2_400_000_000u64..2_800_000_000];
    (frequency, any::<bool>(), any::<bool>()).prop_map(|(frequency, emulated, synced)| {
        ClockSettings::new(ClockProvider::Kvm, HOST_TSC).advertise(Hertz(frequency)).changed(
            |new| {
                new.tsc_mode = if emulated { TscMode::Emulated } else { TscMode::Real };
                new.sync_period = synced.then_some(Nanos(SECOND));
            },
        )
    })
}

/// Runs one step; the clocks as it leaves them.
fn run(rig: &mut Rig, step: Step, ns: &mut u64) {
    match step {
        Step::Event(event) => rig.event(event, at(*ns)),
        Step::Write { vcpu, msr, value } => {
            let _ = rig.write(vcpu, msr, value, at(*ns));
        }
        Step::Enter { vcpu } => rig.enter(vcpu, at(*ns)),
        Step::Passes { ns: passed } => *ns += passed,
    }
    // What a vCPU's thread sees without a lock is what is due.
    for vcpu in (0..VCPUS).map(VcpuId) {
        let flag = rig.host.due_flag(vcpu).map(|flag| flag.is_due());
        assert_eq!(flag.unwrap_or(false), rig.host.due().any(|due| due == vcpu), "{step:?}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// A guest that enters before each of its reads, on TSCs that agree with
    /// the host's clock, never sees time go back: told the truth or not.
    #[test]
    fn time_never_goes_back_on_a_vcpu(
        settings in settings(), steps in prop::collection::vec(lives_on(), 1..60),
    ) {
        let mut ns = SECOND;
        let mut rig = Rig::kvm(settings, VCPUS, at(ns));
        let mut last = [Nanos(0); VCPUS as usize];
        for step in steps {
            run(&mut rig, step, &mut ns);
            for vcpu in 0..VCPUS {
                rig.enter(vcpu, at(ns));
                let read = rig.guest_reads(vcpu, at(ns)).unwrap();
                prop_assert!(read >= last[vcpu as usize], "vCPU {vcpu}: {read} after {step:?}");
                prop_assert_eq!(rig.host.time(VcpuId(vcpu), at(ns)), read);
                last[vcpu as usize] = read;
            }
        }
    }

    /// With a master clock one time is everyone's: a read on one vCPU is
    /// never behind an earlier one on another.
    #[test]
    fn with_a_master_clock_time_never_goes_back_between_vcpus(
        settings in settings(), steps in prop::collection::vec(lives_on(), 1..60),
    ) {
        let mut ns = SECOND;
        let mut rig = Rig::kvm(settings, VCPUS, at(ns));
        let mut last = Nanos(0);
        for step in steps {
            run(&mut rig, step, &mut ns);
            rig.enter_all(at(ns));
            if !rig.host.master_clock() {
                break;
            }
            let reads: Vec<_> = (0..VCPUS).map(|v| rig.guest_reads(v, at(ns)).unwrap()).collect();
            prop_assert!(reads.iter().all(|read| *read == reads[0]), "{reads:?} after {step:?}");
            prop_assert!(reads[0] >= last, "{} before {last} after {step:?}", reads[0]);
            last = reads[0];
        }
    }

    /// Hyper-V's guest reads the page while it is good, and the counter else;
    /// it switches the page off and on as it likes.
    #[test]
    fn hyperv_time_never_goes_back(
        told in 2_400_000_000u64..2_800_000_000,
        steps in prop::collection::vec((event(), 0u64..2 * SECOND, any::<u8>()), 1..60),
    ) {
        let settings = ClockSettings::new(ClockProvider::HyperV, HOST_TSC).advertise(Hertz(told));
        let mut ns = SECOND;
        let mut rig = Rig::hyperv(settings, 2, at(ns));
        let mut last = 0;
        for (event, passed, switch) in steps {
            rig.event(event, at(ns));
            let page = PlainMemory::reference(u32::from(switch & 1)).0 | u64::from(switch >> 1 & 1);
            if switch & 0xc == 0 {
                rig.write(0, HV_REFERENCE_TSC, page, at(ns)).unwrap();
            }
            for now in [ns, ns + passed] {
                let read = rig.read(0, HV_TIME_REF_COUNT, at(now)).unwrap();
                prop_assert!(read >= last, "{read} before {last} after {event:?}");
                last = read;
            }
            ns += passed;
        }
    }

    /// Told the truth, KVM's own rule steps nobody back either.
    #[test]
    fn a_true_rate_needs_no_guard(steps in prop::collection::vec(lives_on(), 1..60)) {
        let settings = ClockSettings::new(ClockProvider::Kvm, HOST_TSC).changed(|new| new.never_back = false);
        let mut ns = SECOND;
        let mut rig = Rig::kvm(settings, 1, at(ns));
        let mut last = Nanos(0);
        for step in steps {
            if matches!(step, Step::Event(HostEvent::TscFrequencyAdvertised { .. })) {
                continue;
            }
            run(&mut rig, step, &mut ns);
            rig.enter_all(at(ns));
            let read = rig.guest_reads(0, at(ns)).unwrap();
            prop_assert!(read >= last, "{read} before {last} after {step:?}");
            last = read;
        }
    }

    /// Pages that are off stay as they are, through everything.
    #[test]
    fn a_page_that_is_off_is_never_written(
        settings in settings(),
        reset in any::<bool>(),
        steps in prop::collection::vec(lives_on(), 1..60),
    ) {
        let mut ns = SECOND;
        let mut rig = Rig::kvm(settings, VCPUS, at(ns));
        rig.write(0, KVM_STEAL_TIME, PlainMemory::steal(0).0 | 1, at(ns)).unwrap();
        rig.event(HostEvent::StealMeasured { vcpu: VcpuId(0), stolen: Nanos(9) }, at(ns));
        rig.event(HostEvent::Paused, at(ns));
        rig.event(HostEvent::Resumed, at(ns));
        // Updates of both pages are due, and then there are no pages.
        if reset {
            rig.event(HostEvent::VcpuReset { vcpu: VcpuId(0) }, at(ns));
        } else {
            rig.write(0, KVM_SYSTEM_TIME, 0, at(ns)).unwrap();
            rig.write(0, KVM_STEAL_TIME, 0, at(ns)).unwrap();
        }
        let before = (rig.page(0), steal(&rig.memory, 0));
        for step in steps {
            if matches!(step, Step::Write { vcpu: 0, .. }) {
                continue;
            }
            run(&mut rig, step, &mut ns);
            prop_assert_eq!((rig.page(0), steal(&rig.memory, 0)), before, "after {:?}", step);
        }
        let saved = rig.host.save(at(ns));
        let restored = GuestClock::restore(&saved, settings, pvclock_host::RestorePolicy::Freeze, at(ns));
        rig.host = restored.unwrap().0;
        rig.enter_all(at(ns));
        prop_assert_eq!((rig.page(0), steal(&rig.memory, 0)), before, "after a restore");
    }

    /// Any value in any MSR: refused or taken, and only pages that a register
    /// names are ever written.
    #[test]
    fn wild_msr_values_touch_only_the_pages_they_name(
        kind in prop::sample::select(ClockProvider::ALL.to_vec()),
        writes in prop::collection::vec((0..VCPUS, msr(), value()), 1..60),
        events in prop::collection::vec(event(), 60),
    ) {
        let mut rig = Rig::new(ClockSettings::new(kind, HOST_TSC), VCPUS, at(SECOND));
        let mut named = Vec::new();
        for ((index, &(vcpu, msr, value)), &event) in writes.iter().enumerate().zip(&events) {
            let now = at(SECOND + index as u64 * 1_000_000);
            if rig.write(vcpu, msr, value, now).is_ok() {
                // Of Hyper-V's page the low 12 bits are no address.
                let flags = if msr == HV_REFERENCE_TSC { 0xfff } else { 1 };
                named.push(value & !flags);
                prop_assert!(rig.read(vcpu, msr, now).is_ok());
            }
            rig.event(event, now);
            rig.enter_all(now);
        }
        for address in (0..=VCPUS).flat_map(pages) {
            let written = !is_untouched(&rig.memory, address);
            prop_assert!(!written || named.contains(&address.0), "{address:x?} was written");
        }
    }
}

fn msr() -> impl Strategy<Value = u32> {
    prop_oneof![
        prop::sample::select(vec![
            0x11,
            0x12,
            0x4b56_4d00,
            0x4b56_4d01,
            0x4b56_4d03,
            0x4000_0000,
            0x4000_0002,
            0x4000_0020,
            0x4000_0021,
            0x4000_0022,
            0x4000_0023,
            0x4000_0106,
            0x4000_0107,
            0x4000_0108,
        ]),
        any::<u32>(),
    ]
}

/// Addresses of pages mostly, near misses, and anything.
fn value() -> impl Strategy<Value = u64> {
    let page = (0..VCPUS + 2, 0usize..5).prop_map(|(frame, index)| pages(frame)[index].0);
    prop_oneof![
        4 => page.clone().prop_map(|address| address | 1),
        1 => page.clone(),
        2 => (page, 0u64..64).prop_map(|(address, off)| address.wrapping_add(off)),
        1 => any::<u64>(),
    ]
}

/// Where a frame has pages of kvm-clock's.
fn pages(frame: u32) -> [ClockAddress; 5] {
    [
        PlainMemory::time(frame),
        PlainMemory::time_split(frame),
        PlainMemory::wall_clock(frame),
        PlainMemory::steal(frame),
        PlainMemory::reference(frame),
    ]
}

fn steal(memory: &PlainMemory, frame: u32) -> StealInfo {
    StealReader::new(memory.page::<StealPage>(PlainMemory::steal(frame)).unwrap()).read().unwrap()
}

fn is_untouched(memory: &PlainMemory, address: ClockAddress) -> bool {
    let (frame, offset) = ((address.0 / 4096) as u32, address.0 % 4096);
    if address == PlainMemory::steal(frame) {
        let info = steal(memory, frame);
        (info.version, info.preempted) == (0, false)
    } else if address == PlainMemory::wall_clock(frame) {
        WallClockReader::new(memory.page::<WallClockPage>(address).unwrap()).read().is_err()
    } else if offset == 0 {
        let page: &pvclock_host::pages::ReferencePage = memory.page(address).unwrap();
        pvclock::hyperv::ReferenceReader::new(page).info().is_err()
    } else {
        info(memory, address) == Ok(TimeInfo::default())
    }
}

/// The guest's own registers may change at any time, so must a wall clock at
/// a place that was never given one stay unwritten.
#[test]
fn no_wall_clock_is_written_unasked() {
    let mut rig = Rig::kvm(ClockSettings::new(ClockProvider::Kvm, HOST_TSC), 1, at(SECOND));
    rig.write(0, KVM_WALL_CLOCK, 0, at(SECOND)).unwrap();
    assert!(is_untouched(&rig.memory, PlainMemory::wall_clock(0)));
}
