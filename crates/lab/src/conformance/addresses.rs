//! Addresses that are no page's.

use guest::layout::{MEMORY_MIN, Pages};
use guest::source::Source;
use host::msr::{
    HV_REFERENCE_TSC, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK,
    KVM_WALL_CLOCK_OLD,
};

use super::checklist::{Checklist, Subject};
use crate::pages::{reenter, time_info};
use crate::settings::LabError;

type Result<T = ()> = std::result::Result<T, LabError>;

/// Unaligned; beyond memory; across its end; beyond any address.
const TIME: [(u32, u64); 5] = [
    (KVM_SYSTEM_TIME, (Pages::time_address(0) + 2) | 1),
    (KVM_SYSTEM_TIME, MEMORY_MIN | 1),
    (KVM_SYSTEM_TIME, (MEMORY_MIN - 16) | 1),
    (KVM_SYSTEM_TIME_OLD, !31 | 1),
    (KVM_SYSTEM_TIME, 1 << 52 | 1),
];
const WALL: [(u32, u64); 4] = [
    (KVM_WALL_CLOCK, Pages::wall_clock_address() + 1),
    (KVM_WALL_CLOCK, MEMORY_MIN),
    (KVM_WALL_CLOCK_OLD, MEMORY_MIN - 8),
    (KVM_WALL_CLOCK, u64::MAX - 3),
];
const STEAL: [(u32, u64); 3] =
    [(KVM_STEAL_TIME, MEMORY_MIN | 1), (KVM_STEAL_TIME, !63 | 1), (KVM_STEAL_TIME, 1 << 52 | 1)];
const REFERENCE: [(u32, u64); 3] = [
    (HV_REFERENCE_TSC, MEMORY_MIN | 1),
    (HV_REFERENCE_TSC, !0xfff | 1),
    (HV_REFERENCE_TSC, 1 << 52 | 1),
];

/// KVM itself takes any address of a time page or wall clock and writes where
/// there is memory: it has to live with that, and so has its guest.
pub(super) fn of_kvm_clock(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    if subject.is_own() {
        subject.all_refused("time page at a wrong address", &TIME, checklist)?;
        subject.all_refused("wall clock at a wrong address", &WALL, checklist)?;
        subject.all_refused("steal time at a wrong address", &STEAL, checklist)?;
    } else {
        let mut refused = 0;
        let wild = TIME.iter().chain(&WALL).chain(&STEAL);
        for &(msr, value) in wild.clone() {
            refused += usize::from(subject.refuses_write(msr, value)?);
            reenter(&subject.machine, 0)?;
        }
        subject.write_msr(KVM_SYSTEM_TIME, Pages::time_address(0) | 1)?;
        subject.write_msr(KVM_WALL_CLOCK, Pages::wall_clock_address())?;
        subject.write_msr(KVM_STEAL_TIME, Pages::steal_address(0) | 1)?;
        reenter(&subject.machine, 0)?;
        let good = subject.read(0, Source::KvmClock).is_ok();
        checklist.holds(
            "pages at wrong addresses",
            "refused with #GP, or taken without harm",
            format!("{refused} of {} refused; the guest goes on: {good}", wild.count()),
            good,
        );
        return Ok(());
    }
    let info = time_info(&subject.machine, 0)?;
    let good = subject.read(0, Source::KvmClock).is_ok();
    checklist.holds(
        "the page registered before",
        "still the one in use",
        format!("version {}, readable: {good}", info.version),
        good && subject.read_msr(KVM_SYSTEM_TIME)? == Pages::time_address(0) | 1,
    );
    Ok(())
}

pub(super) fn of_hyperv(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    subject.all_refused("page at a wrong address", &REFERENCE, checklist)?;
    let value = subject.read_msr(HV_REFERENCE_TSC)?;
    checklist.holds(
        "the page registered before",
        "still the one in use",
        format!("{value:#x}"),
        value == Pages::reference_address() | 1 && subject.read(0, Source::HyperVPage).is_ok(),
    );
    Ok(())
}
