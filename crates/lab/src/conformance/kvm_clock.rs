//! kvm-clock: what its pages say.

use guest::layout::Pages;
use guest::request::Request;
use guest::source::Source;
use host::msr::{KVM_STEAL_TIME, KVM_SYSTEM_TIME, KVM_WALL_CLOCK};
use kvm_bindings::KVM_CLOCK_TSC_STABLE;
use pvclock::Nanos;
use pvclock::kvm_clock::{Flags, WallClockPage, WallClockReader};
use pvclock::steal_time::{StealPage, StealReader};
use vmm::{MachineError, host_clock, run_delay};

use super::checklist::{Checklist, Subject};
use crate::monotonic::{never_backward, read_in_turn};
use crate::pages::{self, reenter_all, time_info};
use crate::settings::LabError;

type Result<T = ()> = std::result::Result<T, LabError>;

/// CPUID's features: both sets of MSRs, and steal time.
const FEATURES: u32 = 1 | 1 << 3 | 1 << 5;
/// The scale is cut to 32 bits: 2^−31 at the most.
const SCALE_PPB: f64 = 1.0;
/// kvmclock_test allows 5 s; between two readings of the host's clock there
/// is no need to.
const WALL_NS: u64 = 1_000_000;
/// Reads of the monotonic test: `monotonic` makes more of them.
const READS: u64 = 1_000_000;

pub(super) fn announced(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let name = subject.signature()?;
    checklist.holds("signature", "KVMKVMKVM", name.clone(), name == "KVMKVMKVM");
    let [features, ..] = subject.cpuid(0x4000_0001)?;
    checklist.holds(
        "features",
        &format!("{FEATURES:#x}: clocksource by both sets of MSRs, steal time"),
        format!("{features:#x}"),
        features & FEATURES == FEATURES,
    );
    Ok(())
}

pub(super) fn page(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let told_hz = subject.told_hz();
    for vcpu in 0..subject.machine.vcpus() {
        let info = time_info(&subject.machine, vcpu)?;
        let name = format!("vCPU {vcpu}'s page");
        let version = info.version;
        let whole = version != 0 && version.is_multiple_of(2);
        checklist.holds(&name, "version even and not 0", version.to_string(), whole);
        let page_hz = info.scale.to_hertz().map_or(0, |rate| rate.0);
        let off_ppb = (page_hz as f64 / told_hz as f64 - 1.0) * 1e9;
        checklist.holds(
            &format!("{name}: scale"),
            &format!("{told_hz} Hz within {SCALE_PPB} ppb"),
            format!("{page_hz} Hz, {off_ppb:.3} ppb off"),
            off_ppb.abs() <= SCALE_PPB,
        );
    }
    let host_says = match subject.machine.with_host(|host, _, _| host.master_clock()) {
        Some(master_clock) => master_clock,
        None => kvm_clock(subject)?.flags & KVM_CLOCK_TSC_STABLE != 0,
    };
    let info = time_info(&subject.machine, 0)?;
    let stable = info.flags.contains(Flags::TSC_STABLE);
    checklist.holds(
        "TSC_STABLE",
        "in the page where the host has a master clock",
        format!("page {stable}, host {host_says}"),
        stable == host_says,
    );
    Ok(())
}

/// KVM's own clock of the VM.
pub(super) fn kvm_clock(subject: &Subject<'_>) -> Result<kvm_bindings::kvm_clock_data> {
    let failed = |error| MachineError::Kvm { call: "KVM_GET_CLOCK", error };
    Ok(subject.machine.vm().get_clock().map_err(failed)?)
}

pub(super) fn register(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let value = subject.read_msr(KVM_SYSTEM_TIME)?;
    let written = Pages::time_address(0) | 1;
    checklist.holds(
        "system time MSR",
        &format!("reads {written:#x} as written"),
        format!("{value:#x}"),
        value == written,
    );
    Ok(())
}

pub(super) fn wall_clock(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let machine = &subject.machine;
    let page: &WallClockPage = pages::page(machine, Pages::wall_clock_address());
    let read = || WallClockReader::new(page).read();
    subject.write_msr(KVM_WALL_CLOCK, Pages::wall_clock_address())?;
    let Ok(wall) = read() else {
        checklist.holds("wall clock", "written at the write of its MSR", "not written", false);
        return Ok(());
    };
    let before = host_clock::read().real.0.0;
    let now = wall.plus(Nanos(subject.read(0, Source::KvmClock)?.time_ns)).0;
    let after = host_clock::read().real.0.0;
    let (since_before, until_after) = (now.wrapping_sub(before), after.wrapping_sub(now));
    checklist.holds(
        "wall clock and system time",
        &format!(
            "the host's CLOCK_REALTIME before and after, {} ms more either way",
            WALL_NS / 1_000_000
        ),
        format!(
            "{} ns after the one, {} ns before the other",
            since_before.cast_signed(),
            until_after.cast_signed()
        ),
        since_before.cast_signed() >= -WALL_NS.cast_signed()
            && until_after.cast_signed() >= -WALL_NS.cast_signed(),
    );
    subject.write_msr(KVM_SYSTEM_TIME, Pages::time_address(0) | 1)?;
    reenter_all(machine)?;
    let later = read();
    checklist.holds(
        "wall clock at other writes",
        "not written",
        if later == Ok(wall) { "as it was" } else { "changed" },
        later == Ok(wall),
    );
    Ok(())
}

pub(super) fn steal_time(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let machine = &subject.machine;
    // Ours looks this often; both write the page at an entry.
    std::thread::sleep(run_delay::EACH);
    reenter_all(machine)?;
    for vcpu in 0..machine.vcpus() {
        let page: &StealPage = pages::page(machine, Pages::steal_address(vcpu));
        let read = StealReader::new(page).read();
        // After the page, for it only grows; the page counts from when the
        // guest asked for it.
        let waited = machine.call_vcpu(vcpu, |_| run_delay::of_this_thread())?;
        let name = format!("vCPU {vcpu}'s steal time");
        let (bar, most) = match waited {
            Some(most) => ("written, whole, at most what its thread has waited for a CPU", most),
            None => ("written and whole: this kernel has no schedstat", Nanos(u64::MAX)),
        };
        let (found, holds) = match read {
            Ok(info) => (
                format!("version {}, {}, thread {most}", info.version, info.steal),
                info.version != 0 && info.steal <= most,
            ),
            Err(error) => (error.to_string(), false),
        };
        checklist.holds(&name, bar, found, holds);
    }
    // Bits 1 to 5 must be 0.
    let value = (Pages::steal_address(0) + 32) | 1;
    subject.all_refused("steal time, unaligned", &[(KVM_STEAL_TIME, value)], checklist)
}

pub(super) fn guest_stopped(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    let machine = &subject.machine;
    machine.pause()?;
    machine.resume()?;
    let mut taken = Vec::new();
    for vcpu in 0..machine.vcpus() {
        // The page is written at the entry for this very question, or before.
        let mut seen = [0; 2];
        for seen in &mut seen {
            [*seen, ..] = machine.ask(vcpu, Request::TakeGuestStopped)?;
        }
        taken.push(seen);
    }
    checklist.holds(
        "GUEST_STOPPED after a pause",
        "seen once by each vCPU",
        format!("the first and the second time, by vCPU: {taken:?}"),
        taken.iter().all(|seen| *seen == [1, 0]),
    );
    Ok(())
}

pub(super) fn monotonic(subject: &Subject<'_>, checklist: &mut Checklist) -> Result {
    in_turn(subject, Source::KvmClock, checklist)
}

/// All vCPUs' reads in one order.
pub(super) fn in_turn(subject: &Subject<'_>, source: Source, checklist: &mut Checklist) -> Result {
    let name = format!("{} on all vCPUs", source.name());
    let bar = "never backward";
    if source == Source::KvmClock {
        let info = time_info(&subject.machine, 0)?;
        if !info.flags.contains(Flags::TSC_STABLE) {
            checklist.not_measured(&name, bar, "", "the page has no TSC_STABLE on this host");
            return Ok(());
        }
    }
    let reads = READS.min(subject.bench.settings.monotonic_reads);
    let order = read_in_turn(&subject.machine, source, false, reads, &mut |_| {})?;
    let found = format!(
        "{} of {} reads, by {} ns at the most; vCPUs met {} times",
        order.backward, order.reads, order.worst_ns, order.meetings
    );
    checklist.judged(&name, bar, found, never_backward(order.backward, order.meetings));
    Ok(())
}
