use super::*;
use crate::Nanos;
use crate::vmclock::{CounterId, TimeType, VmClockFlags, VmClockStatus};

/// 2.5 GHz: 0.4 ns a count is 6 710 886.4 / 2^24. At count 1000 it was 1 795 000 000.25 s.
const MULT: u32 = 6_710_886;
const SHIFT: u32 = 24;

fn words(has_max_cycles: bool) -> [u64; 29] {
    let mut words = [0; 29];
    words[0] = 1 << 32 | 8;
    words[1] = 1000;
    let first = 2 + usize::from(has_max_cycles);
    if has_max_cycles {
        words[2] = 1 << 40;
    }
    words[first] = u64::MAX;
    words[first + 1] = u64::from(SHIFT) << 32 | u64::from(MULT);
    words[first + 2] = 1_795_000_000;
    words[first + 3] = 250_000_000 << SHIFT;
    words[first + 4] = 77;
    words[first + 5] = 5 << SHIFT;
    words
}

fn read(words: &[u64; 29], has_max_cycles: bool) -> Result<KernelLine, LineError> {
    let clock = VvarClock::<Aligned> {
        seq: (words[0] as u32).into(),
        clock_mode: ((words[0] >> 32) as u32).into(),
        cycle_last: words[1].into(),
        rest: core::array::from_fn(|index| words[2 + index].into()),
    };
    clock.line(has_max_cycles)
}

#[test]
fn each_layout_gives_the_same_line() {
    for has_max_cycles in [false, true] {
        let line = read(&words(has_max_cycles), has_max_cycles).unwrap();
        let counter = 1000 + 2_500_000_000;
        // 2.5e9 · 6 710 886 / 2^24 ns is a second less 59.6 ns.
        assert_eq!(line.realtime_ns(counter), Ok(1_795_000_001_249_999_940));
        assert_eq!(line.monotonic_ns(counter), Ok(77_999_999_945));
        assert!(line.realtime_ns(999).is_err());
        // By the other layout there is no clock.
        assert_eq!(read(&words(has_max_cycles), !has_max_cycles), Err(LineError::NoClock));
    }
}

#[test]
fn what_is_no_line_is_refused() {
    let refused = |change: fn(&mut [u64; 29])| {
        let mut words = words(false);
        change(&mut words);
        read(&words, false).unwrap_err()
    };
    // Odd for good, as in a time namespace.
    let namespace = refused(|words| words[0] = 0x7fff_ffff << 32 | 1);
    assert_eq!(namespace, LineError::Read(ReadError::NeverFinished { version: 1, tries: TRIES }));
    // kvm-clock, whose count is not the TSC's, and a source that programs cannot read.
    assert_eq!(refused(|words| words[0] = 2 << 32 | 8), LineError::ClockMode(2));
    assert_eq!(refused(|words| words[0] = 8), LineError::ClockMode(0));
    let no_clock = |change| assert_eq!(refused(change), LineError::NoClock);
    no_clock(|words| words[2] = u64::from(u32::MAX));
    no_clock(|words| words[3] = 24 << 32);
    no_clock(|words| words[3] = 33 << 32 | 1);
    no_clock(|words| words[4] = u64::MAX);
    no_clock(|words| words[5] = u64::MAX);
}

#[test]
fn the_difference_from_a_page_is_exact() {
    let line = read(&words(true), true).unwrap();
    let page = VmClockInfo {
        size: 4096,
        counter_id: CounterId::NATIVE,
        time_type: TimeType::TAI,
        flags: VmClockFlags::TIME_MAX_ERROR_VALID
            .union(VmClockFlags::PERIOD_MAX_ERROR_VALID)
            .union(VmClockFlags::TAI_OFFSET_VALID),
        clock_status: VmClockStatus::SYNCHRONISED,
        tai_offset_s: -37,
        counter_value: 1000,
        // 2^64 / 2.5e9.
        period: 7_378_697_629,
        time_sec: 1_795_000_037,
        time_frac: 1 << 62,
        time_max_error: Nanos(100),
        ..VmClockInfo::ZERO
    };
    assert!((page.ns_per_count() - 0.4).abs() < 1e-10);
    assert_eq!(line.ahead_ns(page, 1000), Ok(0.0));
    // A second later the kernel's mult has lost 59.605 ns, and the truncated period 0.065 ns.
    let ahead = line.ahead_ns(page, 1000 + 2_500_000_000).unwrap();
    assert!((ahead + 59.54).abs() < 0.01, "{ahead}");
    let silent = VmClockInfo { clock_status: VmClockStatus::UNRELIABLE, ..page };
    assert!(matches!(line.ahead_ns(silent, 1000), Err(LineError::NoUtc(_))));
    let other = VmClockInfo { counter_id: CounterId(99), ..page };
    assert!(matches!(line.ahead_ns(other, 1000), Err(LineError::NoUtc(NoUtc::Counter(_)))));
}
