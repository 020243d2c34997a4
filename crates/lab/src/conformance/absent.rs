//! What a provider lacks: its guest gets #GP, as on a host that has not got it.

use guest::request::Request;
use host::Kind;
use host::msr::{
    HV_APIC_FREQUENCY, HV_GUEST_OS_ID, HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC,
    HV_TIME_REF_COUNT, HV_TSC_FREQUENCY, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD,
    KVM_WALL_CLOCK, KVM_WALL_CLOCK_OLD,
};

use super::checklist::{Checklist, Subject};
use crate::bench::Maker;
use crate::settings::LabError;

type Result<T = ()> = std::result::Result<T, LabError>;

const KVM: [u32; 5] =
    [KVM_WALL_CLOCK_OLD, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK, KVM_SYSTEM_TIME, KVM_STEAL_TIME];
const HYPERV: [u32; 6] = [
    HV_GUEST_OS_ID,
    HV_TIME_REF_COUNT,
    HV_REFERENCE_TSC,
    HV_TSC_FREQUENCY,
    HV_APIC_FREQUENCY,
    HV_REENLIGHTENMENT_CONTROL,
];
/// CPUID 1, ECX.
const HYPERVISOR: u32 = 1 << 31;

fn refused(subject: &Subject<'_>, name: &str, msrs: &[u32], checklist: &mut Checklist) -> Result {
    let mut answered = Vec::new();
    for &msr in msrs {
        for request in [Request::ReadMsr { msr }, Request::WriteMsr { msr, value: 0 }] {
            if !subject.refuses(request)? {
                answered.push(format!("{request:x?}"));
            }
        }
    }
    let found = match answered.is_empty() {
        true => format!("{} MSRs, read and written", msrs.len()),
        false => format!("answered: {}", answered.join(", ")),
    };
    checklist.holds(name, "refused with #GP", found, answered.is_empty());
    Ok(())
}

pub(super) fn others_of_kvm(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    refused(subject, "MSRs of Hyper-V", &HYPERV, checklist)
}

pub(super) fn others_of_hyperv(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    refused(subject, "MSRs of KVM", &KVM, checklist)
}

pub(super) fn all(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    refused(subject, "MSRs of KVM", &KVM, checklist)?;
    refused(subject, "MSRs of Hyper-V", &HYPERV, checklist)
}

/// No hypervisor; of `minimal` two frequencies and no more.
pub(super) fn announced(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let [_, _, ecx, _] = subject.cpuid(1)?;
    let told = ecx & HYPERVISOR != 0;
    if subject.maker != Maker::Own(Kind::Minimal) {
        checklist.holds("a hypervisor in CPUID 1", "not told", format!("told: {told}"), !told);
        return Ok(());
    }
    checklist.holds("a hypervisor in CPUID 1", "told", format!("told: {told}"), told);
    let [tsc_khz, apic_khz, ..] = subject.cpuid(0x4000_0010)?;
    let expected = subject.told_hz() / 1000;
    checklist.holds(
        "frequencies in CPUID 0x40000010",
        &format!("TSC {expected} kHz, APIC timer not 0"),
        format!("TSC {tsc_khz} kHz, APIC timer {apic_khz} kHz"),
        u64::from(tsc_khz) == expected && apic_khz != 0,
    );
    Ok(())
}
