//! kvm-clock's wall clock page. The invariants are those of [`crate::abi`].
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::MaybeUninit;

use pvclock::Nanos;
use pvclock::kvm_clock::{WallClock, WallClockPage, WallClockReader, WallClockWriter};

use super::{page as page_at, put, status};
use crate::kvm_clock::PvclockWallClock;
use crate::status::PvclockStatus;

/// The real time at which the VM's system time was 0, from the wall clock
/// page that belongs to kvm-clock or Xen.
///
/// # Safety
/// `page` is NULL or a wall clock page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_wall_clock_read(
    page: *const c_void,
    wall_clock: Option<&mut MaybeUninit<PvclockWallClock>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<WallClockPage>(page) };
    put(wall_clock, || Ok(WallClockReader::new(page?).read()?.into()))
}

/// Writes the wall clock page, as a host does when the guest requests it.
///
/// # Safety
/// `page` is NULL or a wall clock page that may be written, by no other thread at
/// this time: see "Pages".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_wall_clock_write(
    page: *mut c_void,
    wall_clock: PvclockWallClock,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<WallClockPage>(page) };
    status(page.map(|page| WallClockWriter::new(page).write(wall_clock.into())))
}

/// The time of day, in nanoseconds since 1970 in UTC, when the VM's system
/// time is `system_time_ns`. A sum beyond 64 bits is held at their end.
#[unsafe(no_mangle)]
pub extern "C" fn pvclock_wall_clock_plus(
    wall_clock: PvclockWallClock,
    system_time_ns: u64,
) -> u64 {
    WallClock::from(wall_clock).plus(Nanos(system_time_ns)).0
}
