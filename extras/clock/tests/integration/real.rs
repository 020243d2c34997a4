//! The clock compared with the running kernel's. The assertions hold on a busy
//! machine too: a reading between two of the system's, however far apart these
//! are, and the median of many.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use clock::{Clock, Instant, Maintainer, Settings, SystemTime};

use crate::common::{MICROSECOND, on_tsc, outside_ns, read_ns};

/// The median of how far `read` is outside the system's clock, over `seconds`.
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

#[test]
fn it_shows_the_systems_time() {
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
fn with_a_maintainer_readers_need_not_maintain() {
    static CLOCK: Clock = Clock::new();
    if on_tsc(&CLOCK).is_none() {
        return;
    }
    let maintainer = Maintainer::start(&CLOCK).unwrap();
    let ordered = || CLOCK.now_ordered().as_nanos();
    let median = median_outside_ns(2, libc::CLOCK_MONOTONIC, ordered);
    assert!(median <= MICROSECOND, "{median} ns");
    drop(maintainer);
    // And an owned one, with longer segments and fewer wake-ups.
    let settings = Settings { segment: Duration::from_millis(400), ..Settings::DEFAULT };
    let owned = Arc::new(Clock::with_settings(&settings));
    let _maintainer = Maintainer::start(Arc::clone(&owned)).unwrap();
    let ordered = || owned.now_ordered().as_nanos();
    let median = median_outside_ns(2, libc::CLOCK_MONOTONIC, ordered);
    assert!(median <= MICROSECOND, "{median} ns");
}

/// Each thread reads the latest time that any thread has read, then its own.
#[test]
fn no_thread_sees_time_go_back() {
    static CLOCK: LazyLock<Clock> = LazyLock::new(|| {
        Clock::with_settings(&Settings { segment: Duration::from_millis(1), ..Settings::DEFAULT })
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
