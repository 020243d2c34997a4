//! kvm-clock's two pages, the time and the wall clock. The invariants are those of [`crate::abi`].
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::MaybeUninit;

use pvclock::kvm_clock::{
    TimePage, TimeReader, TimeWriter, WallClock, WallClockPage, WallClockReader, WallClockWriter,
};
use pvclock::shared::Split;
use pvclock::{Nanos, Ticks};

use super::{on_time_page, page as page_at, put, status};
use crate::kvm_clock::{PvclockKvmInfo, PvclockKvmUpdate, PvclockWallClock};
use crate::status::PvclockStatus;

#[cfg(target_arch = "x86_64")]
use pvclock::counter::{Counter, Tsc};

#[cfg(target_arch = "x86_64")]
use crate::kvm_clock::PvclockLastTime;

/// The usual case without a stack frame, which costs an ordered read 3 %; everything else by
/// [`read_by_retry`].
///
/// # Safety
/// Invariant 1 of [`crate::abi`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn read_now(page: *const c_void, mut ns: Option<&mut MaybeUninit<u64>>) -> PvclockStatus {
    let address = page.cast::<TimePage>();
    if let Some(ns) = &mut ns
        && !address.is_null()
        && address.is_aligned()
        // SAFETY: not null and aligned (checked), mapped (the caller's promise).
        && let Some(now) = TimeReader::new(unsafe { &*address }).nanos_by_one_try(&Tsc)
    {
        ns.write(now.0);
        return PvclockStatus::Ok;
    }
    // SAFETY: the caller's promise.
    unsafe { read_by_retry(page, ns) }
}

/// # Safety
/// Invariant 1 of [`crate::abi`].
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
unsafe fn read_by_retry(page: *const c_void, ns: Option<&mut MaybeUninit<u64>>) -> PvclockStatus {
    put(ns, || on_time_page!(page, page => Ok(TimeReader::new(page).nanos(&Tsc)?.0)))
}

/// The VM's system time now, in nanoseconds, from a kvm-clock or Xen page.
/// The CPU may read its TSC a little before or after the code around the
/// call: right for time stamps, not for deciding what came first.
///
/// # Safety
/// `page` is NULL or a kvm-clock page: see "Pages".
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_kvm_read(
    page: *const c_void,
    ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    unsafe { read_now(page, ns) }
}

/// As pvclock_kvm_read, and the TSC is read after every load that comes
/// before the call: for deciding what came first, on one CPU, or on any
/// while the page's flag PVCLOCK_KVM_TSC_STABLE is set.
///
/// # Safety
/// `page` is NULL or a kvm-clock page: see "Pages".
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_kvm_read_ordered(
    page: *const c_void,
    ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    Tsc.order();
    // SAFETY: the caller's promise.
    unsafe { read_now(page, ns) }
}

/// As pvclock_kvm_read_ordered, and never less than any reader of the same
/// `last` was given before: for pages without PVCLOCK_KVM_TSC_STABLE. With
/// the flag the page alone keeps the order, and `last` is left as it is.
///
/// # Safety
/// `page` is NULL or a kvm-clock page: see "Pages". `last` is NULL, or shared
/// by readers that all come through this function.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_kvm_read_monotonic(
    page: *const c_void,
    last: *mut PvclockLastTime,
    ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    // SAFETY: null, or an atomic word that is not accessed otherwise (the
    // caller's promise), good for the call (invariant 2).
    let last = unsafe { last.as_ref() };
    put(ns, || {
        let last = last.ok_or(PvclockStatus::NullPointer)?;
        on_time_page!(page, page => {
            Ok(TimeReader::new(page).nanos_monotonic(&Tsc, &last.ns)?.0)
        })
    })
}

/// The system time, in nanoseconds, at which the TSC showed `tsc`, before or
/// after the page's last update, by that update's rate. The cheapest time
/// stamp is the TSC itself, turned into time by this when needed.
///
/// # Safety
/// `page` is NULL or a kvm-clock page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_kvm_read_at(
    page: *const c_void,
    tsc: u64,
    ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    put(ns, || on_time_page!(page, page => Ok(TimeReader::new(page).nanos_at(Ticks(tsc))?.0)))
}

/// The contents of a kvm-clock page, as one whole. A page that is switched
/// off can be looked at too.
///
/// # Safety
/// `page` is NULL or a kvm-clock page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_kvm_info(
    page: *const c_void,
    info: Option<&mut MaybeUninit<PvclockKvmInfo>>,
) -> PvclockStatus {
    put(info, || on_time_page!(page, page => Ok(TimeReader::new(page).info()?.into())))
}

/// Takes the flag PVCLOCK_KVM_GUEST_STOPPED: reports whether it was set, and
/// clears it. Only the guest whose page this is may do so, after it has
/// quieted its watchdogs.
///
/// # Safety
/// `page` is NULL or a kvm-clock page that may be written: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_kvm_take_guest_stopped(
    page: *mut c_void,
    was_stopped: Option<&mut MaybeUninit<bool>>,
) -> PvclockStatus {
    put(was_stopped, || on_time_page!(page, page => Ok(TimeReader::new(page).take_guest_stopped())))
}

/// Writes an update into a kvm-clock page, as a host does, whatever the page
/// held before. PVCLOCK_KVM_GUEST_STOPPED stays as it is there.
///
/// # Safety
/// `page` is NULL or a kvm-clock page that may be written, by no other thread at
/// this time, and that the guest has not switched off: see "Pages".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_kvm_write(
    page: *mut c_void,
    update: Option<&PvclockKvmUpdate>,
) -> PvclockStatus {
    let write = || {
        let update = update.ok_or(PvclockStatus::NullPointer)?;
        on_time_page!(page, page => {
            TimeWriter::new(page).write(&update.into());
            Ok(())
        })
    };
    status(write())
}

/// Sets PVCLOCK_KVM_GUEST_STOPPED, as a host does before it resumes a guest
/// that it had paused, and again before it resumes one that it has restored:
/// the flag lives in the page, and an older copy does not carry it.
///
/// # Safety
/// As pvclock_kvm_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_kvm_set_guest_stopped(page: *mut c_void) -> PvclockStatus {
    status(on_time_page!(page, page => {
        TimeWriter::new(page).set_guest_stopped();
        Ok(())
    }))
}

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
