//! What guests ask of Hyper-V's interface before they take its page, beyond the page itself:
//! Linux by its source (arch/x86/kernel/cpu/mshyperv.c, arch/x86/hyperv/hv_init.c,
//! drivers/clocksource/hyperv_timer.c), Windows by what Microsoft has published: the TLFS,
//! and "Requirements for Implementing the Microsoft Hypervisor Interface", whose least is
//! leaves 0x40000000 to 0x40000005, the OS id, the hypercall page and the VP index. That Linux
//! takes the page `stock-linux` shows; Windows is untried.

use guest::layout::{GuestPages, MEMORY_MIN};
use guest::request::GuestRequest;
use host::msr::{HV_GUEST_OS_ID, HV_REFERENCE_TSC, HV_TSC_INVARIANT_CONTROL, HV_VP_INDEX};

use super::subject::ConformanceSubject;
use crate::settings::Result;

/// CPUID 1, ECX: a hypervisor is present.
const HYPERVISOR: u32 = 1 << 31;
/// The leaves that there are at least.
const LEAST_LEAF: u32 = 0x4000_0005;
/// Of the range that leaves may be in (mshyperv.c: HYPERV_CPUID_MAX).
const LAST_LEAF: u32 = 0x4000_ffff;
/// CPUID 0x4000_0003, EAX: what its bits let a guest use (TLFS, "Partition Privilege Mask").
const PRIVILEGES: [(u32, &str); 6] = [
    (1, "reference counter"),
    (5, "OS id and hypercall page"),
    (6, "VP index"),
    (9, "reference TSC page"),
    (11, "frequency MSRs"),
    (13, "re-enlightenment"),
];
/// Announced where the TSC is invariant.
const TSC_INVARIANT: u32 = 1 << 15;
/// The same leaf, EDX: the frequency MSRs are there (ms_hyperv_init_platform).
const FREQUENCY_MSRS: u32 = 8;

/// CPUID 0x8000_0007, EDX.
const INVARIANT: u32 = 1 << 8;

const HV_HYPERCALL: u32 = 0x4000_0001;
/// Nothing of the guest's is there.
const PAGE: u64 = MEMORY_MIN - 0x1000;
const ENABLED: u64 = 1;
/// Bit 63: open source; the rest is the guest's own (TLFS, "Reporting the Guest OS Identity").
const OS_ID: u64 = 1 << 63 | 0x0100_0000_0000_0001;

pub(super) fn discovery(subject: &ConformanceSubject<'_>) -> Result {
    let [_, _, ecx, _] = subject.cpuid(1)?;
    let is_present = ecx & HYPERVISOR != 0;
    subject.holds("hypervisor bit", "set in CPUID 1", format!("ECX {ecx:#x}"), is_present);
    let [last, ..] = subject.cpuid(0x4000_0000)?;
    subject.holds(
        "highest CPUID leaf",
        &format!("at least {LEAST_LEAF:#x}"),
        format!("{last:#x}"),
        (LEAST_LEAF..=LAST_LEAF).contains(&last),
    );
    let [privileges, .., features] = subject.cpuid(0x4000_0003)?;
    for (bit, what) in &PRIVILEGES {
        is_set(subject, "EAX", privileges, *bit, what);
    }
    is_set(subject, "EDX", features, FREQUENCY_MSRS, "frequency MSRs");
    Ok(())
}

fn is_set(subject: &ConformanceSubject<'_>, register: &str, value: u32, bit: u32, what: &str) {
    let name = format!("CPUID 0x40000003 {register} bit {bit}, {what}");
    subject.holds(&name, "set", format!("{value:#x}"), value & 1 << bit != 0);
}

pub(super) fn os_id(subject: &ConformanceSubject<'_>) -> Result {
    let before = subject.read_msr(HV_GUEST_OS_ID)?;
    subject.write_msr(HV_GUEST_OS_ID, OS_ID)?;
    subject.reads_back("guest OS id", HV_GUEST_OS_ID, OS_ID)?;
    subject.write_msr(HV_GUEST_OS_ID, before)
}

/// Each vCPU reads its own: here they are numbered as they were created.
pub(super) fn vp_index(subject: &ConformanceSubject<'_>) -> Result {
    let index =
        |vcpu| Ok(subject.machine.request(vcpu, GuestRequest::ReadMsr { msr: HV_VP_INDEX })?[0]);
    let found: Vec<u64> = (0..subject.machine.vcpus()).map(index).collect::<Result<_>>()?;
    let expected: Vec<u64> = (0..found.len() as u64).collect();
    subject.equal("VP index of each vCPU", &format!("{expected:?}"), &format!("{found:?}"));
    Ok(())
}

/// It is there for a guest that has told its id, and then has code in it.
pub(super) fn hypercall_page(subject: &ConformanceSubject<'_>) -> Result {
    let id = subject.read_msr(HV_GUEST_OS_ID)?;
    let word = || subject.machine.ram().word(PAGE).unwrap_or(0);
    subject.write_msr(HV_GUEST_OS_ID, 0)?;
    subject.write_msr(HV_HYPERCALL, PAGE | ENABLED)?;
    let (without, empty) = (subject.read_msr(HV_HYPERCALL)?, word());
    subject.write_msr(HV_GUEST_OS_ID, OS_ID)?;
    subject.write_msr(HV_HYPERCALL, PAGE | ENABLED)?;
    let (with, code) = (subject.read_msr(HV_HYPERCALL)?, word());
    subject.holds(
        "hypercall page without a guest OS id",
        "not enabled",
        format!("MSR {without:#x}, first word {empty:#x}"),
        without & ENABLED == 0 && empty == 0,
    );
    subject.holds(
        "hypercall page",
        "enabled, and contains code",
        format!("MSR {with:#x}, first word {code:#x}"),
        with == PAGE | ENABLED && code != 0,
    );
    subject.write_msr(HV_GUEST_OS_ID, 0)?;
    let off = subject.read_msr(HV_HYPERCALL)?;
    let expected = "disables the hypercall page";
    subject.holds("guest OS id of 0", expected, format!("MSR {off:#x}"), off & ENABLED == 0);
    subject.write_msr(HV_HYPERCALL, 0)?;
    subject.write_msr(HV_GUEST_OS_ID, id)?;
    subject.write_msr(HV_REFERENCE_TSC, GuestPages::reference_address() | ENABLED)
}

/// Linux writes the control wherever it is announced, and gives the TSC up elsewhere.
pub(super) fn invariant_tsc(subject: &ConformanceSubject<'_>) -> Result {
    let [privileges, ..] = subject.cpuid(0x4000_0003)?;
    let is_announced = privileges & TSC_INVARIANT != 0;
    let is_refused = subject.refuses(GuestRequest::ReadMsr { msr: HV_TSC_INVARIANT_CONTROL })?;
    let words = |is: bool| if is { "present" } else { "absent" };
    subject.equal("invariant-TSC control", words(is_announced), words(!is_refused));
    let [_, _, _, power] = subject.cpuid(0x8000_0007)?;
    let is_invariant = power & INVARIANT != 0;
    let name = "invariant-TSC control, by CPUID 0x80000007";
    subject.equal(name, words(is_invariant), words(is_announced));
    if !is_announced {
        return Ok(());
    }
    // hyperv_features (selftests): one bit, which the guest sets for good.
    subject
        .all_refused("invariant-TSC control: reserved bits", &[(HV_TSC_INVARIANT_CONTROL, 2)])?;
    subject.write_msr(HV_TSC_INVARIANT_CONTROL, ENABLED)?;
    subject.reads_back("invariant-TSC control: set", HV_TSC_INVARIANT_CONTROL, ENABLED)?;
    subject.all_refused("invariant-TSC control: write of 0", &[(HV_TSC_INVARIANT_CONTROL, 0)])
}
