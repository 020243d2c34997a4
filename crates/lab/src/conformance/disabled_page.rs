//! A page that the guest has disabled is the guest's again: never written.

use std::time::Duration;

use guest::layout::GuestPages;
use guest::source::Source;
use host::msr::{HV_REFERENCE_TSC, KVM_SYSTEM_TIME};
use host::pages::{ReferencePage, TimePage};
use host::{HostEvent, VcpuId};
use kvm_bindings::kvm_clock_data;
use pvclock::Nanos;
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::TimeReader;
use vmm::Machine;

use super::hyperv::{counted_since, describe, is_off};
use super::subject::ConformanceSubject;
use crate::settings::Result;

/// How long the counter runs without the page, and how much its readings may
/// differ from the TSC.
const COUNTED: Duration = Duration::from_millis(1);
const COUNTER_NS: f64 = 10_000.0;

/// Everything that makes a host write enabled pages.
fn cause_updates(subject: &ConformanceSubject<'_>) -> Result {
    let on_provider = subject.machine.with_clock_exclusive(|host, now, ram| {
        let clock = Nanos(host.time(VcpuId(0), now).0 + 1_000_000);
        let tsc_offset = host.tsc_offset(VcpuId(0)).unwrap_or(0);
        for event in [
            HostEvent::ClockSet { clock },
            HostEvent::TscOffsetChanged { vcpu: VcpuId(0), tsc_offset },
            HostEvent::HostClocksource { is_tsc: false },
            HostEvent::HostClocksource { is_tsc: true },
            HostEvent::HostResumed,
            HostEvent::Timer,
        ] {
            host.handle(event, now, ram);
        }
    });
    if on_provider.is_none() {
        cause_kernel_updates(&subject.machine)?;
    }
    subject.reenter_all()
}

fn cause_kernel_updates(machine: &Machine) -> Result {
    let clock = machine.kernel_clock()?.clock;
    machine.set_kernel_clock(&kvm_clock_data { clock, ..Default::default() })?;
    machine.set_tsc_offset(0, machine.tsc_offset(0)?)?;
    Ok(())
}

pub(super) fn page(subject: &ConformanceSubject<'_>) -> Result {
    let address = GuestPages::time_address(0);
    subject.write_msr(KVM_SYSTEM_TIME, 0)?;
    subject.reenter(0)?;
    let before = subject.time_info(0)?;
    cause_updates(subject)?;
    let after = subject.time_info(0)?;
    subject.holds(
        "page disabled",
        "never written again",
        format!("version {} before the updates, {} after", before.version, after.version),
        before == after,
    );
    subject.write_msr(KVM_SYSTEM_TIME, address | 1)?;
    subject.reenter(0)?;
    let again = subject.time_info(0)?;
    let read = subject.read(0, Source::KvmClock);
    subject.record(
        "page re-enabled",
        "written and valid",
        format!("version {} before, {} after", after.version, again.version),
        // Far behind its page no TSC reads it.
        subject.by_tsc(again.version != after.version && read.is_ok())?,
    );
    moved_page(subject)
}

/// Registered at another address, aligned to 4 bytes only: the host stops
/// writing the old page and writes the new one.
fn moved_page(subject: &ConformanceSubject<'_>) -> Result {
    // The guest uses nothing after the wall clock.
    let elsewhere = GuestPages::wall_clock_address() + 0x104;
    subject.write_msr(KVM_SYSTEM_TIME, elsewhere | 1)?;
    let before = subject.time_info(0)?;
    subject.reenter(0)?;
    cause_updates(subject)?;
    let after = subject.time_info(0)?;
    let page: &TimePage = subject.page(elsewhere);
    let new = TimeReader::new(page).info();
    let written = new.is_ok_and(|info| info.version != 0 && info.scale == before.scale);
    let new = new.map_or_else(|error| error.to_string(), |info| info.version.to_string());
    subject.holds(
        "page registered at another address, aligned to 4 bytes",
        "only the new page is written",
        format!(
            "old page: version {} before, {} after; new page: {new}",
            before.version, after.version
        ),
        before == after && written,
    );
    subject.write_msr(KVM_SYSTEM_TIME, GuestPages::time_address(0) | 1)?;
    subject.reenter(0)
}

pub(super) fn reference_page(subject: &ConformanceSubject<'_>) -> Result {
    if is_off(subject, "page re-enabled", "valid, with a new sequence")? {
        return Ok(());
    }
    let page: &ReferencePage = subject.page(GuestPages::reference_address());
    let read = || ReferenceReader::new(page).info();
    subject.write_msr(HV_REFERENCE_TSC, 0)?;
    subject.reads_back("MSR of the disabled page", HV_REFERENCE_TSC, 0)?;
    let before = read();
    cause_updates(subject)?;
    let after = read();
    counter_continues(subject)?;
    let found = if before == after { "unchanged" } else { "changed" };
    subject.equal("page disabled", "unchanged", found);
    subject.write_msr(HV_REFERENCE_TSC, GuestPages::reference_address() | 1)?;
    let again = read();
    let is_renewed = match (before, again) {
        (Ok(before), Ok(again)) => before.sequence != again.sequence,
        (Err(_), Ok(_)) => true,
        (_, Err(_)) => false,
    };
    subject.holds("page re-enabled", "valid, with a new sequence", describe(&again), is_renewed);
    Ok(())
}

fn counter_continues(subject: &ConformanceSubject<'_>) -> Result {
    let first = subject.read(0, Source::HyperVCounter)?;
    std::thread::sleep(COUNTED);
    let [counted_ns, least_ns, most_ns] = counted_since(subject, &first)?;
    subject.holds(
        "counter while the page is disabled",
        "advances with the TSC, ± 10 µs",
        format!("{counted_ns} ns; the TSC advanced by {least_ns:.0} to {most_ns:.0} ns"),
        (least_ns - COUNTER_NS..=most_ns + COUNTER_NS).contains(&counted_ns),
    );
    Ok(())
}
