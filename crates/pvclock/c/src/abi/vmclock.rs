//! The VMClock page. The invariants are those of [`crate::abi`].
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::MaybeUninit;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use pvclock::counter::CpuCounter;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use pvclock::vmclock::CounterId;
use pvclock::vmclock::{VmClockInfo, VmClockPage, VmClockReader, VmClockWriter};

use super::{page as page_at, put, status};
use crate::status::PvclockStatus;
use crate::vmclock::{PvclockVmclockInfo, PvclockVmclockTime};

/// The time now and its error bound, from a VMClock page and this CPU's
/// counter, which is read after every load that comes before the call.
///
/// PVCLOCK_STATUS_OK means that the page has a time, not that the time is good:
/// check time->info.clock_status, and convert the seconds to UTC, as
/// examples/read_vmclock.c does.
///
/// # Safety
/// `page` is NULL or a VMClock page: see "Pages".
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_vmclock_read(
    page: *const c_void,
    time: Option<&mut MaybeUninit<PvclockVmclockTime>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<VmClockPage>(page) };
    put(time, || {
        let reader = VmClockReader::new(page?)?;
        let time = reader.time(&CpuCounter);
        let counter_id = match &time {
            Ok(time) => time.info.counter_id,
            Err(_) => reader.info()?.counter_id,
        };
        // Before the error, for this counter less another counter's value is any error at all.
        match counter_id {
            CounterId::NATIVE | CounterId::INVALID => Ok(time?.into()),
            _ => Err(PvclockStatus::OtherCounter),
        }
    })
}

/// The time and its error bound at which the counter that the page refers to
/// (info.counter_id of the result) shows `counter`.
///
/// # Safety
/// `page` is NULL or a VMClock page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_vmclock_read_at(
    page: *const c_void,
    counter: u64,
    time: Option<&mut MaybeUninit<PvclockVmclockTime>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<VmClockPage>(page) };
    put(time, || Ok(VmClockReader::new(page?)?.time(&|| counter)?.into()))
}

/// The contents of a VMClock page, as one whole: also of one that gives no
/// time, for its disruption_marker and vm_generation.
///
/// # Safety
/// `page` is NULL or a VMClock page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_vmclock_info(
    page: *const c_void,
    info: Option<&mut MaybeUninit<PvclockVmclockInfo>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<VmClockPage>(page) };
    put(info, || Ok(VmClockReader::new(page?)?.info()?.into()))
}

/// Makes a VMClock page of memory that no guest sees yet, with magic number,
/// layout version and the contents of `info`, whose size must be 112 or more.
///
/// # Safety
/// `page` is NULL or memory for a VMClock page that may be written and that
/// nothing else reads yet: see "Pages".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_vmclock_create(
    page: *mut c_void,
    info: Option<&PvclockVmclockInfo>,
) -> PvclockStatus {
    let create = || {
        let mut info = VmClockInfo::from(info.ok_or(PvclockStatus::NullPointer)?);
        info.seq_count &= !1;
        let contents = VmClockPage::from_info(&info);
        VmClockReader::new(&contents)?;
        let page = page.cast::<VmClockPage>();
        if page.is_null() {
            return Err(PvclockStatus::NullPointer);
        } else if !page.is_aligned() {
            return Err(PvclockStatus::Misaligned);
        }
        // SAFETY: not null and aligned (checked), writable and unshared (the
        // caller's promise).
        unsafe { page.write(contents) };
        Ok(())
    };
    status(create())
}

/// Writes an update into a VMClock page, as a host does. Magic number, layout
/// version and size stay, and the page's own seq_count continues: what `info`
/// has in size and seq_count is ignored.
///
/// # Safety
/// `page` is NULL or a VMClock page that may be written, by no other thread at
/// this time: see "Pages".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_vmclock_write(
    page: *mut c_void,
    info: Option<&PvclockVmclockInfo>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<VmClockPage>(page) };
    let write = || {
        let page = page?;
        let info = info.ok_or(PvclockStatus::NullPointer)?;
        VmClockReader::new(page)?;
        VmClockWriter::new(page).write(&info.into());
        Ok(())
    };
    status(write())
}
