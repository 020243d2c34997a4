//! The readers of `pvclock` on pages of arbitrary bytes.
//!
//! # Invariants of the unsafe code
//! 1. A [`Region`] is atomics, so a page that views it is never the only way
//!    to its memory, and all access is atomic.
//! 2. A view is no larger than its region, and borrows it.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;

use pvclock::ReadError;
use pvclock::clockbound::{Layout, SegmentPage, SegmentReader, SegmentStatus, SegmentWriter};
use pvclock::hyperv::{ReferencePage, ReferenceReader};
use pvclock::kvm_clock::{LastTime, TimePage, TimeReader, WallClockPage, WallClockReader};
use pvclock::shared::{self, Page, Split};
use pvclock::steal_time::{StealPage, StealReader};
use pvclock::vmclock::{VmClockPage, VmClockReader};

/// Enough for a reader to notice, too few to slow the fuzzer.
const TRIES: u32 = 4;

/// Memory that a host has written, as a guest maps it.
struct Region(Vec<AtomicU64>);

impl Region {
    /// The first `bytes` of the data as a region, and what is left of them;
    /// missing bytes are zero.
    fn split(data: &[u8], bytes: usize) -> (Self, &[u8]) {
        let (page, rest) = data.split_at(bytes.min(data.len()));
        let mut words = vec![0; bytes.div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(page.chunks(8)) {
            *word = le_u64(chunk);
        }
        (Self(words.into_iter().map(AtomicU64::new).collect()), rest)
    }

    fn page<P: Page>(&self) -> &P {
        assert!(size_of::<P>() <= size_of_val(self.0.as_slice()));
        let address = self.0.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: invariants 1 and 2: large enough (asserted), atomics, and
        // borrowed for as long as the page is.
        unsafe { shared::page_at(address) }.expect("words are aligned for every page")
    }
}

/// Up to eight bytes as a number.
fn le_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Counter readings: what the data holds after the page, and some that matter.
fn counters(rest: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let edges = [0, 1, 1 << 63, u64::MAX];
    rest.chunks(8).take(8).map(le_u64).chain(edges)
}

/// ns of a page by the definition, in integers that cannot overflow.
fn exact_ns(info: &pvclock::kvm_clock::TimeInfo, counter: u64) -> Option<u64> {
    let delta = u128::from(counter.wrapping_sub(info.tsc_timestamp));
    let shift = i32::from(info.scale.shift());
    let shifted = if shift >= 0 {
        let left = delta.checked_shl(shift.unsigned_abs())?;
        // 96 bits keep the product with `mul` within 128.
        (left >> shift.min(127) == delta && left < 1 << 96).then_some(left)?
    } else {
        delta.checked_shr(shift.unsigned_abs()).unwrap_or(0)
    };
    let elapsed = (shifted * u128::from(info.scale.mul())) >> 32;
    u64::try_from(elapsed + u128::from(info.system_time.0)).ok()
}

/// kvm-clock's page: no answer but the defined one, in both kinds of memory.
pub(crate) fn kvm_time(data: &[u8]) {
    let (region, rest) = Region::split(data, 32);
    let reader = TimeReader::new(region.page::<TimePage>()).with_tries(TRIES);
    let split = TimeReader::new(region.page::<TimePage<Split>>()).with_tries(TRIES);
    let last = LastTime::new();
    let mut largest = 0;
    for counter in counters(rest) {
        let now = reader.nanos(&|| counter);
        assert_eq!(now, split.nanos(&|| counter));
        assert_eq!(now, reader.nanos_ordered(&|| counter));
        let info = reader.info();
        match (now, info) {
            (Ok(now), Ok(info)) => {
                assert_eq!(Some(now.0), exact_ns(&info, counter), "{info:?} at {counter}");
                assert_eq!(reader.nanos_at(pvclock::Ticks(counter)), Ok(now));
            }
            (Ok(now), Err(error)) => panic!("{now:?} from a page without contents: {error}"),
            (Err(error), _) => assert!(!error.to_string().is_empty()),
        }
        if let Ok(now) = reader.nanos_monotonic(&|| counter, &last)
            && info.is_ok_and(|info| info.flags.0 & 1 == 0)
        {
            assert!(now.0 >= largest, "{now:?} after {largest} ns");
            largest = now.0;
        }
        // Whatever the page holds, a counter out of nowhere is no panic.
        let _ = reader.nanos_at(pvclock::Ticks(counter));
    }
    let stopped = reader.take_guest_stopped();
    assert!(!reader.take_guest_stopped(), "taken twice; the first time: {stopped}");
}

/// kvm-clock's wall clock.
pub(crate) fn kvm_wall_clock(data: &[u8]) {
    let (region, rest) = Region::split(data, 12);
    let reader = WallClockReader::new(region.page::<WallClockPage>()).with_tries(TRIES);
    if let Ok(wall_clock) = reader.read() {
        for system_time in counters(rest) {
            let now = wall_clock.plus(pvclock::Nanos(system_time));
            assert!(now.0 >= system_time, "{now:?} is before {system_time} ns of system time");
        }
    }
}

/// Hyper-V's page: no answer but the defined one.
pub(crate) fn hyperv_reference(data: &[u8]) {
    let (region, rest) = Region::split(data, 24);
    let reader = ReferenceReader::new(region.page::<ReferencePage>()).with_tries(TRIES);
    for counter in counters(rest) {
        let now = reader.units_100ns(&|| counter);
        assert_eq!(now, reader.units_100ns_ordered(&|| counter));
        if let (Ok(now), Ok(info)) = (now, reader.info()) {
            let product = (u128::from(counter) * u128::from(info.scale.raw())) >> 64;
            let exact = i128::try_from(product).expect("64 bits") + i128::from(info.offset_100ns);
            assert_eq!(i128::from(now), exact, "{info:?} at {counter}");
        }
    }
}

/// KVM's steal time.
pub(crate) fn steal_time(data: &[u8]) {
    let (region, _) = Region::split(data, 64);
    let read = StealReader::new(region.page::<StealPage>()).with_tries(TRIES).read();
    let odd = data.get(8).is_some_and(|low| low & 1 == 1);
    assert_eq!(matches!(read, Err(ReadError::NeverFinished { .. })), odd, "{read:?}");
}

/// VMClock: a time is never before the page's own, its bound never below.
pub(crate) fn vmclock(data: &[u8]) {
    let (region, rest) = Region::split(data, size_of::<VmClockPage>());
    let Ok(reader) = VmClockReader::new(region.page::<VmClockPage>()) else { return };
    let reader = reader.with_tries(TRIES);
    for counter in counters(rest) {
        if let Ok(time) = reader.time(&|| counter) {
            let at_update = (time.info.time_sec, time.info.time_frac);
            assert!((time.seconds, time.fraction) >= at_update, "{time:?}");
            assert!(time.subsecond_nanos() < 1_000_000_000, "{time:?}");
            let bound = time.max_error.unwrap_or(time.info.time_max_error);
            assert!(bound >= time.info.time_max_error, "{time:?}");
            if let Ok(utc) = time.utc() {
                assert_eq!(Some(utc.max_error), time.max_error, "{time:?}");
                let subsecond = utc.since_1970_ns.rem_euclid(1_000_000_000);
                assert_eq!(subsecond, i64::from(time.subsecond_nanos()), "{time:?}");
            }
        }
    }
}

/// ClockBound's segment: a bound only where one was stated, never below it, and
/// what was read is written the same.
pub(crate) fn clockbound(data: &[u8]) {
    let (region, rest) = Region::split(data, size_of::<SegmentPage>());
    let Ok(reader) = SegmentReader::new(region.page::<SegmentPage>()) else { return };
    let Ok(bound) = reader.with_tries(TRIES).read() else { return };
    for now_ns in counters(rest) {
        let Some(error_ns) = bound.error_ns(now_ns) else { continue };
        assert!(matches!(bound.status, SegmentStatus::Synchronised | SegmentStatus::FreeRunning));
        assert!(now_ns <= bound.void_after_ns && error_ns >= bound.bound_ns);
    }
    let layout: Layout = reader.layout();
    let copy: SegmentPage = SegmentPage::new(layout);
    SegmentWriter::new(&copy, layout).write(&bound);
    let copied = SegmentReader::new(&copy).expect("our own page").read();
    assert_eq!(copied, Ok(bound));
}
