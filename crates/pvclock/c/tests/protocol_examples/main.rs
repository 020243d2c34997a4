//! The worked examples of docs/protocols: each sum is done again, each page
//! of bytes is read with crate `pvclock`, and the numbers found here are in
//! the document.

mod arithmetic;
mod document;

use document::Document;
use pvclock::hyperv::{
    ReferenceInfo, ReferencePage, ReferenceReader, ReferenceScale, ReferenceWriter,
};
use pvclock::kvm_clock::{
    Flags, LastTime, TimeInfo, TimePage, TimeReader, TimeUpdate, TimeWriter, WallClock,
};
use pvclock::shared::Aligned;
use pvclock::steal_time::{StealPage, StealReader, StealWriter};
use pvclock::vmclock::{
    CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockPage, VmClockReader, VmClockStatus,
};
use pvclock::{Hertz, Nanos, ReadError, Scale};

const SEQUENCE: Document = Document::of(include_str!("../../../../../docs/protocols/sequence.md"));
const KVM_CLOCK: Document =
    Document::of(include_str!("../../../../../docs/protocols/kvm-clock.md"));
const HYPERV: Document = Document::of(include_str!("../../../../../docs/protocols/hyperv.md"));
const VMCLOCK: Document = Document::of(include_str!("../../../../../docs/protocols/vmclock.md"));
const STEAL_TIME: Document =
    Document::of(include_str!("../../../../../docs/protocols/steal-time.md"));

#[test]
fn every_sum_is_right() {
    for (document, sums) in
        [(SEQUENCE, 4), (KVM_CLOCK, 9), (HYPERV, 4), (VMCLOCK, 10), (STEAL_TIME, 1)]
    {
        assert_eq!(document.check_sums(), sums);
    }
}

#[test]
fn sequence_a_torn_line_and_a_dead_writer() {
    let one_gigahertz = Scale::from_hertz(Hertz(1_000_000_000)).unwrap();
    let page = TimePage::<Aligned>::from_info(&TimeInfo {
        version: 40,
        tsc_timestamp: 1000,
        system_time: Nanos(5_000_000_000),
        scale: one_gigahertz,
        flags: Flags(0),
    });
    let update = TimeUpdate {
        tsc_timestamp: 2000,
        system_time: Nanos(6_000_000_000),
        scale: one_gigahertz,
        stable: false,
    };
    TimeWriter::new(&page).write(&update);
    let reader = TimeReader::new(&page);
    assert_eq!(reader.info().unwrap().version, 42);
    assert_eq!(reader.nanos(&|| 2500), Ok(Nanos(6_000_000_500)));
    SEQUENCE.states("6000000500");

    let left = TimePage::<Aligned>::from_info(&TimeInfo { version: 41, ..TimeInfo::default() });
    TimeWriter::new(&left).write(&update);
    assert_eq!(TimeReader::new(&left).info().unwrap().version, 44);
    SEQUENCE.states("A page found at version 41");
}

#[test]
fn kvm_clock_page_of_a_real_machine() {
    let info = TimeInfo::from_bytes(&KVM_CLOCK.bytes());
    let scale = Scale::from_hertz(Hertz(2_445_428_000)).unwrap();
    assert_eq!(
        info,
        TimeInfo {
            version: 32,
            tsc_timestamp: 3_451_391_528,
            system_time: Nanos(1_411_981_263),
            scale,
            flags: Flags::TSC_STABLE,
        }
    );
    assert_eq!((scale.mul(), scale.shift()), (3_512_650_788, -1));
    assert_eq!(scale.to_hertz(), Some(Hertz(2_445_428_000)));
    let page = TimePage::<Aligned>::from_info(&info);
    let reader = TimeReader::new(&page);
    assert_eq!(reader.nanos(&|| 5_896_819_528), Ok(Nanos(2_411_981_262)));
    assert_eq!(
        reader.nanos(&|| 3_451_391_527),
        Err(ReadError::CounterBehind { counter: 3_451_391_527, timestamp: 3_451_391_528 })
    );
    for figure in ["3,451,391,528", "1,411,981,263", "3,512,650,788", "5,896,819,528"] {
        KVM_CLOCK.states(figure);
    }
    let slow = Scale::from_hertz(Hertz(24_000_000)).unwrap();
    assert_eq!((slow.mul(), slow.shift()), (2_796_202_666, 6));
    assert_eq!(slow.nanos(24_000_000), Some(Nanos(999_999_999)));
    KVM_CLOCK.states("the shift is 6");

    let boot = WallClock { seconds: 1_700_000_000, nanoseconds: 250_000_000 };
    assert_eq!(boot.plus(Nanos(2_411_981_262)), Nanos(1_700_000_002_661_981_262));
}

#[test]
fn kvm_clock_readers_on_two_vcpus() {
    let page = |system_time| {
        TimePage::<Aligned>::from_info(&TimeInfo {
            version: 2,
            system_time: Nanos(system_time),
            scale: Scale::from_hertz(Hertz(1_000_000_000)).unwrap(),
            ..TimeInfo::default()
        })
    };
    let (vcpu_0, vcpu_1) = (page(1000), page(400));
    let last = LastTime::new();
    for (page, tsc, ns) in [(&vcpu_0, 5, 1005), (&vcpu_1, 6, 1005), (&vcpu_1, 700, 1100)] {
        assert_eq!(TimeReader::new(page).nanos_monotonic(&|| tsc, &last), Ok(Nanos(ns)));
        KVM_CLOCK.states(&ns.to_string());
    }
}

#[test]
fn hyperv_page() {
    let scale = ReferenceScale::from_hertz(Hertz(2_600_000_000)).unwrap();
    let written = ReferenceInfo { sequence: 1, scale, offset_100ns: -9_999_999 };
    assert_eq!(ReferenceInfo::from_bytes(&HYPERV.bytes()), written);
    let page = ReferencePage::<Aligned>::new();
    ReferenceWriter::new(&page).write(scale, -9_999_999);
    let reader = ReferenceReader::new(&page);
    assert_eq!(reader.info(), Ok(written));
    assert_eq!(reader.units_100ns(&|| 5_200_000_000), Ok(10_000_000));
    assert_eq!(reader.units_100ns(&|| 7_800_000_000), Ok(20_000_000));
    assert!(matches!(reader.units_100ns(&|| 0), Err(ReadError::ReferenceOverflow { .. })));
    assert_eq!((-9_999_999_i64).cast_unsigned(), 18_446_744_073_699_551_617);
    HYPERV.states("18,446,744,073,699,551,617");
}

#[test]
fn vmclock_page() {
    let info = VmClockInfo::from_bytes(&VMCLOCK.bytes()).unwrap();
    assert_eq!((info.counter_id, info.time_type), (CounterId::X86_TSC, TimeType::TAI));
    assert_eq!((info.clock_status, info.tai_offset_s), (VmClockStatus::SYNCHRONISED, -37));
    assert_eq!((info.disruption_marker, info.vm_generation, info.seq_count), (3, 1, 8));
    assert_eq!((info.period, info.period_shift), (16_199_242_528_151_378_325, 31));
    assert_eq!(info.period_max_error, 16_199_242_528_151);
    assert_eq!((info.time_sec, info.time_frac), (1_700_000_000, 1 << 63));
    assert_eq!((info.counter_value, info.time_max_error), (5_000_000_000, Nanos(250)));
    let flags = VmClockFlags::TAI_OFFSET_VALID
        .union(VmClockFlags::PERIOD_MAX_ERROR_VALID)
        .union(VmClockFlags::TIME_MAX_ERROR_VALID);
    assert_eq!(info.flags, flags);

    let page = VmClockPage::<Aligned>::from_info(&info);
    let time = VmClockReader::new(&page).unwrap().time(&|| 29_454_280_000).unwrap();
    assert_eq!((time.seconds, time.fraction), (1_700_000_010, 9_223_372_036_854_775_797));
    assert_eq!(time.subsecond_nanos(), 499_999_999);
    assert_eq!(time.max_error, Some(Nanos(10_250)));
    for figure in ["29,454,280,000", "1,700,000,010 s and 499,999,999 ns", "\n10250\n"] {
        VMCLOCK.states(figure);
    }
}

#[test]
fn steal_time_page() {
    let page = StealPage::<Aligned>::from_bytes(&STEAL_TIME.bytes());
    let read = || StealReader::new(&page).read().unwrap();
    assert_eq!((read().steal, read().version), (Nanos(1_500_000_000), 6));
    assert!(read().preempted && !read().flush_tlb);
    StealWriter::new(&page).write(Nanos(4_000_000_000));
    assert_eq!((read().version, read().preempted), (8, false));
    STEAL_TIME.states("The next update is version 8.");
}
