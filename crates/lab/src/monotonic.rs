//! Whether a clock ever goes backward from one vCPU to the next: all of them
//! read it and publish what they read, in turn.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use guest::layout::Pages;
use guest::monotonic::Order;
use guest::request::Request;
use guest::source::Source;
use host::msr::KVM_SYSTEM_TIME_OLD;
use host::{Event, Kind, VcpuId};
use pvclock::Nanos;
use pvclock::kvm_clock::Flags;
use vmm::Machine;

use crate::bench::{Bench, Provider, started};
use crate::pages::{reenter_all, time_info};
use crate::results::{Check, Findings, Monotonic, Verdict};
use crate::run::Found;
use crate::sample::not_run;
use crate::settings::{LabError, Progress};

/// Reads of one vCPU in one request: well below a second even if all vCPUs share
/// one physical CPU, for progress and the timeout.
const BATCH: u64 = 500_000;

/// Reads directly after another vCPU's that a verdict takes: on one physical CPU
/// they only occur at the end of a time slice.
const INTERLEAVED_MIN: u64 = 1_000;

/// The error in what the host knows of a TSC's offset, as on machines whose CPUs'
/// TSCs are not synchronised.
const TSC_ERROR: Nanos = Nanos(10_000);

const EXPECTED: &str = "never backward";

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
struct Run {
    provider: Provider,
    source: Source,
    setting: Setting,
    guarded: bool,
}

const fn run_of(provider: Provider, setting: Setting, guarded: bool) -> Run {
    Run { provider, source: Source::KvmClock, setting, guarded }
}

const OWN: Provider = Provider::Own(Kind::Kvm);
const RUNS: [Run; 8] = [
    run_of(Provider::Kernel, Setting::Stable, false),
    run_of(OWN, Setting::Stable, false),
    Run {
        provider: Provider::Own(Kind::HyperV),
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

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, run) in RUNS.iter().enumerate() {
        let part = |done: f64| (index as f64 + done) / RUNS.len() as f64;
        match run.measure(bench, &mut |done| progress.step(&run.name(), part(done))) {
            Ok(row) => {
                checks.extend(run.check(&row));
                rows.push(row);
            }
            Err(error) => checks.push(not_run(run.name(), EXPECTED.to_owned(), &error)),
        }
    }
    Ok((Findings::Monotonic(rows), checks))
}

impl Run {
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
        bench: &Bench<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Monotonic, LabError> {
        let mut settings = bench.machine(self.provider, bench.settings.vcpus);
        settings.affinity = linux::cpus::allowed().unwrap_or_default();
        let machine = started(&settings)?;
        self.arrange(&machine)?;
        let order = read_in_turn(
            &machine,
            self.source,
            self.guarded,
            Amount { reads: bench.settings.monotonic_reads, time: bench.settings.monotonic_time },
            progress,
        )?;
        Ok(Monotonic {
            backend: self.provider.backend(),
            setting: self.setting().to_owned(),
            source: self.source.name().to_owned(),
            vcpus: machine.vcpus(),
            stable: self.is_stable(&machine)?,
            guarded: self.guarded,
            reads: order.reads,
            backward: order.backward,
            worst_ns: order.worst_ns,
            interleaved: order.meetings,
        })
    }

    fn arrange(&self, machine: &Machine) -> Result<(), LabError> {
        if self.setting != Setting::Stable {
            let value = Pages::time_address(0) | 1;
            machine.request(0, Request::WriteMsr { msr: KVM_SYSTEM_TIME_OLD, value })?;
        }
        if self.setting == Setting::TscError {
            let vcpu = VcpuId(machine.vcpus() as u32 - 1);
            let _ = machine.with_clock_exclusive(|host, now, ram| {
                let cycles = u128::from(host.settings().host_tsc.0) * u128::from(TSC_ERROR.0);
                let tsc_offset = host.tsc_offset(vcpu).unwrap_or(0);
                let tsc_offset = tsc_offset.wrapping_add((cycles / 1_000_000_000) as u64);
                host.handle(Event::TscOffsetChanged { vcpu, tsc_offset }, now, ram);
            });
        }
        reenter_all(machine)
    }

    fn is_stable(&self, machine: &Machine) -> Result<bool, LabError> {
        if self.source != Source::KvmClock {
            // Hyper-V's page is one for all vCPUs, and invalid if not stable.
            return Ok(true);
        }
        for vcpu in 0..machine.vcpus() {
            if !time_info(machine.ram(), vcpu)?.flags.contains(Flags::TSC_STABLE) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Without TSC_STABLE and without the guard nothing is guaranteed: the row
    /// shows how often time went backward.
    fn check(&self, row: &Monotonic) -> Option<Check> {
        if self.setting != Setting::Stable && !self.guarded {
            return None;
        }
        let verdict = if self.setting == Setting::Stable && !row.stable {
            Verdict::NotMeasured("the page has no TSC_STABLE on this host".to_owned())
        } else {
            never_backward(row.backward, row.interleaved)
        };
        Some(Check {
            name: self.name(),
            expected: EXPECTED.to_owned(),
            found: format!(
                "{} of {} reads backward, by at most {} ns; {} directly after another vCPU's",
                row.backward, row.reads, row.worst_ns, row.interleaved
            ),
            verdict,
        })
    }
}

/// Whether time went backward, if enough reads could show it.
pub(crate) fn never_backward(backward: u64, interleaved: u64) -> Verdict {
    if backward > 0 || interleaved >= INTERLEAVED_MIN {
        return Verdict::of(backward == 0);
    }
    Verdict::NotMeasured(format!(
        "only {interleaved} reads directly after another vCPU's, of at least {INTERLEAVED_MIN}"
    ))
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
) -> Result<Order, LabError> {
    let started = Instant::now();
    let vcpus = machine.vcpus();
    let participants = vcpus as u64;
    let shared = machine.ram().shared();
    shared.last_time_ns.store(0, Ordering::Release);
    let of_each = amount.reads.div_ceil(participants);
    let mut total = Order::default();
    let mut done = 0;
    while done < of_each {
        progress(done as f64 / of_each as f64);
        let reads = BATCH.min(of_each - done);
        let request = Request::Monotonic { source, reads, participants, guarded };
        shared.ready.store(0, Ordering::Release);
        (0..vcpus).try_for_each(|vcpu| machine.send_request(vcpu, request))?;
        for vcpu in 0..vcpus {
            let order = Order::decode(&machine.wait_for_reply(vcpu, request)?);
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
}
