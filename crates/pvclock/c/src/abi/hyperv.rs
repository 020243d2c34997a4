//! Hyper-V's reference TSC page. The invariants are those of [`crate::abi`].
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::MaybeUninit;

use pvclock::Hertz;
#[cfg(target_arch = "x86_64")]
use pvclock::counter::Tsc;
use pvclock::hyperv::{ReferencePage, ReferenceReader, ReferenceScale, ReferenceWriter};

use super::{page as page_at, put, status};
use crate::hyperv::PvclockHypervInfo;
use crate::status::PvclockStatus;

/// The time since the partition was created, in units of 100 ns, from
/// Hyper-V's reference TSC page. PVCLOCK_STATUS_SWITCHED_OFF: read the
/// reference counter, MSR 0x40000020, this time. The CPU may read its TSC a
/// little before or after the code around the call.
///
/// # Safety
/// `page` is NULL or a reference TSC page: see "Pages".
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_hyperv_read(
    page: *const c_void,
    units_100ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<ReferencePage>(page) };
    put(units_100ns, || Ok(ReferenceReader::new(page?).units_100ns(&Tsc)?))
}

/// As pvclock_hyperv_read, and the TSC is read after every load that comes
/// before the call.
///
/// # Safety
/// `page` is NULL or a reference TSC page: see "Pages".
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_hyperv_read_ordered(
    page: *const c_void,
    units_100ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<ReferencePage>(page) };
    put(units_100ns, || Ok(ReferenceReader::new(page?).units_100ns_ordered(&Tsc)?))
}

/// The time, in units of 100 ns, at which the TSC showed `tsc`.
///
/// # Safety
/// `page` is NULL or a reference TSC page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_hyperv_read_at(
    page: *const c_void,
    tsc: u64,
    units_100ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<ReferencePage>(page) };
    put(units_100ns, || Ok(ReferenceReader::new(page?).units_100ns(&|| tsc)?))
}

/// The contents of a reference TSC page, as one whole.
///
/// # Safety
/// `page` is NULL or a reference TSC page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_hyperv_info(
    page: *const c_void,
    info: Option<&mut MaybeUninit<PvclockHypervInfo>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<ReferencePage>(page) };
    put(info, || Ok(ReferenceReader::new(page?).info()?.into()))
}

/// Writes an update into a reference TSC page, as a host does, and switches
/// the page on.
///
/// `*sequence` is the page's latest number: 0 for a new page, then
/// left to this function, and saved with the VM. A page that is switched off
/// does not hold it, and a number used twice lets a reader take two different
/// contents for one.
///
/// # Safety
/// `page` is NULL or a reference TSC page that may be written, by no other thread
/// at this time: see "Pages".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_hyperv_write(
    page: *mut c_void,
    sequence: Option<&mut u32>,
    scale: u64,
    offset_100ns: i64,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<ReferencePage>(page) };
    let write = || {
        let sequence = sequence.ok_or(PvclockStatus::NullPointer)?;
        let mut writer = ReferenceWriter::resume(page?, *sequence);
        writer.write(ReferenceScale::from_raw(scale), offset_100ns);
        *sequence = writer.sequence();
        Ok(())
    };
    status(write())
}

/// Switches a reference TSC page off until the next write: readers read the
/// MSR. The numbering stays with the caller: see pvclock_hyperv_write.
///
/// # Safety
/// As pvclock_hyperv_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_hyperv_switch_off(page: *mut c_void) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<ReferencePage>(page) };
    status(page.map(|page| ReferenceWriter::new(page).switch_off()))
}

/// The scale of a TSC that runs at `hz`, which is above 10 MHz, as a
/// reference TSC page holds it: 10^7 * 2^64 / hz, cut to 64 bits.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn pvclock_hyperv_scale_from_hz(
    hz: u64,
    scale: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    put(scale, || Ok(ReferenceScale::from_hertz(Hertz(hz))?.raw()))
}

/// The frequency that a reference TSC page's scale stands for, to the nearest
/// hertz.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn pvclock_hyperv_scale_to_hz(
    scale: u64,
    hz: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    put(hz, || {
        let hertz = ReferenceScale::from_raw(scale).to_hertz();
        hertz.map(|hertz| hertz.0).ok_or(PvclockStatus::BadFrequency)
    })
}
