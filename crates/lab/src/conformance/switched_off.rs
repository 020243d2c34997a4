//! A page that the guest has switched off is its own again: never written.

use guest::layout::Pages;
use guest::source::Source;
use host::msr::{HV_REFERENCE_TSC, KVM_SYSTEM_TIME};
use host::{Event, GuestAddress, GuestMemory, VcpuId};
use kvm_bindings::kvm_clock_data;
use pvclock::Nanos;
use pvclock::hyperv::{ReferencePage, ReferenceReader};
use pvclock::kvm_clock::{TimePage, TimeReader};
use pvclock::shared::Split;
use vmm::MachineError;

use super::checklist::{Checklist, Subject};
use crate::pages::{page as page_at, reenter, reenter_all, time_info};
use crate::settings::LabError;

type Result<T = ()> = std::result::Result<T, LabError>;

/// What makes hosts write pages that are on.
fn cause_updates(subject: &Subject<'_>) -> Result {
    let machine = &subject.machine;
    let told = machine.with_host_alone(|host, now, ram| {
        let clock = Nanos(host.time(VcpuId(0), now).0 + 1_000_000);
        let tsc_offset = host.tsc_offset(VcpuId(0)).unwrap_or(0);
        for event in [
            Event::ClockSet { clock },
            Event::TscOffsetChanged { vcpu: VcpuId(0), tsc_offset },
            Event::HostClocksource { is_tsc: false },
            Event::HostClocksource { is_tsc: true },
            Event::Timer,
        ] {
            host.handle(event, now, ram);
        }
    });
    if told.is_none() {
        let failed = |call| move |error| MachineError::Kvm { call, error };
        let now = machine.vm().get_clock().map_err(failed("KVM_GET_CLOCK"))?;
        let clock = kvm_clock_data { clock: now.clock, ..Default::default() };
        machine.vm().set_clock(&clock).map_err(failed("KVM_SET_CLOCK"))?;
        machine.call_vcpu(0, |vcpu| {
            let offset = vmm::kvm::tsc_offset(vcpu)?;
            vmm::kvm::set_tsc_offset(vcpu, offset)
        })??;
    }
    reenter_all(machine)
}

pub(super) fn page(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let machine = &subject.machine;
    let address = Pages::time_address(0);
    subject.write_msr(KVM_SYSTEM_TIME, 0)?;
    reenter(machine, 0)?;
    let before = time_info(machine, 0)?;
    cause_updates(subject)?;
    let after = time_info(machine, 0)?;
    checklist.holds(
        "page switched off",
        "never written again",
        format!("version {} before updates were caused, {} after", before.version, after.version),
        before == after,
    );
    subject.write_msr(KVM_SYSTEM_TIME, address | 1)?;
    reenter(machine, 0)?;
    let again = time_info(machine, 0)?;
    let read = subject.read(0, Source::KvmClock);
    checklist.holds(
        "page switched on again",
        "written and good",
        format!("version {} to {}", after.version, again.version),
        again.version != after.version && read.is_ok(),
    );
    moved_page(subject, checklist)
}

/// Registered elsewhere: the old page is left alone, the new one written, at
/// an address that is aligned to 4 bytes only.
fn moved_page(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let machine = &subject.machine;
    // Behind the wall clock nothing is laid out.
    let elsewhere = Pages::wall_clock_address() + 0x104;
    subject.write_msr(KVM_SYSTEM_TIME, elsewhere | 1)?;
    let before = time_info(machine, 0)?;
    reenter(machine, 0)?;
    cause_updates(subject)?;
    let after = time_info(machine, 0)?;
    let page: &TimePage<Split> =
        machine.ram().page(GuestAddress(elsewhere)).expect("inside the guest's layout");
    let new = TimeReader::new(page).info();
    let written = new.is_ok_and(|info| info.version != 0 && info.scale == before.scale);
    checklist.holds(
        "page registered elsewhere, at 4 bytes' alignment",
        "the new one written, the old one not",
        format!("old version {} to {}, new page {new:?}", before.version, after.version),
        before == after && written,
    );
    subject.write_msr(KVM_SYSTEM_TIME, Pages::time_address(0) | 1)?;
    reenter(machine, 0)
}

pub(super) fn reference_page(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let machine = &subject.machine;
    let page: &ReferencePage = page_at(machine, Pages::reference_address());
    let read = || ReferenceReader::new(page).info();
    subject.write_msr(HV_REFERENCE_TSC, 0)?;
    let register = subject.read_msr(HV_REFERENCE_TSC)?;
    checklist.holds(
        "MSR of the page switched off",
        "reads 0",
        format!("{register:#x}"),
        register == 0,
    );
    let before = read();
    cause_updates(subject)?;
    let after = read();
    checklist.holds(
        "page switched off",
        "never written again",
        if before == after { "as it was" } else { "changed" },
        before == after,
    );
    subject.write_msr(HV_REFERENCE_TSC, Pages::reference_address() | 1)?;
    let again = read();
    let goes_on = match (before, again) {
        (Ok(before), Ok(again)) => before.sequence != again.sequence,
        (Err(_), Ok(_)) => true,
        (_, Err(_)) => false,
    };
    checklist.holds(
        "page switched on again",
        "good, with another sequence",
        format!("{again:?}"),
        goes_on,
    );
    Ok(())
}
