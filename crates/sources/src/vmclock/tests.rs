//! A page of known truth in a file, read as the device is.

use std::cell::Cell;
use std::io::Write;

use proptest::prelude::*;
use pvclock::Nanos;
use pvclock::vmclock::{CounterId, NoUtc, TimeType, VmClockFlags, VmClockStatus};

use pvclock::units::{ClockPair, OffsetBound};

use super::*;
use crate::Source;

/// A page of a 2^30 Hz counter, synchronised within 250 ns, by a clock that
/// is 2^-20 off its rate at the most.
pub(crate) fn page() -> VmClockInfo {
    VmClockInfo {
        size: 4096,
        counter_id: CounterId::NATIVE,
        time_type: TimeType::UTC,
        seq_count: 8,
        disruption_marker: 3,
        flags: VmClockFlags::TIME_MAX_ERROR_VALID
            .union(VmClockFlags::PERIOD_MAX_ERROR_VALID)
            .union(VmClockFlags::TAI_OFFSET_VALID),
        clock_status: VmClockStatus::SYNCHRONISED,
        tai_offset_s: -37,
        period_shift: 20,
        counter_value: 1_000_000,
        period: 1 << 54,
        period_max_error: 1 << 34,
        time_sec: 1_795_000_000,
        time_max_error: Nanos(250),
        vm_generation: 1,
        ..VmClockInfo::ZERO
    }
}

/// A device that holds `info`, as long as the file stays.
pub(crate) fn device(info: &VmClockInfo) -> (tempfile::NamedTempFile, VmClockSource) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&info.to_bytes()).unwrap();
    let vmclock = VmClockSource::open(file.path());
    let Fact::Known(vmclock) = vmclock else { panic!("{vmclock:?}") };
    (file, vmclock)
}

#[test]
fn a_page_gives_the_time_between_two_stamps() {
    let (_file, mut vmclock) = device(&page());
    let stamps = Cell::new(0);
    // A second after the update.
    let counter = || 1_000_000 + (1u64 << 30);
    let reading = vmclock.read_by(&counter, || stamps.replace(stamps.get() + 1)).unwrap();
    // 250 ns, 2^-20 s in a second, rounded up.
    let (shown_ns, max_error_ns) = (1_795_000_001_000_000_000, 250 + 954);
    let mut utc_ns = Interval::around(shown_ns, max_error_ns);
    utc_ns.high += 1;
    let shown_ns = (shown_ns, shown_ns);
    assert_eq!(
        reading,
        TimeReading { before: 0, utc_ns, shown_ns, cross_timestamp: None, after: 1 }
    );
    assert_eq!(vmclock.status().root_distance_ns, Some(max_error_ns));
    assert_eq!(vmclock.info().unwrap(), page());
}

#[test]
fn a_page_that_is_not_to_be_trusted_is_refused() {
    let refused = |change: fn(&mut VmClockInfo)| {
        let mut info = page();
        change(&mut info);
        let (_file, mut vmclock) = device(&info);
        match vmclock.read_by(&|| 1_000_001u64, || ()).unwrap_err() {
            VmClockError::NoUtc { why, .. } => Ok(why),
            VmClockError::Page { error, .. } => Err(error),
            other => panic!("{other}"),
        }
    };
    let unreliable = NoUtc::Status(VmClockStatus::UNRELIABLE);
    assert_eq!(refused(|page| page.clock_status = VmClockStatus::UNRELIABLE), Ok(unreliable));
    assert_eq!(refused(|page| page.flags = VmClockFlags(0)), Ok(NoUtc::NoErrorBound));
    let arm = NoUtc::Counter(CounterId(99));
    assert_eq!(refused(|page| page.counter_id = CounterId(99)), Ok(arm));
    // What the counter was put back to by a restore, before the host wrote.
    assert!(refused(|page| page.counter_value = 1 << 40).is_err());
}

/// QEMU's and Firecracker's page.
#[test]
fn a_page_of_markers_alone_tells_no_time() {
    let markers = VmClockInfo {
        counter_id: CounterId::INVALID,
        clock_status: VmClockStatus(0),
        period: 0,
        ..page()
    };
    let (_file, mut vmclock) = device(&markers);
    let error = vmclock.read_by(&|| 1_000_001u64, || ()).unwrap_err().to_string();
    let expected = "the page shows no time (counter_id 0xff, clock_status 0): this host";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_page_that_changes_under_the_reading_is_read_again() {
    let (file, mut vmclock) = device(&page());
    let stamps = Cell::new(0u32);
    let migrated = VmClockInfo { disruption_marker: 4, counter_value: 5, seq_count: 10, ..page() };
    let stamp = || {
        if stamps.replace(stamps.get() + 1) == 0 {
            std::fs::write(file.path(), migrated.to_bytes()).unwrap();
        }
    };
    // By the old page this counter is behind; by the new one, at it.
    let reading = vmclock.read_by(&|| 5u64, stamp).unwrap();
    assert_eq!((reading.shown_ns.0, stamps.get()), (1_795_000_000_000_000_000, 4));
    let restless = || {
        stamps.set(stamps.get() + 1);
        let info = VmClockInfo { seq_count: 2 * stamps.get(), ..migrated };
        std::fs::write(file.path(), info.to_bytes()).unwrap();
    };
    let error = vmclock.read_by(&|| 5u64, restless).unwrap_err();
    assert!(matches!(error, VmClockError::Unsteady { tries: TRIES, .. }), "{error}");
}

#[test]
fn what_is_no_page_is_no_device() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let unknown = |vmclock: Fact<VmClockSource>| vmclock.unknown().unwrap().to_string();
    assert!(unknown(VmClockSource::open(file.path())).starts_with("not readable: "));
    std::fs::write(file.path(), [0; 4096]).unwrap();
    let why = unknown(VmClockSource::open(file.path()));
    assert!(why.ends_with("magic number 0x00000000 is not this page's"), "{why}");
    assert!(unknown(VmClockSource::open(Path::new("/no/vmclock"))).starts_with("not there: "));
}

#[test]
fn a_page_is_compared_with_the_clock() {
    let (_file, mut vmclock) = device(&page());
    // The clock is 2 s behind.
    let now = || ClockPair { monotonic_ns: 7, realtime_ns: 1_794_999_998_000_000_000 };
    let offset = vmclock.read_by(&|| 1_000_000u64, now).unwrap().offset().unwrap();
    // 250 ns, and a nanosecond cut off, of which half is in the middle.
    let expected = OffsetBound { offset_ns: 2_000_000_000, bound_ns: 251, at_monotonic_ns: 7 };
    assert_eq!(offset, expected);
}

/// The page goes on from where the kernel's line is, 5 us later: whatever else runs meanwhile,
/// the offset is that, but for what this machine's clock is steered by, 500 ppm at most.
#[test]
fn where_the_kernels_line_is_known_nothing_is_added_to_the_bound() {
    let (file, mut vmclock) = device(&page());
    let Some((_, line, counter_value)) = vmclock.lines() else {
        return writeln!(std::io::stderr(), "skipped: the kernel's line is not known").unwrap();
    };
    let at_ns = u64::try_from(line.realtime_ns(counter_value).unwrap()).unwrap() + 5000;
    let (time_sec, below_s) = (at_ns / 1_000_000_000, u128::from(at_ns % 1_000_000_000));
    let time_frac = ((below_s << 64) / 1_000_000_000) as u64;
    let period = (line.ns_per_count() * 2f64.powi(84) / 1e9) as u64;
    let period_max_error = 0;
    let info =
        VmClockInfo { counter_value, time_sec, time_frac, period, period_max_error, ..page() };
    std::fs::write(file.path(), info.to_bytes()).unwrap();
    let mut source = Source::VmClock(vmclock);
    let OffsetBound { offset_ns, bound_ns, .. } = source.offset().unwrap();
    assert_eq!(bound_ns, 251);
    let since = CpuCounter.read_ordered() - counter_value;
    let steered_ns = (since as f64 * line.ns_per_count() * 500e-6) as u64;
    assert!(offset_ns.abs_diff(5000) <= 2 + steered_ns, "{offset_ns} ns, {steered_ns} ns");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A host whose page is wrong by no more than it states, in UTC or TAI, and
    /// a clock of known error: the offset is that error, within the bound.
    #[test]
    fn a_known_truth_is_within_the_bound(
        error_ns in -3_000_000_000i64..3_000_000_000,
        elapsed_s in 0.0f64..3600.0,
        rate_error in -1.0f64..=1.0, time_error in -1.0f64..=1.0,
        is_tai in any::<bool>(), took_ns in 0u64..50_000,
    ) {
        let mut info = page();
        if is_tai {
            info.time_type = TimeType::TAI;
            info.time_sec += 37;
        }
        let (_file, mut vmclock) = device(&info);
        let count = 1_000_000 + (elapsed_s * f64::from(1u32 << 30)) as u64;
        let page_ns = ((u128::from(count - 1_000_000) * 1_000_000_000) >> 30) as u64;
        // The page may be off by 250 ns and by 2^-20 of what has passed.
        let off_by = time_error * 250.0 + rate_error * page_ns as f64 / f64::from(1u32 << 20);
        let truth_ns = 1_795_000_000_000_000_000u64 + page_ns;
        let truth_ns = truth_ns.checked_add_signed(off_by as i64).unwrap();
        let clock_ns = truth_ns.checked_add_signed(-error_ns).unwrap();
        let stamps = Cell::new(0);
        let now = || {
            let passed = stamps.replace(took_ns);
            ClockPair { monotonic_ns: passed, realtime_ns: clock_ns - took_ns / 2 + passed }
        };
        let offset = vmclock.read_by(&|| count, now).unwrap().offset().unwrap();
        prop_assert!(offset.offset_ns.abs_diff(error_ns) <= offset.bound_ns, "{offset:?}");
    }
}

#[test]
fn a_page_states_that_others_smear() {
    for (hint, is_smeared) in [(0, false), (1, true), (2, true)] {
        let info = VmClockInfo { leap_smearing_hint: hint, ..page() };
        let (_file, mut vmclock) = device(&info);
        vmclock.read_by(&|| 1_000_000, || 0).unwrap();
        assert_eq!(vmclock.is_smeared_nearby(), is_smeared);
    }
}

#[test]
fn a_page_announces_a_leap_second_that_is_to_come() {
    let said = |indicator: u8| {
        let (_file, mut vmclock) = device(&VmClockInfo { leap_indicator: indicator, ..page() });
        let _ = vmclock.read_by(&|| 1_000_000, || 0);
        vmclock.status().leap
    };
    // Those that a page has after it or while it passes announce none.
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(said), [None, Some(1), Some(2), None, None, None, None]);
}
