//! What a provider lacks: its guest gets #GP, as on a host without it.

use guest::request::GuestRequest;
use host::ClockProvider;
use host::msr::{
    HV_APIC_FREQUENCY, HV_GUEST_OS_ID, HV_REENLIGHTENMENT_CONTROL, HV_REFERENCE_TSC,
    HV_TIME_REF_COUNT, HV_TSC_FREQUENCY, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD,
    KVM_WALL_CLOCK, KVM_WALL_CLOCK_OLD,
};

use super::subject::ConformanceSubject;
use crate::bench::Provider;
use crate::settings::Result;

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

fn check_refused(subject: &ConformanceSubject<'_>, name: &str, msrs: &[u32]) -> Result {
    let mut accepted = Vec::new();
    for &msr in msrs {
        for request in [GuestRequest::ReadMsr { msr }, GuestRequest::WriteMsr { msr, value: 0 }] {
            if !subject.refuses(request)? {
                accepted.push(format!("{request:x?}"));
            }
        }
    }
    let found = if accepted.is_empty() {
        format!("reads and writes of {} MSRs refused", msrs.len())
    } else {
        format!("accepted: {}", accepted.join(", "))
    };
    subject.holds(name, "refused with #GP", found, accepted.is_empty());
    Ok(())
}

pub(super) fn others_of_kvm(subject: &ConformanceSubject<'_>) -> Result {
    check_refused(subject, "Hyper-V MSRs", &HYPERV)
}

pub(super) fn others_of_hyperv(subject: &ConformanceSubject<'_>) -> Result {
    check_refused(subject, "KVM MSRs", &KVM)
}

pub(super) fn check_all(subject: &ConformanceSubject<'_>) -> Result {
    check_refused(subject, "KVM MSRs", &KVM)?;
    check_refused(subject, "Hyper-V MSRs", &HYPERV)
}

/// No hypervisor; `minimal` announces one with two frequencies and no more.
pub(super) fn announcement(subject: &ConformanceSubject<'_>) -> Result {
    let [_, _, ecx, _] = subject.cpuid(1)?;
    let is_set = ecx & HYPERVISOR != 0;
    let is_minimal = subject.provider == Provider::Own(ClockProvider::Minimal);
    let words = |set| if set { "set" } else { "not set" };
    subject.equal("hypervisor bit in CPUID 1", words(is_minimal), words(is_set));
    if !is_minimal {
        return Ok(());
    }
    let [tsc_khz, apic_khz, ..] = subject.cpuid(0x4000_0010)?;
    let expected = subject.advertised_hz() / 1000;
    subject.holds(
        "frequencies in CPUID 0x40000010",
        &format!("TSC {expected} kHz, APIC timer not 0"),
        format!("TSC {tsc_khz} kHz, APIC timer {apic_khz} kHz"),
        u64::from(tsc_khz) == expected && apic_khz != 0,
    );
    Ok(())
}
