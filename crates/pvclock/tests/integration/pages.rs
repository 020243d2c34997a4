//! Each page: what is written is read, by value and by byte; and what a page
//! may hold that no honest host writes.
//!
//! # Invariants
//! An address given to [`page_at`] lies in an array of the test's own that
//! outlives the page, or is refused before any access.
#![allow(unsafe_code)]

use proptest::prelude::*;
use pvclock::hyperv::{
    ReferenceInfo, ReferencePage, ReferenceReader, ReferenceScale, ReferenceWriter,
};
use pvclock::kvm_clock::{
    Flags, LastTime, TimeInfo, TimePage, TimeReader, TimeUpdate, TimeWriter, WallClock,
    WallClockPage, WallClockReader, WallClockWriter,
};
use pvclock::shared::{Aligned, Split, page_at};
use pvclock::steal_time::{StealPage, StealReader, StealWriter};
use pvclock::{Hertz, Nanos, PageError, ReadError, Scale, Ticks};

fn update(tsc_timestamp: u64, system_time: u64, hz: u64) -> TimeUpdate {
    TimeUpdate {
        tsc_timestamp,
        system_time: Nanos(system_time),
        scale: Scale::from_hertz(Hertz(hz)).unwrap(),
        stable: true,
    }
}

fn time_info() -> impl Strategy<Value = TimeInfo> {
    (any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>(), any::<i8>(), any::<u8>()).prop_map(
        |(version, tsc_timestamp, system_time, mul, shift, flags)| TimeInfo {
            version,
            tsc_timestamp,
            system_time: Nanos(system_time),
            scale: Scale::from_parts(mul, shift),
            flags: Flags(flags),
        },
    )
}

proptest! {
    #![proptest_config(crate::common::cases(20_000))]

    #[test]
    fn any_time_page_is_answered_without_a_jump(
        info in time_info(), counter in any::<u64>(),
    ) {
        for read in [
            TimeReader::new(&TimePage::<Aligned>::from_info(&info)).with_tries(3).nanos(&|| counter),
            TimeReader::new(&TimePage::<Split>::from_info(&info)).with_tries(3).nanos(&|| counter),
        ] {
            let delta = counter.wrapping_sub(info.tsc_timestamp);
            match read {
                Ok(now) => {
                    prop_assert!(info.version % 2 == 0 && info.scale.mul() != 0);
                    prop_assert!(delta < 1 << 63, "negative delta taken for a duration");
                    let elapsed = info.scale.nanos(delta).unwrap();
                    prop_assert_eq!(now.0, info.system_time.0 + elapsed.0);
                }
                Err(ReadError::NeverFinished { version, tries }) => {
                    prop_assert!(version == info.version && version % 2 == 1 && tries == 3);
                }
                Err(ReadError::SwitchedOff { version }) => {
                    prop_assert!(version == info.version && info.scale.mul() == 0);
                }
                Err(ReadError::CounterBehind { counter: c, timestamp }) => {
                    prop_assert!(delta >= 1 << 63);
                    prop_assert_eq!((c, timestamp), (counter, info.tsc_timestamp));
                }
                Err(ReadError::Overflow { base, delta: d, scale }) => {
                    prop_assert_eq!((base, d, scale), (info.system_time, delta, info.scale));
                    let elapsed = scale.nanos(d);
                    prop_assert!(elapsed.is_none_or(|e| base.0.checked_add(e.0).is_none()));
                }
                Err(other) => prop_assert!(false, "not this page's error: {other}"),
            }
        }
    }

    #[test]
    fn time_info_survives_its_bytes(info in time_info()) {
        prop_assert_eq!(TimeInfo::from_bytes(&info.to_bytes()), info);
    }

    #[test]
    fn ticks_before_and_after_the_update_convert(
        stamp in 1u64 << 40..1 << 50, ticks in 1u64 << 40..1 << 50,
    ) {
        let page = TimePage::new();
        TimeWriter::new(&page).write(&update(stamp, 1 << 52, 1_000_000_000));
        // 1 GHz: one tick, one nanosecond; before the stamp rounds the other way.
        let expected = (1u64 << 52).wrapping_add(ticks.wrapping_sub(stamp));
        let got = TimeReader::new(&page).nanos_at(Ticks(ticks)).unwrap().0;
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn any_hyperv_page_is_answered_without_a_jump(
        sequence in any::<u32>(), scale in any::<u64>(), offset_100ns in any::<i64>(),
        counter in any::<u64>(),
    ) {
        let info = ReferenceInfo { sequence, scale: ReferenceScale::from_raw(scale), offset_100ns };
        let page = ReferencePage::<Aligned>::from_info(&info);
        let read = ReferenceReader::new(&page).with_tries(3).units_100ns(&|| counter);
        let units = ((u128::from(counter) * u128::from(scale)) >> 64) as i128;
        let exact = units + i128::from(offset_100ns);
        if matches!(sequence, 0 | u32::MAX) {
            prop_assert_eq!(read, Err(ReadError::SwitchedOff { version: sequence }));
        } else if let Ok(exact) = u64::try_from(exact) {
            prop_assert_eq!(read, Ok(exact));
        } else {
            let why = ReadError::ReferenceOverflow { counter, scale, offset: offset_100ns };
            prop_assert_eq!(read, Err(why));
        }
    }
}

#[test]
fn time_page_lies_in_memory_as_the_abi_says() {
    // One u64 word of slack, so that the page can start at 4 mod 8, as
    // kvm-clock's MSR allows.
    let mut words = [0u32; 10];
    let info = TimeInfo {
        version: 6,
        tsc_timestamp: 0x1122_3344_5566_7788,
        system_time: Nanos(0x99aa_bbcc_ddee_ff00),
        scale: Scale::from_parts(0xc4ec_4ec4, -1),
        flags: Flags(3),
    };
    let bytes = info.to_bytes();
    assert_eq!(bytes[0..8], [6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[8..16], 0x1122_3344_5566_7788u64.to_le_bytes());
    assert_eq!(bytes[16..24], 0x99aa_bbcc_ddee_ff00u64.to_le_bytes());
    assert_eq!(bytes[24..32], [0xc4, 0x4e, 0xec, 0xc4, 0xff, 3, 0, 0]);
    for start in [1, 2] {
        for (word, chunk) in words[start..].iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(chunk.try_into().unwrap());
        }
        // SAFETY: 32 bytes of `words` from here on, which outlive the page.
        let page: &TimePage<Split> =
            unsafe { page_at(words[start..].as_mut_ptr().cast()) }.unwrap();
        assert_eq!(TimeReader::new(page).info(), Ok(info));
    }
}

#[test]
fn misaligned_addresses_are_refused() {
    let mut words = [0u64; 8];
    for (offset, align) in [(1, 8), (4, 8)] {
        let address = words.as_mut_ptr().cast::<u8>().wrapping_add(offset);
        // SAFETY: within `words`, and refused before any access.
        let page = unsafe { page_at::<TimePage>(address) };
        let error = PageError::Misaligned { address: address.addr(), align };
        assert_eq!(page.unwrap_err(), error);
    }
}

#[test]
fn a_page_left_odd_by_a_dead_writer_is_mended_by_the_next() {
    let left = TimeInfo { version: 41, ..TimeInfo::default() };
    let page = TimePage::<Aligned>::from_info(&left);
    let reader = TimeReader::new(&page).with_tries(5);
    assert_eq!(reader.nanos(&|| 0), Err(ReadError::NeverFinished { version: 41, tries: 5 }));
    TimeWriter::new(&page).write(&update(10, 20, 1_000_000_000));
    assert_eq!(reader.info().unwrap().version, 44);
    assert_eq!(reader.nanos(&|| 15), Ok(Nanos(25)));
}

#[test]
fn guest_stopped_stays_until_the_guest_takes_it_and_is_taken_once() {
    let page = TimePage::new();
    let mut writer = TimeWriter::new(&page);
    let reader = TimeReader::new(&page);
    writer.write(&update(0, 0, 1_000_000_000));
    assert!(!reader.take_guest_stopped());
    writer.set_guest_stopped();
    writer.write(&update(1, 1, 1_000_000_000));
    let both = Flags::TSC_STABLE.union(Flags::GUEST_STOPPED);
    assert_eq!(reader.info().unwrap().flags, both);
    assert!(reader.take_guest_stopped());
    assert!(!reader.take_guest_stopped());
    writer.write(&update(2, 2, 1_000_000_000));
    assert_eq!(reader.info().unwrap().flags, Flags::TSC_STABLE);
}

#[test]
fn readers_without_the_stable_flag_never_step_back() {
    let (ahead, behind) = (TimePage::new(), TimePage::new());
    let unstable =
        |system_time| TimeUpdate { stable: false, ..update(0, system_time, 1_000_000_000) };
    TimeWriter::new(&ahead).write(&unstable(1_000));
    TimeWriter::new(&behind).write(&unstable(400));
    let last = LastTime::new();
    let read = |page, at: u64| TimeReader::new(page).nanos_monotonic(&|| at, &last).unwrap();
    assert_eq!(read(&ahead, 5), Nanos(1_005));
    assert_eq!(read(&behind, 6), Nanos(1_005), "the other CPU's page is 600 ns behind");
    assert_eq!(read(&behind, 700), Nanos(1_100));
}

#[test]
fn a_counter_that_catches_up_is_waited_for_a_little() {
    let page = TimePage::new();
    TimeWriter::new(&page).write(&update(1_000, 7, 1_000_000_000));
    let calls = std::cell::Cell::new(0);
    let late_once = || {
        calls.set(calls.get() + 1);
        if calls.get() == 1 { 999 } else { 1_001 }
    };
    assert_eq!(TimeReader::new(&page).nanos(&late_once), Ok(Nanos(8)));
}

#[test]
fn wall_clock_is_read_as_written() {
    let page = WallClockPage::<Aligned>::new();
    let reader = WallClockReader::new(&page);
    assert_eq!(reader.read(), Err(ReadError::SwitchedOff { version: 0 }));
    let wall_clock = WallClock { seconds: 1_700_000_000, nanoseconds: 5 };
    WallClockWriter::new(&page).write(wall_clock);
    assert_eq!(reader.read(), Ok(wall_clock));
    let absurd = WallClock { seconds: u32::MAX, nanoseconds: u32::MAX };
    assert_eq!(absurd.plus(Nanos(u64::MAX)), Nanos(u64::MAX));
}

#[test]
fn hyperv_page_goes_off_and_counts_on() {
    let page = ReferencePage::<Aligned>::new();
    let reader = ReferenceReader::new(&page);
    let mut writer = ReferenceWriter::new(&page);
    let scale = ReferenceScale::from_hertz(Hertz(1 << 30)).unwrap();
    writer.write(scale, -5);
    assert_eq!(reader.info().unwrap().sequence, 1);
    assert_eq!(reader.units_100ns(&|| 1 << 30), Ok(9_999_995)); // 1 s − 500 ns
    writer.switch_off();
    assert_eq!(reader.units_100ns(&|| 0), Err(ReadError::SwitchedOff { version: 0 }));
    writer.write(scale, 0);
    assert_eq!(reader.info().unwrap().sequence, 2, "never a sequence that meant something else");
    writer.switch_off();
    ReferenceWriter::resume(&page, writer.sequence()).write(scale, 0);
    assert_eq!(reader.info().unwrap().sequence, 3, "nor after another writer took over");
}

#[test]
fn steal_time_is_read_as_written() {
    let mut bytes = [0u8; 64];
    bytes[0..8].copy_from_slice(&77u64.to_le_bytes());
    bytes[8..12].copy_from_slice(&4u32.to_le_bytes());
    bytes[16] = 3;
    let page = StealPage::<Aligned>::from_bytes(&bytes);
    let info = StealReader::new(&page).read().unwrap();
    assert_eq!((info.version, info.steal), (4, Nanos(77)));
    assert!(info.preempted && info.flush_tlb);
    let mut writer = StealWriter::new(&page);
    assert!(writer.write(Nanos(99)), "the guest's wish for a flush is passed on");
    let info = StealReader::new(&page).read().unwrap();
    assert_eq!((info.version, info.steal, info.preempted), (6, Nanos(99), false));
    writer.set_preempted();
    assert!(StealReader::new(&page).read().unwrap().preempted);
    assert!(!writer.write(Nanos(100)));
}
