//! What a kvm-clock page's update did to its time.

use pvclock::kvm_clock::{TimeInfo, TimePage, TimeReader};
use pvclock::shared::Aligned;
use pvclock::{Nanos, ReadError, Ticks};
use schemars::JsonSchema;
use serde::Serialize;

/// The difference between two contents of one page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageStep {
    /// Updates in between, by the version; `None` where it went back, as on a
    /// rewritten page.
    pub updates: Option<u32>,
    /// The fields that differ.
    pub changed: Vec<PageFieldChange>,
    /// New minus old time at the TSC of the update, ns; else why one of the
    /// two gives no time then.
    pub step_ns: Result<i64, ReadError>,
}

/// A field's old and new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageFieldChange {
    /// Its name in the kernel's header.
    pub field: &'static str,
    /// Before.
    pub before: i128,
    /// After.
    pub after: i128,
}

/// Compares what a page held with what it holds; `None` if that is the same.
pub fn compare(old: &TimeInfo, new: &TimeInfo) -> Option<PageStep> {
    let changed: Vec<_> = fields(old)
        .into_iter()
        .zip(fields(new))
        .filter(|(before, after)| before != after)
        .map(|((field, before), (_, after))| PageFieldChange { field, before, after })
        .collect();
    if changed.is_empty() {
        return None;
    }
    let versions = new.version.wrapping_sub(old.version);
    let step_ns = time_at(new, new.tsc_timestamp).and_then(|Nanos(new_then)| {
        let Nanos(old_then) = time_at(old, new.tsc_timestamp)?;
        // Both are below 2^63 on any clock younger than 292 years.
        Ok(new_then.wrapping_sub(old_then).cast_signed())
    });
    Some(PageStep {
        updates: (versions.cast_signed() >= 0).then_some(versions / 2),
        changed,
        step_ns,
    })
}

/// How long ago the page's time stamp was taken, ns, at the TSC given.
///
/// The page may have been updated since: while KVM's master clock is on, an
/// update repeats the pair of times that the master clock was started with
/// (arch/x86/kvm/x86.c, `kvm_guest_time_update`).
///
/// # Errors
/// Those of reading the page.
pub fn age_ns(page: &TimeInfo, tsc: u64) -> Result<u64, ReadError> {
    let now = time_at(page, tsc)?;
    now.0
        .checked_sub(page.system_time.0)
        .ok_or(ReadError::CounterBehind { counter: tsc, timestamp: page.tsc_timestamp })
}

fn time_at(info: &TimeInfo, tsc: u64) -> Result<Nanos, ReadError> {
    if info.scale.mul() == 0 {
        return Err(ReadError::SwitchedOff { version: info.version });
    }
    TimeReader::new(&TimePage::<Aligned>::from_info(info)).nanos_at(Ticks(tsc))
}

fn fields(info: &TimeInfo) -> [(&'static str, i128); 6] {
    [
        ("version", i128::from(info.version)),
        ("tsc_timestamp", i128::from(info.tsc_timestamp)),
        ("system_time", i128::from(info.system_time.0)),
        ("tsc_to_system_mul", i128::from(info.scale.mul())),
        ("tsc_shift", i128::from(info.scale.shift())),
        ("flags", i128::from(info.flags.0)),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pvclock::kvm_clock::Flags;
    use pvclock::{Hertz, Scale};

    use super::*;

    fn page() -> TimeInfo {
        TimeInfo {
            version: 32,
            tsc_timestamp: 5_000_000_000,
            system_time: Nanos(2_000_000_000),
            scale: Scale::from_hertz(Hertz(2_500_000_000)).unwrap(),
            flags: Flags::TSC_STABLE,
        }
    }

    #[test]
    fn the_same_contents_are_no_update() {
        assert_eq!(compare(&page(), &page()), None);
    }

    #[test]
    fn a_flag_the_guest_took_is_a_change_without_a_step() {
        let stopped = TimeInfo { flags: Flags(3), ..page() };
        let update = compare(&stopped, &page()).unwrap();
        assert_eq!(update.updates, Some(0));
        assert_eq!(update.changed, [PageFieldChange { field: "flags", before: 3, after: 1 }]);
        assert_eq!(update.step_ns, Ok(0));
    }

    #[test]
    fn a_rewritten_page_has_no_count_of_updates() {
        let again = TimeInfo { version: 2, ..page() };
        assert_eq!(compare(&page(), &again).unwrap().updates, None);
        let wrapped = TimeInfo { version: 0, ..page() };
        let before = TimeInfo { version: u32::MAX - 3, ..page() };
        assert_eq!(compare(&before, &wrapped).unwrap().updates, Some(2));
    }

    #[test]
    fn a_page_switched_off_has_no_step() {
        let off = TimeInfo { version: 34, scale: Scale::from_parts(0, 0), ..page() };
        let update = compare(&page(), &off).unwrap();
        assert_eq!(update.step_ns, Err(ReadError::SwitchedOff { version: 34 }));
        assert!(age_ns(&off, u64::MAX).is_err());
    }

    #[test]
    fn the_age_is_the_time_since_the_update() {
        let at = |tsc| age_ns(&page(), tsc);
        assert!((999_999_998..=1_000_000_000).contains(&at(7_500_000_000).unwrap()));
        assert!(at(4_999_000_000).is_err());
    }

    proptest! {
        /// The host adds `step` to a clock that otherwise goes on, `cycles`
        /// after the last update or (a counter reset) before it.
        #[test]
        fn the_step_is_the_one_put_in(
            cycles in -4_000_000_000i64..4_000_000_000_000,
            step in -1_000_000_000i64..1_000_000_000,
            versions in 1u32..1000,
        ) {
            let elapsed_ns = (cycles as f64 / 2.5).floor() as i64;
            let new = TimeInfo {
                version: 32 + 2 * versions,
                tsc_timestamp: 5_000_000_000u64.wrapping_add_signed(cycles),
                system_time: Nanos(2_000_000_000u64.saturating_add_signed(elapsed_ns + step)),
                ..page()
            };
            prop_assume!(new.system_time.0 > 0);
            let update = compare(&page(), &new).unwrap();
            prop_assert_eq!(update.updates, Some(versions));
            // The scale is cut by up to 0.47 ppb, and each conversion by 2 ns.
            let cut = (cycles.unsigned_abs() as f64 / 2.5 * 0.47e-9) as i64 + 3;
            prop_assert!((update.step_ns.unwrap() - step).abs() <= cut, "{:?}", update);
        }
    }
}
