//! Whether a clock ever goes backward from one vCPU to the next: all of them
//! read it and publish what they read, in turn.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guest::layout::GuestPages;
use guest::monotonic::MonotonicOrder;
use guest::request::GuestRequest;
use guest::source::Source;
use host::msr::KVM_SYSTEM_TIME_OLD;
use host::pages::ReferencePage;
use host::{ClockProvider, HostEvent, VcpuId};
use pvclock::Nanos;
use pvclock::hyperv::ReferenceReader;
use pvclock::kvm_clock::Flags;
use serde::Serialize;
use vmm::Machine;

use crate::bench::{LabBench, Provider, boot_guest};
use crate::pages::{page, reenter_all, time_info};
use crate::results::{Check, ColumnForm, ExperimentResult, ResultTable, Verdict};
use crate::sample::not_run;
use crate::settings::{LabError, LabProgress};
use crate::tsc_offsets::{TscOffsets, why_per_vcpu};

/// Reads of one vCPU in one request: well below a second even if all vCPUs share
/// one physical CPU, for progress and the timeout.
const BATCH: u64 = 500_000;

/// Reads directly after another vCPU's that a verdict takes: on one physical CPU
/// they only occur at the end of a time slice.
const INTERLEAVED_MIN: u64 = 1_000;

/// The error in what the host knows of a TSC's offset, as on machines whose CPUs'
/// TSCs are not synchronised.
const TSC_ERROR: Nanos = Nanos(10_000);

/// A host that has lost its TSC withdraws a common page within this: our machine looks
/// ten times a second.
const WITHDRAWN: Duration = Duration::from_secs(1);

const EXPECTED: &str = "never backward";
const KVM_S_OWN: &str = "KVM has no master clock on this host";

/// How the pages are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// A master clock: one clock for all vCPUs.
    Stable,
    /// The boot vCPU has registered by the old MSR, which ends the master
    /// clock: each vCPU's page is updated by itself.
    PerVcpu,
    /// In addition the last vCPU's TSC offset is not what the host knows.
    TscError,
}

/// One run.
#[derive(Debug, Clone, Copy)]
struct MonotonicRun {
    provider: Provider,
    source: Source,
    setting: Setting,
    guarded: bool,
}

const fn run_of(provider: Provider, setting: Setting, guarded: bool) -> MonotonicRun {
    MonotonicRun { provider, source: Source::KvmClock, setting, guarded }
}

const OWN: Provider = Provider::Own(ClockProvider::Kvm);
const RUNS: [MonotonicRun; 8] = [
    run_of(Provider::Kernel, Setting::Stable, false),
    run_of(OWN, Setting::Stable, false),
    MonotonicRun {
        provider: Provider::Own(ClockProvider::HyperV),
        source: Source::HyperVPage,
        setting: Setting::Stable,
        guarded: false,
    },
    run_of(Provider::Kernel, Setting::PerVcpu, false),
    run_of(Provider::Kernel, Setting::PerVcpu, true),
    run_of(OWN, Setting::PerVcpu, true),
    run_of(OWN, Setting::TscError, false),
    run_of(OWN, Setting::TscError, true),
];

pub(crate) fn run(
    bench: &LabBench<'_>,
    progress: &mut dyn LabProgress,
) -> Result<ExperimentResult, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, run) in RUNS.iter().enumerate() {
        let part = |done: f64| (index as f64 + done) / RUNS.len() as f64;
        match run.measure(bench, &mut |done| progress.step(&run.name(), part(done))) {
            Ok((row, check)) => {
                checks.extend(check);
                rows.push(row);
            }
            Err(error) => checks.push(not_run(run.name(), EXPECTED.to_owned(), &error)),
        }
    }
    Ok((table(&rows), checks))
}

/// One run of all vCPUs against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct MonotonicRow {
    clock_by: &'static str,
    setting: &'static str,
    source: &'static str,
    /// Whether the page carried TSC_STABLE, or readers return the greatest time that any has
    /// published.
    ordered: bool,
    reads: u64,
    interleaved: u64,
    backward: u64,
    worst_ns: Option<u64>,
}

fn table(rows: &[MonotonicRow]) -> ResultTable {
    use ColumnForm::{Count, Name, Nanos, Words};
    let columns = [
        ("clock_by", "clock by", "", Name),
        ("setting", "setting", "", Words),
        ("source", "guest's\nclock", "", Name),
        ("reads", "reads", "", Count),
        ("interleaved", "inter-\nleaved", "", Count),
        ("backward", "back-\nward", "", Count),
        ("worst_ns", "worst", "", Nanos),
    ];
    ResultTable::new("Monotonic: all vCPUs read and publish in turn", &columns, rows)
        .worst("worst_ns")
        .note(
            "interleaved: reads directly after another vCPU's. backward: reads below a time that \
             was published before they began.",
        )
}

impl MonotonicRun {
    fn setting(&self) -> &'static str {
        match (self.setting, self.guarded) {
            (Setting::Stable, _) => "stable",
            (Setting::PerVcpu, false) => "unstable",
            (Setting::PerVcpu, true) => "unstable, guarded",
            (Setting::TscError, false) => "TSC offset 10 µs",
            (Setting::TscError, true) => "TSC offset 10 µs, guarded",
        }
    }

    fn name(&self) -> String {
        format!("{}: {}, {}", self.provider.label(), self.source.name(), self.setting())
    }

    fn measure(
        &self,
        bench: &LabBench<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(MonotonicRow, Option<Check>), LabError> {
        let mut settings = bench.machine(self.provider, bench.settings.vcpus);
        settings.affinity = linux::cpus::allowed().unwrap_or_default();
        let machine = boot_guest(&settings)?;
        self.arrange(&machine)?;
        let reads = bench.settings.monotonic_reads;
        let amount = Amount { reads, time: bench.settings.monotonic_time };
        let stable = self.is_stable(&machine)?;
        let order = read_in_turn(&machine, self.source, self.guarded, amount, progress)?;
        let judged = self.check(&machine, order, stable, amount)?;
        let row = MonotonicRow {
            clock_by: self.provider.label(),
            setting: self.setting(),
            source: self.source.name(),
            ordered: stable || self.guarded,
            reads: order.reads,
            backward: order.backward,
            worst_ns: (order.backward > 0).then_some(order.worst_ns),
            interleaved: order.meetings,
        };
        Ok((row, judged))
    }

    fn arrange(&self, machine: &Machine) -> Result<(), LabError> {
        if self.setting != Setting::Stable {
            let value = GuestPages::time_address(0) | 1;
            machine.request(0, GuestRequest::WriteMsr { msr: KVM_SYSTEM_TIME_OLD, value })?;
        }
        if self.setting == Setting::TscError {
            let vcpu = VcpuId(machine.vcpus() as u32 - 1);
            let _ = machine.with_clock_exclusive(|host, now, ram| {
                let cycles = u128::from(host.settings().host_tsc.0) * u128::from(TSC_ERROR.0);
                let tsc_offset = host.tsc_offset(vcpu).unwrap_or(0);
                let tsc_offset = tsc_offset.wrapping_add((cycles / 1_000_000_000) as u64);
                host.handle(HostEvent::TscOffsetChanged { vcpu, tsc_offset }, now, ram);
            });
        }
        reenter_all(machine)
    }

    fn is_stable(&self, machine: &Machine) -> Result<bool, LabError> {
        for vcpu in 0..machine.vcpus() {
            if !is_common(machine, self.source, vcpu)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Without TSC_STABLE and without the guard nothing is guaranteed: the row
    /// shows how often time went backward.
    fn check(
        &self,
        machine: &Machine,
        order: MonotonicOrder,
        stable: bool,
        amount: Amount,
    ) -> Result<Option<Check>, LabError> {
        if self.setting != Setting::Stable && !self.guarded {
            return Ok(None);
        }
        let (found, verdict) = if self.setting != Setting::Stable {
            (describe(&order), never_backward(order.backward, order.meetings))
        } else if stable {
            judge_stable(machine, self.source, order, amount)?
        } else {
            let why = if self.provider.is_own() { why_per_vcpu(machine)? } else { Some(KVM_S_OWN) };
            let found = format!("the page is not valid for all vCPUs; {}", describe(&order));
            (found, Verdict::Failed.excused(why))
        };
        Ok(Some(Check { name: self.name(), expected: EXPECTED.to_owned(), found, verdict }))
    }
}

/// Whether a page claims to be right for all vCPUs: kvm-clock's by TSC_STABLE,
/// Hyper-V's, of which there is one, by being valid.
fn is_common(machine: &Machine, source: Source, vcpu: usize) -> Result<bool, LabError> {
    Ok(match source {
        Source::KvmClock => time_info(machine.ram(), vcpu)?.flags.contains(Flags::TSC_STABLE),
        _ => {
            let page: &ReferencePage = page(machine.ram(), GuestPages::reference_address());
            ReferenceReader::new(page).info().is_ok()
        }
    })
}

fn describe(order: &MonotonicOrder) -> String {
    format!(
        "{} of {} reads backward, by at most {} ns; {} reads came directly after another vCPU's",
        order.backward, order.reads, order.worst_ns, order.meetings
    )
}

/// Whether time went backward, if enough reads could show it.
fn never_backward(backward: u64, interleaved: u64) -> Verdict {
    if backward > 0 || interleaved >= INTERLEAVED_MIN {
        return Verdict::judge(backward == 0);
    }
    Verdict::NotMeasured(format!(
        "only {interleaved} reads came directly after another vCPU's; {INTERLEAVED_MIN} are needed"
    ))
}

/// Judges reads of a page that claims to be right for all vCPUs. If they went backward,
/// the vCPUs' TSCs are read in the same way: a page that is made of TSCs out of step
/// cannot be in order, and its host has to withdraw it.
pub(crate) fn judge_stable(
    machine: &Machine,
    source: Source,
    order: MonotonicOrder,
    amount: Amount,
) -> Result<(String, Verdict), LabError> {
    let found = describe(&order);
    if order.backward == 0 {
        return Ok((found, never_backward(0, order.meetings)));
    }
    let tsc = read_in_turn(machine, Source::Tsc, false, amount, &mut |_| {})?;
    let offsets = TscOffsets::probe()?;
    let started = Instant::now();
    let mut withdrawn = false;
    while !withdrawn && started.elapsed() < WITHDRAWN {
        std::thread::sleep(WITHDRAWN / 100);
        reenter_all(machine)?;
        withdrawn = !is_common(machine, source, 0)?;
    }
    let by_tsc = format!(
        "RDTSC itself: {} of {} reads backward, by at most {} cycles",
        tsc.backward, tsc.reads, tsc.worst_ns
    );
    let verdict = verdict_of_backward(tsc.backward > 0, offsets, withdrawn, &by_tsc);
    Ok((format!("{found}; {by_tsc}"), verdict))
}

/// What a common page that went backward shows.
fn verdict_of_backward(
    tsc_backward: bool,
    offsets: TscOffsets,
    withdrawn: bool,
    by_tsc: &str,
) -> Verdict {
    let moved = offsets == TscOffsets::Moved;
    if !(withdrawn && (tsc_backward || moved)) {
        return Verdict::Failed;
    }
    let why = if moved { offsets.reason().unwrap_or_default() } else { "the vCPUs' TSCs differ" };
    Verdict::NotMeasured(format!("{why}; {by_tsc}; the page was withdrawn"))
}

/// How much is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// By all vCPUs together.
    pub(crate) reads: u64,
    /// Less, if this time is over and those made suffice for a verdict.
    pub(crate) time: Option<Duration>,
}

/// Reads on all vCPUs, batch by batch.
pub(crate) fn read_in_turn(
    machine: &Machine,
    source: Source,
    guarded: bool,
    amount: Amount,
    progress: &mut dyn FnMut(f64),
) -> Result<MonotonicOrder, LabError> {
    let started = Instant::now();
    let vcpus = machine.vcpus();
    let participants = vcpus as u64;
    let shared = machine.ram().shared();
    shared.last_time_ns.store(0, Ordering::Release);
    let of_each = amount.reads.div_ceil(participants);
    let mut total = MonotonicOrder::default();
    let mut done = 0;
    while done < of_each {
        progress(done as f64 / of_each as f64);
        let reads = BATCH.min(of_each - done);
        let request = GuestRequest::Monotonic { source, reads, participants, guarded };
        shared.ready.store(0, Ordering::Release);
        (0..vcpus).try_for_each(|vcpu| machine.send_request(vcpu, request))?;
        for vcpu in 0..vcpus {
            let order = MonotonicOrder::decode(&machine.wait_for_reply(vcpu, request)?);
            total = total.and(order);
        }
        done += reads;
        let is_late = amount.time.is_some_and(|time| started.elapsed() > time);
        if is_late && total.meetings >= INTERLEAVED_MIN {
            break;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_interleaved_reads_show_nothing_but_a_step_back() {
        assert!(matches!(never_backward(0, 0), Verdict::NotMeasured(_)));
        assert!(matches!(never_backward(0, 999), Verdict::NotMeasured(_)));
        assert_eq!(never_backward(0, 1_000), Verdict::Passed);
        assert_eq!(never_backward(1, 0), Verdict::Failed);
        assert_eq!(never_backward(1, 1_000), Verdict::Failed);
    }

    #[test]
    fn a_page_that_goes_backward_is_excused_only_by_its_tsc_and_if_withdrawn() {
        use TscOffsets::{Ignored, Kept, Moved};
        for offsets in [Kept, Ignored, Moved] {
            for tsc_backward in [false, true] {
                for withdrawn in [false, true] {
                    let excused = withdrawn && (tsc_backward || offsets == Moved);
                    match verdict_of_backward(tsc_backward, offsets, withdrawn, "RDTSC: 5") {
                        Verdict::NotMeasured(why) => assert!(excused && why.contains("RDTSC: 5")),
                        verdict => assert!(!excused && verdict == Verdict::Failed),
                    }
                }
            }
        }
    }
}
