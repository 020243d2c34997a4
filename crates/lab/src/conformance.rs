//! What KVM's own tests check of a clock (kvm-unit-tests: kvmclock_test,
//! tsc_adjust, hyperv_clock; selftests: kvm_clock_test, tsc_msrs_test,
//! system_counter_offset_test, steal_time, hyperv_clock), on the kernel's
//! clock and on ours.

mod absent;
mod asked;
mod disabled_page;
mod hyperv;
mod kvm_clock;
mod machine;
mod setting;
mod subject;
mod tsc;

use guest::discovery::DiscoveredHypervisor;
use guest::layout::{GuestPages, MEMORY_MIN};
use guest::source::Source;
use host::ClockProvider;
use host::msr::{
    HV_REFERENCE_TSC, KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_SYSTEM_TIME_OLD, KVM_WALL_CLOCK,
    KVM_WALL_CLOCK_OLD,
};

use crate::bench::{LabBench, Provider};
use crate::conformance::subject::ConformanceSubject;
use crate::results::{Check, ExperimentResult, ResultTable};
use crate::sample::not_read;
use crate::settings::{LabProgress, Result};
use hyperv::off_on_this_host;

/// A test's name, and what it does; each begins with what those before it left.
type Test = (&'static str, fn(&ConformanceSubject<'_>) -> Result);

/// kvm-clock, the kernel's or ours.
const KVM: &[Test] = &[
    ("discovery", discovered),
    ("announced", kvm_clock::announcement),
    ("page", kvm_clock::page),
    ("page against host", kvm_clock::page_against_host),
    ("odd while written", kvm_clock::odd_while_written),
    ("MSR reads back", kvm_clock::register),
    ("wall clock", kvm_clock::wall_clock),
    ("steal time", machine::steal_time),
    ("steal time grows", machine::steal_time_grows),
    ("GUEST_STOPPED", kvm_clock::guest_stopped),
    ("monotonic through updates", kvm_clock::monotonic_through_updates),
    ("monotonic on all vCPUs", machine::kvm_clock_monotonic),
    ("clock set", setting::clock),
    ("clock set by real time", setting::by_real_time),
    ("disabled page", disabled_page::page),
    ("addresses", check_kvm_addresses),
    ("IA32_TSC", tsc::write_tsc),
    ("IA32_TSC_ADJUST", tsc::write_tsc_adjust),
    ("TSC offset", tsc::offset),
];

/// Only our kvm-clock: the kernel's KVM serves other providers' MSRs too.
const OWN_KVM: &[Test] = &[("MSRs of others", absent::others_of_kvm)];

/// Hyper-V's clock, the kernel's, where KVM has it, or ours.
const HYPERV: &[Test] = &[
    ("discovery", discovered),
    ("announced", hyperv::announcement),
    ("asked: discovery", asked::discovery),
    ("asked: guest OS id", asked::os_id),
    ("asked: VP index", asked::vp_index),
    ("asked: hypercall page", asked::hypercall_page),
    ("frequency MSRs", hyperv::frequencies),
    ("page", hyperv::page),
    ("counter against TSC", hyperv::counter_against_tsc),
    ("counter against page", hyperv::counter_against_page),
    ("monotonic on all vCPUs", machine::hyperv_monotonic),
    ("clock set", hyperv::clock_set),
    ("disabled page", disabled_page::reference_page),
    ("the host's own MSRs", hyperv::host_s_own),
];

/// Only our Hyper-V clock.
const OWN_HYPERV: &[Test] = &[
    ("asked: invariant-TSC control", asked::invariant_tsc),
    ("OS id first", hyperv::os_id_first),
    ("page off", hyperv::page_off),
    ("addresses", check_hyperv_addresses),
    ("reserved bits", hyperv::reserved_bits),
    ("MSRs of others", absent::others_of_hyperv),
];

const NOTHING: &[Test] =
    &[("discovery", discovered), ("announced", absent::announcement), ("MSRs", absent::check_all)];

const PROVIDERS: [Provider; 7] = [
    Provider::Kernel,
    Provider::KernelHyperV,
    Provider::Own(ClockProvider::Kvm),
    Provider::Own(ClockProvider::HyperV),
    Provider::Own(ClockProvider::None),
    Provider::Own(ClockProvider::Legacy),
    Provider::Own(ClockProvider::Minimal),
];

fn tests(provider: Provider) -> impl Iterator<Item = &'static Test> {
    let groups: &[&[Test]] = match provider {
        Provider::Kernel => &[KVM],
        Provider::KernelHyperV => &[HYPERV],
        Provider::Own(ClockProvider::Kvm) => &[KVM, OWN_KVM],
        Provider::Own(ClockProvider::HyperV) => &[HYPERV, OWN_HYPERV],
        Provider::Own(_) => &[NOTHING],
    };
    groups.iter().copied().flatten()
}

/// Runs every test of `subject`'s provider.
fn checks(subject: ConformanceSubject<'_>, step: &mut dyn FnMut(&str, f64)) -> Vec<Check> {
    let provider = subject.provider;
    for (index, (name, test)) in tests(provider).enumerate() {
        let done = index as f64 / tests(provider).count() as f64;
        step(&format!("{}: {}", provider.label(), name), done);
        if let Err(error) = test(&subject) {
            subject.holds(name, "the guest replies", error.to_string(), false);
        }
    }
    subject.into_checks()
}

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult> {
    let mut found = Vec::new();
    for (index, provider) in PROVIDERS.into_iter().enumerate() {
        let mut step = |what: &str, done| {
            progress.step(what, (index as f64 + done) / PROVIDERS.len() as f64);
        };
        match ConformanceSubject::start(bench, provider) {
            Ok(subject) => found.append(&mut checks(subject, &mut step)),
            Err(error) => {
                found.push(not_read(provider.label().into(), "the guest starts".into(), &error));
            }
        }
    }
    Ok((ResultTable::default(), found))
}

/// CPUID gives whole kHz, and a page's scale has 32 bits.
const FREQUENCY_HZ: u64 = 1_000;

fn discovered(subject: &ConformanceSubject<'_>) -> Result {
    let found = subject.machine.discover(0)?;
    let hypervisor = match subject.provider.kind() {
        ClockProvider::None | ClockProvider::Legacy => DiscoveredHypervisor::None,
        ClockProvider::Kvm => DiscoveredHypervisor::Kvm,
        ClockProvider::HyperV => DiscoveredHypervisor::HyperV,
        _ => DiscoveredHypervisor::Other,
    };
    let found_name = format!("{:?}", found.hypervisor);
    subject.equal("hypervisor detected by the guest", &format!("{hypervisor:?}"), &found_name);
    let timers = [Source::AcpiPm, Source::Hpet, Source::Rtc].map(|timer| found.has(timer));
    subject.holds(
        "timers detected by the guest",
        "PM timer, HPET, RTC",
        format!("{} of 3", timers.iter().filter(|found| **found).count()),
        timers == [true; 3],
    );
    if subject.provider.kind().has_cpuid() {
        let advertised_hz = subject.advertised_hz();
        let error_hz = found.tsc.0.abs_diff(advertised_hz);
        subject.holds(
            "TSC frequency detected by the guest",
            &format!("{advertised_hz} Hz, ± {FREQUENCY_HZ} Hz"),
            format!("{} Hz from {:?}", found.tsc.0, found.frequency_from),
            error_hz <= FREQUENCY_HZ,
        );
    }
    Ok(())
}

// MSR values whose address can hold no page.

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

fn check_kvm_addresses(subject: &ConformanceSubject<'_>) -> Result {
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

fn check_hyperv_addresses(subject: &ConformanceSubject<'_>) -> Result {
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
