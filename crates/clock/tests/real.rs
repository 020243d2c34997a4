//! The clock beside the running kernel's. What is asserted holds on a busy
//! machine too: a reading between two of the system's, however far apart
//! these are, and the middle of many.
#![cfg(not(miri))]
#![allow(unsafe_code)]

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use clock::{Clock, Instant, Keeper, Settings, Source, SystemTime};

/// What the clock may be off beyond the reads around it.
const MICROSECOND: u64 = 1_000;

/// One of the system's clocks, as any program reads it, ns.
fn read_ns(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `clock_gettime` writes the live local and keeps nothing.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far `ns` lies outside of what was read before and after it.
fn outside_ns(before: u64, ns: u64, after: u64) -> u64 {
    before.saturating_sub(ns).max(ns.saturating_sub(after))
}

/// The middle of how far `read` is outside of the system's clock, over
/// `seconds`.
fn median_outside_ns(seconds: u64, id: libc::clockid_t, read: impl Fn() -> u64) -> u64 {
    let end = read_ns(libc::CLOCK_MONOTONIC) + seconds * 1_000_000_000;
    let mut outside = Vec::new();
    while read_ns(libc::CLOCK_MONOTONIC) < end {
        let before = read_ns(id);
        let ns = read();
        outside.push(outside_ns(before, ns, read_ns(id)));
        thread::sleep(Duration::from_micros(300));
    }
    outside.sort_unstable();
    outside[outside.len() / 2]
}

/// A clock that has measured the TSC; `None`, said aloud, where it may not.
fn on_tsc(clock: &Clock) -> Option<u64> {
    for _ in 0..200 {
        clock.now();
        match clock.status().source {
            Source::Tsc { hz } => return Some(hz),
            Source::Measuring => thread::sleep(Duration::from_millis(5)),
            Source::System(why) => {
                // Past the test harness, which would swallow it.
                let _ = writeln!(std::io::stderr(), "skipped: the TSC is not used: {why:?}");
                return None;
            }
        }
    }
    panic!("no rate after a second: {:?}", clock.status());
}

#[test]
fn it_tells_the_systems_time() {
    static CLOCK: Clock = Clock::new();
    let ordered = || CLOCK.now_ordered().as_nanos();
    let median = median_outside_ns(3, libc::CLOCK_MONOTONIC, ordered);
    let status = CLOCK.status();
    assert!(median <= MICROSECOND, "{median} ns; {status:?}");
    let of_day = || CLOCK.system_time().unix_nanos() as u64;
    let median = median_outside_ns(1, libc::CLOCK_REALTIME, of_day);
    assert!(median <= MICROSECOND, "{median} ns; {status:?}");
}

#[test]
fn a_keeper_leaves_readers_nothing_to_do() {
    static CLOCK: Clock = Clock::new();
    if on_tsc(&CLOCK).is_none() {
        return;
    }
    let keeper = Keeper::start(&CLOCK).unwrap();
    let ordered = || CLOCK.now_ordered().as_nanos();
    let median = median_outside_ns(2, libc::CLOCK_MONOTONIC, ordered);
    assert!(median <= MICROSECOND, "{median} ns");
    drop(keeper);
    // And an owned one, with longer segments and fewer wake-ups.
    let settings = Settings { segment: Duration::from_millis(400), ..Settings::DEFAULT };
    let owned = Arc::new(Clock::with(&settings));
    let _keeper = Keeper::start(Arc::clone(&owned)).unwrap();
    let ordered = || owned.now_ordered().as_nanos();
    let median = median_outside_ns(2, libc::CLOCK_MONOTONIC, ordered);
    assert!(median <= MICROSECOND, "{median} ns");
}

/// Each thread reads the latest time that any thread has told, then its own.
#[test]
fn no_thread_sees_time_go_back() {
    static CLOCK: LazyLock<Clock> = LazyLock::new(|| {
        Clock::with(&Settings { segment: Duration::from_millis(1), ..Settings::DEFAULT })
    });
    let latest = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let reads: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        let before = latest.load(Ordering::Acquire);
                        let now = CLOCK.now_ordered().as_nanos();
                        assert!(now >= before, "{} ns back", before - now);
                        latest.fetch_max(now, Ordering::AcqRel);
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(reads > 10_000, "{reads}");
}

#[test]
fn the_shared_clock_is_behind_the_types() {
    let (instant, time) = (Instant::now(), SystemTime::now());
    assert!(instant.elapsed() < Duration::from_secs(60));
    assert!(clock::shared().now() >= instant);
    assert!(std::time::SystemTime::from(time) > UNIX_EPOCH);
    if let Some(error) = time.error() {
        assert_eq!(
            time.latest().unwrap().duration_since(time.earliest().unwrap()).unwrap(),
            2 * error
        );
    }
}

/// A file stands for the device: a host that is right to 40 µs, and then says
/// that the machine was restored.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_hosts_word_bounds_the_error_and_ends_a_calibration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmclock");
    let path: &'static str = Box::leak(path.to_str().unwrap().to_owned().into_boxed_str());
    let clock = Clock::with(&Settings { vmclock: path, ..Settings::DEFAULT });
    let measured = Clock::new();
    let Some(hz) = on_tsc(&measured) else { return };
    let device = std::fs::File::create(path).unwrap();
    device.write_all_at(&page_bytes(hz, 1), 0).unwrap();

    clock.now();
    let error = clock.system_time().error().expect("a bound by the host");
    // What it says, what it cannot say better than the rate it was told, and
    // what a busy machine puts between two reads.
    assert!(error >= Duration::from_micros(40) && error < Duration::from_secs(1), "{error:?}");
    assert_eq!(clock.status().disruptions, 0);
    device.write_all_at(&page_bytes(hz, 2), 0).unwrap();
    while clock.status().disruptions == 0 {
        thread::sleep(Duration::from_millis(1));
        clock.now();
    }
    assert_eq!(clock.status().last_disruption, Some(clock::Disruption::Announced));
}

/// The bytes of a page that says: it is what CLOCK_REALTIME says now, ± 40 µs
/// (docs/protocols/vmclock.md).
#[cfg(target_arch = "x86_64")]
fn page_bytes(hz: u64, disruption_marker: u64) -> [u8; 4096] {
    use pvclock::counter::{Counter, Tsc};
    use pvclock::vmclock::{ClockStatus, CounterId, MAGIC, TimeType, VmClockFlags};

    let counter_value = Tsc.read_ordered();
    let now_ns = read_ns(libc::CLOCK_REALTIME);
    let fraction = (u128::from(now_ns % 1_000_000_000) << 64) / 1_000_000_000;
    let vouched = VmClockFlags::TIME_MAX_ERROR_VALID.with(VmClockFlags::PERIOD_MAX_ERROR_VALID);
    let mut page = [0; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC.to_le_bytes());
    put(4, &4096u32.to_le_bytes());
    put(8, &[1, 0, CounterId::X86_TSC.0, TimeType::UTC.0]);
    put(12, &2u32.to_le_bytes());
    put(16, &disruption_marker.to_le_bytes());
    put(24, &vouched.0.to_le_bytes());
    put(34, &[ClockStatus::SYNCHRONISED.0]);
    put(40, &counter_value.to_le_bytes());
    put(48, &(((1u128 << 64) / u128::from(hz)) as u64).to_le_bytes());
    put(72, &(now_ns / 1_000_000_000).to_le_bytes());
    put(80, &(fraction as u64).to_le_bytes());
    put(96, &40_000u64.to_le_bytes());
    page
}
