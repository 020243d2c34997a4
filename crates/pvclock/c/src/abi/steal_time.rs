//! KVM's steal time page. The invariants are those of [`crate::abi`].
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::MaybeUninit;

use pvclock::Nanos;
use pvclock::steal_time::{StealPage, StealReader, StealWriter};

use super::{page as page_at, put, status};
use crate::status::PvclockStatus;
use crate::steal_time::PvclockStealInfo;

/// How long this vCPU was ready to run and waited for a CPU, from KVM's steal
/// time page.
///
/// # Safety
/// `page` is NULL or a steal time page: see "Pages".
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn pvclock_steal_read(
    page: *const c_void,
    info: Option<&mut MaybeUninit<PvclockStealInfo>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<StealPage>(page) };
    put(info, || Ok(StealReader::new(page?).read()?.into()))
}

/// Publishes how much time was stolen so far, as a host does when the vCPU is
/// about to run: it is no longer preempted. `flush_tlb` is set where the
/// guest requested a flush of the TLB first.
///
/// # Safety
/// `page` is NULL or a steal time page that may be written, by no other thread at
/// this time: see "Pages".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_steal_write(
    page: *mut c_void,
    steal_ns: u64,
    flush_tlb: Option<&mut MaybeUninit<bool>>,
) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<StealPage>(page) };
    put(flush_tlb, || Ok(StealWriter::new(page?).write(Nanos(steal_ns))))
}

/// Publishes that the vCPU was taken off its CPU.
///
/// # Safety
/// As pvclock_steal_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvclock_steal_set_preempted(page: *mut c_void) -> PvclockStatus {
    // SAFETY: the caller's promise.
    let page = unsafe { page_at::<StealPage>(page) };
    status(page.map(|page| StealWriter::new(page).set_preempted()))
}
