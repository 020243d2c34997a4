//! Checks on several vCPUs and their threads.

use std::time::{Duration, Instant};

use guest::layout::GuestPages;
use guest::source::Source;
use host::pages::StealPage;
use pvclock::Nanos;
use pvclock::kvm_clock::Flags;
use pvclock::steal_time::StealReader;
use vmm::run_delay;

use super::subject::ConformanceSubject;
use crate::monotonic::{Amount, judge_stable, read_in_turn};
use crate::settings::{LabError, Result};
use crate::tsc_offsets::why_per_vcpu;

/// Reads of the monotonic test: the experiment `monotonic` makes more.
const READS: u64 = 1_000_000;
/// How long another thread takes a vCPU's CPU, and what the vCPU waits for it at least.
const CONTENDED: Duration = Duration::from_millis(100);
const ENTRIES: u32 = 100;
const WAITED_MIN: Duration = Duration::from_millis(10);

pub(super) fn steal_time(subject: &ConformanceSubject<'_>) -> Result {
    let machine = &subject.machine;
    // Our host reads the delay at this interval; both write the page at an
    // entry.
    std::thread::sleep(run_delay::EACH);
    subject.reenter_all()?;
    for vcpu in 0..machine.vcpus() {
        let page: &StealPage = subject.page(GuestPages::steal_address(vcpu));
        let read = StealReader::new(page).read();
        // After the page, as it only grows; the page counts from when the
        // guest registered it.
        let waited = machine.run_delay(vcpu)?;
        let (expected, most) = match waited {
            Some(most) => ("written, complete, at most the run delay of the vCPU's thread", most),
            None => ("written and complete (this kernel has no schedstat)", Nanos(u64::MAX)),
        };
        let (found, holds) = match read {
            Ok(info) => (
                format!("version {}, steal time {}, run delay {most}", info.version, info.steal),
                info.version != 0 && info.steal <= most,
            ),
            Err(error) => (error.to_string(), false),
        };
        subject.holds(&format!("vCPU {vcpu}'s steal time"), expected, found, holds);
    }
    Ok(())
}

/// Another thread takes vCPU 0's CPU half of the time: the scheduler counts what the vCPU
/// waits, and the guest must be told all of it.
pub(super) fn steal_time_grows(subject: &ConformanceSubject<'_>) -> Result {
    let (name, machine) =
        ("vCPU 0's steal time while another thread has its CPU", &subject.machine);
    let expected = "grows by the run delay of the vCPU's thread";
    let Some(&cpu) = linux::cpus::allowed().unwrap_or_default().last() else {
        subject.not_measured(name, expected, "this process's CPUs are unknown");
        return Ok(());
    };
    let stolen = || {
        std::thread::sleep(2 * run_delay::EACH);
        subject.reenter_all()?;
        let page: &StealPage = subject.page(GuestPages::steal_address(0));
        Ok::<_, LabError>(StealReader::new(page).read().map_or(Nanos(0), |info| info.steal))
    };
    machine.move_vcpu(0, cpu)?;
    // The delay after the page at first, and before it at last: the page has all between.
    let (before, delay_before) = (stolen()?, machine.run_delay(0)?);
    let until = Instant::now() + CONTENDED;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = linux::cpus::pin(cpu);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        });
        // It sleeps where nothing is asked of it.
        while Instant::now() < until {
            machine.time_entries(0, ENTRIES)?;
        }
        Ok::<_, LabError>(())
    })?;
    let (delay, after) = (machine.run_delay(0)?, stolen()?);
    let Some((delay, delay_before)) = delay.zip(delay_before) else {
        subject.not_measured(name, expected, "this kernel has no schedstat");
        return Ok(());
    };
    let waited = delay.0.saturating_sub(delay_before.0);
    let grown = after.0.saturating_sub(before.0);
    let found = format!("grew by {} µs of {} µs", grown / 1000, waited / 1000);
    if Duration::from_nanos(waited) < WAITED_MIN {
        subject.not_measured(name, expected, &format!("the vCPU waited only {} µs", waited / 1000));
    } else {
        subject.holds(name, expected, found, grown >= waited);
    }
    Ok(())
}

pub(super) fn kvm_clock_monotonic(subject: &ConformanceSubject<'_>) -> Result {
    in_turn(subject, Source::KvmClock)
}

pub(super) fn hyperv_monotonic(subject: &ConformanceSubject<'_>) -> Result {
    in_turn(subject, Source::HyperVPage)
}

fn in_turn(subject: &ConformanceSubject<'_>, source: Source) -> Result {
    let machine = &subject.machine;
    let name = format!("{} on all vCPUs", source.name());
    let expected = "never backward";
    if source == Source::KvmClock && !subject.time_info(0)?.flags.contains(Flags::TSC_STABLE) {
        let why =
            if subject.is_own() { why_per_vcpu(machine)? } else { Some("KVM has no master clock") };
        match why {
            Some(why) => subject.not_measured(&name, expected, why),
            None => subject.holds(&name, expected, "the page lacks TSC_STABLE", false),
        }
        return Ok(());
    }
    if source == Source::HyperVPage && super::hyperv::is_off(subject, &name, expected)? {
        return Ok(());
    }
    let settings = subject.bench.settings;
    let reads = READS.min(settings.monotonic_reads);
    let amount = Amount { reads, time: settings.monotonic_time };
    let order = read_in_turn(machine, source, false, amount, &mut |_| {})?;
    let (found, verdict) = judge_stable(machine, source, order, amount)?;
    subject.record(&name, expected, found, verdict);
    Ok(())
}
