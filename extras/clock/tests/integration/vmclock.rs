//! The clock with a host that publishes a VMClock page: ours, in a file,
//! written by `pvclock`'s writer while the clock has it mapped.
//!
//! # Invariants of the unsafe code
//! 1. `address` is a mapping of the whole file, shared and writable, made in
//!    `new` and unmapped only in `drop`; a page was stored at its start
//!    before the clock could map it.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use clock::{Clock, ErrorFrom, Settings, Source, SteeringDisruption};
use linux::counter::{Counter, CpuCounter};
use pvclock::Nanos;
use pvclock::shared::page_at;
use pvclock::vmclock::{
    CounterId, TimeType, VmClockFlags, VmClockInfo, VmClockPage, VmClockStatus, VmClockWriter,
};
use tempfile::NamedTempFile;

use crate::common::{MICROSECOND, on_tsc, outside_ns, read_ns};

const BYTES: usize = 4096;
/// The error that the host reports.
const HOST: Duration = Duration::from_micros(40);

/// The host's side of the page.
struct Host {
    file: NamedTempFile,
    address: *mut libc::c_void,
    info: VmClockInfo,
}

impl Host {
    /// A host whose time is this machine's.
    fn new(tsc_hz: u64) -> Self {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(BYTES as u64).unwrap();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = file.as_file().as_raw_fd();
        // SAFETY: a new mapping, placed by the kernel where nothing is.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, fd, 0) };
        assert_ne!(address, libc::MAP_FAILED);
        let info = now(tsc_hz);
        // SAFETY: room for a page, aligned, and not shared yet (invariant 1).
        unsafe { address.cast::<VmClockPage>().write(VmClockPage::from_info(&info)) };
        Self { file, address, info }
    }

    /// Rewrites the page, as a host does after it has migrated the machine.
    fn rewrite(&mut self, change: impl FnOnce(&mut VmClockInfo)) {
        change(&mut self.info);
        // SAFETY: a page is there for as long as `self` (invariant 1).
        let page: &VmClockPage = unsafe { page_at(self.address.cast()) }.unwrap();
        VmClockWriter::new(page).write(&self.info);
    }

    /// A clock that has this host.
    fn clock(&self) -> Clock {
        let path = self.file.path().to_str().unwrap().to_owned();
        Clock::with_settings(&Settings {
            vmclock: Box::leak(path.into_boxed_str()),
            ..Settings::DEFAULT
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: our mapping, no page of it borrowed any more (invariant 1).
        unsafe { libc::munmap(self.address, BYTES) };
    }
}

/// What CLOCK_REALTIME shows now, ± 40 µs.
fn now(tsc_hz: u64) -> VmClockInfo {
    let counter_value = CpuCounter.read_ordered();
    let now_ns = read_ns(libc::CLOCK_REALTIME);
    let bounded = VmClockFlags::TIME_MAX_ERROR_VALID.union(VmClockFlags::PERIOD_MAX_ERROR_VALID);
    VmClockInfo {
        size: BYTES as u32,
        counter_id: CounterId::NATIVE,
        time_type: TimeType::UTC,
        seq_count: 2,
        disruption_marker: 1,
        flags: bounded.union(VmClockFlags::VM_GENERATION_PRESENT),
        clock_status: VmClockStatus::SYNCHRONISED,
        counter_value,
        period: ((1u128 << 64) / u128::from(tsc_hz)) as u64,
        time_sec: now_ns / 1_000_000_000,
        time_frac: ((u128::from(now_ns % 1_000_000_000) << 64) / 1_000_000_000) as u64,
        time_max_error: Nanos(HOST.as_nanos() as u64),
        vm_generation: 1,
        ..VmClockInfo::ZERO
    }
}

/// Reads until a condition holds, which it will.
fn read_until(clock: &Clock, so: impl Fn(&Clock) -> bool) {
    while !so(clock) {
        thread::sleep(Duration::from_millis(1));
        clock.now();
    }
}

fn counts_the_tsc(clock: &Clock) -> bool {
    matches!(clock.status().source, Source::Tsc { .. })
}

#[test]
fn the_host_bounds_the_error() {
    let Some(hz) = on_tsc(&Clock::new()) else { return };
    let mut host = Host::new(hz);
    let clock = host.clock();
    clock.now();
    let error = clock.system_time().error().expect("a bound by the host");
    // Its error, that of the rate it was given, and the time that a busy
    // machine spends between two reads.
    assert!(error >= HOST && error < Duration::from_secs(1), "{error:?}");
    assert_eq!(clock.status().error_from, Some(ErrorFrom::Host));
    host.rewrite(|info| info.clock_status = VmClockStatus::UNRELIABLE);
    read_until(&clock, |clock| clock.status().error_from != Some(ErrorFrom::Host));
    assert_eq!(clock.status().disruptions, 0);
}

/// Another marker is a migration, another generation a restored snapshot.
#[test]
fn a_disruption_that_the_host_announces_restarts_calibration() {
    let Some(hz) = on_tsc(&Clock::new()) else { return };
    let mut host = Host::new(hz);
    let clock = host.clock();
    read_until(&clock, counts_the_tsc);
    let changes: [fn(&mut VmClockInfo); 2] =
        [|info| info.disruption_marker += 1, |info| info.vm_generation += 1];
    for (before, change) in changes.into_iter().enumerate() {
        assert_eq!(clock.status().disruptions, before as u64);
        let earlier = clock.now();
        host.rewrite(change);
        read_until(&clock, |clock| clock.status().disruptions > before as u64);
        assert_eq!(clock.status().last_disruption, Some(SteeringDisruption::Announced));
        read_until(&clock, counts_the_tsc);
        assert!(clock.now() >= earlier);
    }
    // The host's new page has an error, so there is a bound at once.
    assert_eq!(clock.status().error_from, Some(ErrorFrom::Host));
    let outside = || {
        let before = read_ns(libc::CLOCK_MONOTONIC);
        let ns = clock.now_ordered().as_nanos();
        outside_ns(before, ns, read_ns(libc::CLOCK_MONOTONIC))
    };
    // Longer than time can stand still after being ahead.
    thread::sleep(Duration::from_millis(100));
    let mut reads: Vec<u64> = (0..999).map(|_| outside()).collect();
    reads.sort_unstable();
    assert!(reads[reads.len() / 2] <= MICROSECOND, "{reads:?}");
}
