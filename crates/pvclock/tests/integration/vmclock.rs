//! The VMClock page against exact arithmetic, and pages that lie.

use proptest::prelude::*;
use pvclock::shared::Aligned;
use pvclock::vmclock::{
    CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockPage, VmClockReader, VmClockStatus,
    VmClockWriter,
};
use pvclock::{Nanos, PageError, ReadError};

/// A healthy page: a 2 GHz TSC, so a period of 2^−31 · 2^0 … exactly 2^33
/// units of 2^−64 s at shift 0 for 2^31 Hz.
fn healthy() -> VmClockInfo {
    let valid = VmClockFlags::TIME_MAX_ERROR_VALID.union(VmClockFlags::PERIOD_MAX_ERROR_VALID);
    VmClockInfo {
        size: 4096,
        counter_id: CounterId::X86_TSC,
        time_type: TimeType::UTC,
        seq_count: 8,
        disruption_marker: 3,
        flags: valid,
        clock_status: VmClockStatus::SYNCHRONISED,
        leap_smearing_hint: 0,
        tai_offset_s: -37,
        leap_indicator: 0,
        period_shift: 27,
        counter_value: 1_000,
        period: 1 << 60, // 2^60 · 2^−(64+27) = 2^−31 s
        period_est_error: 0,
        period_max_error: 1 << 43, // 2^−48 s a cycle: 2^−17 s a second
        time_sec: 1_700_000_000,
        time_frac: 1 << 63,
        time_est_error: Nanos(0),
        time_max_error: Nanos(250),
        vm_generation: 1,
    }
}

#[test]
fn time_and_its_bound_are_exact() {
    let page = VmClockPage::<Aligned>::from_info(&healthy());
    let reader = VmClockReader::new(&page).unwrap();
    let time = reader.time(&|| 1_000 + (1u64 << 31) + (1 << 30)).unwrap();
    // half a second and one and a half: two, to the last bit.
    assert_eq!((time.seconds, time.fraction), (1_700_000_002, 0));
    assert_eq!(time.subsecond_nanos(), 0);
    // 1.5 s · 2^−17 = 11 444.09… ns, rounded up, and 250.
    assert_eq!(time.max_error, Some(Nanos(11_445 + 250)));
    assert_eq!(time.info, healthy());
}

#[test]
fn the_quick_time_is_the_whole_one() {
    let page = VmClockPage::<Aligned>::from_info(&healthy());
    let reader = VmClockReader::new(&page).unwrap();
    for counter in [1_000, 1_001, 5_000, 1_000 + (3 << 30), u64::MAX >> 1] {
        let (now, time) = (reader.now(&|| counter).unwrap(), reader.time(&|| counter).unwrap());
        let whole = time.seconds * 1_000_000_000 + u64::from(time.subsecond_nanos());
        assert_eq!((now.time, now.seq_count), (Nanos(whole), 8), "{counter}");
        assert_eq!(reader.now_ordered(&|| counter), Ok(now));
    }
    assert!(matches!(reader.now(&|| 999), Err(ReadError::CounterBehind { .. })));
    let broken = |change: fn(&mut VmClockInfo)| {
        let mut info = healthy();
        change(&mut info);
        let page = VmClockPage::<Aligned>::from_info(&info);
        VmClockReader::new(&page).unwrap().with_tries(3).now(&|| 5_000).unwrap_err()
    };
    let off = ReadError::SwitchedOff { version: 8 };
    assert_eq!(broken(|info| info.period = 0), off);
    assert_eq!(broken(|info| info.counter_id = CounterId::INVALID), off);
    assert_eq!(
        broken(|info| info.seq_count = 9),
        ReadError::NeverFinished { version: 9, tries: 3 }
    );
    // 584 years of ns, and 2^64 s.
    for seconds in [18_446_744_074, u64::MAX] {
        let info = VmClockInfo { time_sec: seconds, ..healthy() };
        let page = VmClockPage::<Aligned>::from_info(&info);
        let late = VmClockReader::new(&page).unwrap().now(&|| 1_000 + (1 << 31));
        assert!(matches!(late, Err(ReadError::VmClockOverflow { .. })), "{late:?}");
    }
}

#[test]
fn an_error_nobody_vouches_for_is_none() {
    for flags in [VmClockFlags(0), VmClockFlags::TIME_MAX_ERROR_VALID] {
        let page = VmClockPage::<Aligned>::from_info(&VmClockInfo { flags, ..healthy() });
        let time = VmClockReader::new(&page).unwrap().time(&|| 1_000).unwrap();
        assert_eq!(time.max_error, None);
        assert_eq!(time.subsecond_nanos(), 500_000_000);
    }
}

#[test]
fn a_page_without_a_counter_or_a_period_gives_no_time() {
    let no_counter = VmClockInfo { counter_id: CounterId::INVALID, ..healthy() };
    let no_period = VmClockInfo { period: 0, ..healthy() };
    for info in [no_counter, no_period] {
        let page = VmClockPage::<Aligned>::from_info(&info);
        let time = VmClockReader::new(&page).unwrap().time(&|| 1_000);
        assert_eq!(time, Err(ReadError::SwitchedOff { version: 8 }));
    }
}

#[test]
fn writes_are_read_back_and_a_dead_writer_is_mended() {
    let page = VmClockPage::<Aligned>::from_info(&VmClockInfo { seq_count: 9, ..healthy() });
    let reader = VmClockReader::new(&page).unwrap().with_tries(4);
    assert_eq!(reader.info(), Err(ReadError::NeverFinished { version: 9, tries: 4 }));
    let migrated = VmClockInfo { disruption_marker: 4, vm_generation: 2, ..healthy() };
    VmClockWriter::new(&page).write(&migrated);
    assert_eq!(reader.info(), Ok(VmClockInfo { seq_count: 12, ..migrated }));
}

#[test]
fn what_is_no_vmclock_page_is_refused() {
    let good = healthy();
    let page = VmClockPage::<Aligned>::from_info(&VmClockInfo { size: 111, ..good });
    let error = PageError::Size { found: 111, needed: 112 };
    assert_eq!(VmClockReader::new(&page).unwrap_err(), error);
    assert_eq!(error.to_string(), "a region of 111 bytes where 112 are needed");

    let zeroes = [0; VmClockInfo::SIZE];
    assert_eq!(VmClockInfo::from_bytes(&zeroes), Err(PageError::Magic { found: 0 }));
    let mut newer = zeroes;
    newer[0..4].copy_from_slice(b"VCLK");
    newer[8] = 2;
    assert_eq!(VmClockInfo::from_bytes(&newer), Err(PageError::LayoutVersion { found: 2 }));
}

#[test]
fn bytes_lie_where_the_abi_says() {
    let mut bytes = [0; VmClockInfo::SIZE];
    bytes[0..4].copy_from_slice(b"VCLK");
    bytes[4..8].copy_from_slice(&4096u32.to_le_bytes());
    bytes[8..12].copy_from_slice(&[1, 0, 1, 0]);
    bytes[12..16].copy_from_slice(&8u32.to_le_bytes());
    bytes[16] = 3;
    bytes[24] = 0b101_0000;
    bytes[34] = 2;
    bytes[36..38].copy_from_slice(&(-37i16).to_le_bytes());
    bytes[39] = 27;
    bytes[40..48].copy_from_slice(&1_000u64.to_le_bytes());
    bytes[48..56].copy_from_slice(&(1u64 << 60).to_le_bytes());
    bytes[64..72].copy_from_slice(&(1u64 << 43).to_le_bytes());
    bytes[72..80].copy_from_slice(&1_700_000_000u64.to_le_bytes());
    bytes[87] = 0x80;
    bytes[96..104].copy_from_slice(&250u64.to_le_bytes());
    bytes[104] = 1;
    assert_eq!(VmClockInfo::from_bytes(&bytes), Ok(healthy()));
    assert_eq!(healthy().to_bytes(), bytes);
}

proptest! {
    #![proptest_config(crate::common::cases(20_000))]

    /// Every field at any value, extremes among them: the exact time, or an
    /// error with the reason.
    #[test]
    fn any_page_is_answered_without_a_jump(
        time in (any::<u64>(), any::<u64>(), any::<u64>()), period in any::<u64>(),
        period_shift in any::<u8>(), counter in any::<u64>(), flags in any::<u64>(),
        errors in any::<(u64, u64)>(),
    ) {
        let (time_sec, time_frac, counter_value) = time;
        let info = VmClockInfo {
            time_sec, time_frac, counter_value, period, period_shift,
            flags: VmClockFlags(flags),
            period_max_error: errors.0,
            time_max_error: Nanos(errors.1),
            ..healthy()
        };
        prop_assert_eq!(VmClockInfo::from_bytes(&info.to_bytes()), Ok(info));
        let page = VmClockPage::<Aligned>::from_info(&info);
        let delta = counter.wrapping_sub(counter_value);
        match VmClockReader::new(&page).unwrap().time(&|| counter) {
            Ok(now) => {
                let base = u128::from(time_sec) << 64 | u128::from(time_frac);
                let elapsed = (u128::from(delta) * u128::from(period))
                    .checked_shr(u32::from(period_shift)).unwrap_or(0);
                let exact = base + elapsed;
                prop_assert_eq!(u128::from(now.seconds) << 64 | u128::from(now.fraction), exact);
                prop_assert!(now.subsecond_nanos() < 1_000_000_000);
                prop_assert!(now.max_error.is_none_or(|bound| bound.0 >= errors.1));
            }
            Err(ReadError::SwitchedOff { .. }) => prop_assert_eq!(period, 0),
            Err(ReadError::CounterBehind { .. }) => prop_assert!(delta >= 1 << 63),
            Err(ReadError::VmClockOverflow { seconds, .. }) => {
                prop_assert!(seconds == time_sec && seconds > 1 << 62);
            }
            Err(other) => prop_assert!(false, "not this page's error: {other}"),
        }
    }
}
