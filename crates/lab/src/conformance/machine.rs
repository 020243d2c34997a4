//! Checks on several vCPUs and their threads.

use guest::layout::GuestPages;
use guest::source::Source;
use host::pages::StealPage;
use pvclock::Nanos;
use pvclock::kvm_clock::Flags;
use pvclock::steal_time::StealReader;
use vmm::run_delay;

use super::subject::ConformanceSubject;
use crate::monotonic::{Amount, judge_stable, read_in_turn};
use crate::settings::Result;

/// Reads of the monotonic test: the experiment `monotonic` makes more.
const READS: u64 = 1_000_000;

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
        subject.not_measured(&name, expected, "the page lacks TSC_STABLE on this host");
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
