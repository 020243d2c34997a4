use std::cell::Cell;

use proptest::prelude::*;
use pvclock::vmclock::TimeType;

use super::*;
use crate::reference::vmclock::tests::{device, page};

#[test]
fn a_page_is_compared_with_the_clock() {
    let (_file, vmclock) = device(&page());
    // The clock is 2 s behind.
    let now = || Ok(Moment { monotonic_ns: 7, realtime_ns: 1_794_999_998_000_000_000 });
    let reading = vmclock.read_by(&|| 1_000_000u64, now).unwrap();
    let offset = from_reading(|| "page".into(), reading).unwrap();
    // 250 ns, and a nanosecond cut off, of which half is in the middle.
    let expected = Offset { offset_ns: 2_000_000_000, bound_ns: 251, at_monotonic_ns: 7 };
    assert_eq!(offset, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A host whose page is wrong by no more than it says, in UTC or TAI, and
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
        let (_file, vmclock) = device(&info);
        let count = 1_000_000 + (elapsed_s * f64::from(1u32 << 30)) as u64;
        let page_ns = ((u128::from(count - 1_000_000) * 1_000_000_000) >> 30) as u64;
        // The page may be off by 250 ns and by 2^-20 of what has passed.
        let off_by = time_error * 250.0 + rate_error * page_ns as f64 / f64::from(1u32 << 20);
        let truth_ns = 1_795_000_000_000_000_000u64 + page_ns;
        let truth_ns = truth_ns.checked_add_signed(off_by as i64).unwrap();
        let clock_ns = truth_ns.checked_add_signed(-error_ns).unwrap();
        let looks = Cell::new(0);
        let now = || {
            let passed = looks.replace(took_ns);
            Ok(Moment { monotonic_ns: passed, realtime_ns: clock_ns - took_ns / 2 + passed })
        };
        let reading = vmclock.read_by(&|| count, now).unwrap();
        let offset = from_reading(|| "page".into(), reading).unwrap();
        prop_assert!(offset.offset_ns.abs_diff(error_ns) <= offset.bound_ns, "{offset:?}");
    }
}
