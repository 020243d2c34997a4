//! MSR values whose address can hold no page.

use guest::layout::{GuestPages, MEMORY_MIN};
use guest::source::Source;
use host::msr::{
    HV_REFERENCE_TSC, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK,
    KVM_WALL_CLOCK_OLD,
};

use super::hyperv::off_on_this_host;
use super::subject::ConformanceSubject;
use crate::settings::Result;

/// Unaligned; past the end of memory; across it; past the end of all addresses.
const TIME: [(u32, u64); 5] = [
    (KVM_SYSTEM_TIME, (GuestPages::time_address(0) + 2) | 1),
    (KVM_SYSTEM_TIME, MEMORY_MIN | 1),
    (KVM_SYSTEM_TIME, (MEMORY_MIN - 16) | 1),
    (KVM_SYSTEM_TIME_OLD, !31 | 1),
    (KVM_SYSTEM_TIME, 1 << 52 | 1),
];
const WALL: [(u32, u64); 4] = [
    (KVM_WALL_CLOCK, GuestPages::wall_clock_address() + 1),
    (KVM_WALL_CLOCK, MEMORY_MIN),
    (KVM_WALL_CLOCK_OLD, MEMORY_MIN - 8),
    (KVM_WALL_CLOCK, u64::MAX - 3),
];
/// Bits 1 to 5 must be 0.
const STEAL: [(u32, u64); 4] = [
    (KVM_STEAL_TIME, (GuestPages::steal_address(0) + 32) | 1),
    (KVM_STEAL_TIME, MEMORY_MIN | 1),
    (KVM_STEAL_TIME, !63 | 1),
    (KVM_STEAL_TIME, 1 << 52 | 1),
];
const REFERENCE: [(u32, u64); 3] = [
    (HV_REFERENCE_TSC, MEMORY_MIN | 1),
    (HV_REFERENCE_TSC, !0xfff | 1),
    (HV_REFERENCE_TSC, 1 << 52 | 1),
];

pub(super) fn of_kvm_clock(subject: &ConformanceSubject<'_>) -> Result {
    if !subject.is_own() {
        return on_the_kernel(subject);
    }
    subject.all_refused("time page at an invalid address", &TIME)?;
    subject.all_refused("wall clock at an invalid address", &WALL)?;
    subject.all_refused("steal time at an invalid address", &STEAL)?;
    let version = subject.time_info(0)?.version;
    let is_readable = subject.read(0, Source::KvmClock).is_ok();
    let is_kept = subject.read_msr(KVM_SYSTEM_TIME)? == GuestPages::time_address(0) | 1;
    subject.record(
        "page registered before the refused writes",
        "still in use",
        format!("version {version}, readable: {is_readable}"),
        subject.by_tsc(is_kept && is_readable)?,
    );
    Ok(())
}

/// KVM itself accepts any address of a time page or wall clock and writes if
/// there is memory: neither KVM nor its guest may fail of it.
fn on_the_kernel(subject: &ConformanceSubject<'_>) -> Result {
    subject.all_refused("steal time, unaligned", &STEAL[..1])?;
    let mut refused = 0;
    let wrong = TIME.iter().chain(&WALL).chain(&STEAL[1..]);
    for &(msr, value) in wrong.clone() {
        refused += usize::from(subject.refuses_write(msr, value)?);
        subject.reenter(0)?;
    }
    subject.write_msr(KVM_SYSTEM_TIME, GuestPages::time_address(0) | 1)?;
    subject.write_msr(KVM_WALL_CLOCK, GuestPages::wall_clock_address())?;
    subject.write_msr(KVM_STEAL_TIME, GuestPages::steal_address(0) | 1)?;
    subject.reenter(0)?;
    let runs = subject.read(0, Source::KvmClock).is_ok();
    subject.holds(
        "pages at invalid addresses",
        "refused with #GP, or accepted while the guest keeps running",
        format!("{refused} of {} refused; the guest still runs: {runs}", wrong.count()),
        runs,
    );
    Ok(())
}

pub(super) fn of_hyperv(subject: &ConformanceSubject<'_>) -> Result {
    subject.all_refused("page at an invalid address", &REFERENCE)?;
    let value = subject.read_msr(HV_REFERENCE_TSC)?;
    let is_used =
        off_on_this_host(subject)?.is_some() || subject.read(0, Source::HyperVPage).is_ok();
    subject.holds(
        "page registered before the refused writes",
        "still in use",
        format!("{value:#x}"),
        value == GuestPages::reference_address() | 1 && is_used,
    );
    Ok(())
}
