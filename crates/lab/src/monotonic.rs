//! Whether a clock ever goes back from one vCPU to the next: all of them read
//! it and publish what they read, in turn.

use std::sync::atomic::Ordering;

use guest::layout::Pages;
use guest::monotonic::Order;
use guest::request::Request;
use guest::source::Source;
use host::msr::KVM_SYSTEM_TIME_OLD;
use host::{Event, Kind, VcpuId};
use pvclock::Nanos;
use pvclock::kvm_clock::Flags;
use vmm::Machine;

use crate::bench::{Bench, Maker};
use crate::pages::{reenter_all, time_info};
use crate::results::{Check, Findings, Monotonic, Verdict};
use crate::run::Found;
use crate::settings::{LabError, Progress};

/// Reads of one vCPU between two answers: well below a second even where all
/// vCPUs share one physical CPU, so that progress is seen and patience holds.
const BATCH: u64 = 500_000;

/// Reads right after another vCPU's, without which nothing is shown: on one
/// physical CPU vCPUs meet only where one's turn ends.
const MEETINGS_MIN: u64 = 1_000;

/// How far the host believes a TSC to be elsewhere than it is, as on machines
/// whose CPUs' TSCs are not in step.
const APART: Nanos = Nanos(10_000);

/// How the pages come to be as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// One line for all vCPUs.
    Stable,
    /// The boot vCPU has registered by the old MSR, which ends the master
    /// clock: each vCPU has a line of its own.
    PerVcpu,
    /// Besides, the last vCPU's TSC is not where the host believes.
    Apart,
}

/// One run.
#[derive(Debug, Clone, Copy)]
struct Run {
    maker: Maker,
    source: Source,
    setting: Setting,
    guarded: bool,
}

const fn run_of(maker: Maker, setting: Setting, guarded: bool) -> Run {
    Run { maker, source: Source::KvmClock, setting, guarded }
}

const OWN: Maker = Maker::Own(Kind::Kvm);
const RUNS: [Run; 8] = [
    run_of(Maker::Kernel, Setting::Stable, false),
    run_of(OWN, Setting::Stable, false),
    Run {
        maker: Maker::Own(Kind::HyperV),
        source: Source::HyperVPage,
        setting: Setting::Stable,
        guarded: false,
    },
    run_of(Maker::Kernel, Setting::PerVcpu, false),
    run_of(Maker::Kernel, Setting::PerVcpu, true),
    run_of(OWN, Setting::PerVcpu, true),
    run_of(OWN, Setting::Apart, false),
    run_of(OWN, Setting::Apart, true),
];

pub(crate) fn run(bench: &Bench<'_>, progress: &mut dyn Progress) -> Result<Found, LabError> {
    let (mut rows, mut checks) = (Vec::new(), Vec::new());
    for (index, run) in RUNS.iter().enumerate() {
        let part = |done: f64| (index as f64 + done) / RUNS.len() as f64;
        let row = run.measure(bench, &mut |done| progress.step(&run.name(), part(done)))?;
        checks.extend(run.check(&row));
        rows.push(row);
    }
    Ok((Findings::Monotonic(rows), checks))
}

impl Run {
    fn setting(&self) -> &'static str {
        match (self.setting, self.guarded) {
            (Setting::Stable, _) => "stable",
            (Setting::PerVcpu, false) => "unstable",
            (Setting::PerVcpu, true) => "unstable, guarded",
            (Setting::Apart, false) => "TSCs 10 µs apart",
            (Setting::Apart, true) => "TSCs 10 µs apart, guarded",
        }
    }

    fn name(&self) -> String {
        format!("{}: {}, {}", self.maker.label(), self.source.name(), self.setting())
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Monotonic, LabError> {
        let mut settings = bench.machine(self.maker, bench.settings.vcpus);
        settings.affinity = platform::cpus::allowed().unwrap_or_default();
        let machine = Machine::start(&settings)?;
        for vcpu in 0..machine.vcpus() {
            machine.discover(vcpu)?;
        }
        self.arrange(&machine)?;
        let order = read_in_turn(
            &machine,
            self.source,
            self.guarded,
            bench.settings.monotonic_reads,
            progress,
        )?;
        Ok(Monotonic {
            backend: self.maker.backend(),
            setting: self.setting().to_owned(),
            source: self.source.name().to_owned(),
            vcpus: machine.vcpus(),
            stable: self.is_stable(&machine)?,
            guarded: self.guarded,
            reads: order.reads,
            backward: order.backward,
            worst_ns: order.worst_ns,
            meetings: order.meetings,
        })
    }

    fn arrange(&self, machine: &Machine) -> Result<(), LabError> {
        if self.setting != Setting::Stable {
            let value = Pages::time_address(0) | 1;
            machine.ask(0, Request::WriteMsr { msr: KVM_SYSTEM_TIME_OLD, value })?;
        }
        if self.setting == Setting::Apart {
            let vcpu = VcpuId(machine.vcpus() as u32 - 1);
            let _ = machine.with_host_alone(|host, now, ram| {
                let cycles = u128::from(host.settings().host_tsc.0) * u128::from(APART.0);
                let tsc_offset = host.tsc_offset(vcpu).unwrap_or(0);
                let tsc_offset = tsc_offset.wrapping_add((cycles / 1_000_000_000) as u64);
                host.handle(Event::TscOffsetChanged { vcpu, tsc_offset }, now, ram);
            });
        }
        reenter_all(machine)
    }

    fn is_stable(&self, machine: &Machine) -> Result<bool, LabError> {
        if self.source != Source::KvmClock {
            // Hyper-V's page is one for all vCPUs, and off where it is not good.
            return Ok(true);
        }
        for vcpu in 0..machine.vcpus() {
            if !time_info(machine, vcpu)?.flags.contains(Flags::TSC_STABLE) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Without TSC_STABLE and without the guard nothing is promised: the row
    /// says how often time went back.
    fn check(&self, row: &Monotonic) -> Option<Check> {
        if self.setting != Setting::Stable && !self.guarded {
            return None;
        }
        let verdict = if self.setting == Setting::Stable && !row.stable {
            Verdict::NotMeasured("the page has no TSC_STABLE on this host".to_owned())
        } else {
            never_backward(row.backward, row.meetings)
        };
        Some(Check {
            name: self.name(),
            bar: "never backward".to_owned(),
            found: format!(
                "{} of {} reads backward, by {} ns at the most; another vCPU had published \
                 before {} of them",
                row.backward, row.reads, row.worst_ns, row.meetings
            ),
            verdict,
        })
    }
}

/// Whether time went back, if there was occasion for it.
pub(crate) fn never_backward(backward: u64, meetings: u64) -> Verdict {
    if backward > 0 || meetings >= MEETINGS_MIN {
        return Verdict::of(backward == 0);
    }
    Verdict::NotMeasured(match meetings {
        0 => "the vCPUs never met".to_owned(),
        _ => format!("the vCPUs met {meetings} times, of {MEETINGS_MIN} at the least"),
    })
}

/// `reads` by all vCPUs together, batch by batch.
pub(crate) fn read_in_turn(
    machine: &Machine,
    source: Source,
    guarded: bool,
    reads: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Order, LabError> {
    let vcpus = machine.vcpus();
    let participants = vcpus as u64;
    let shared = machine.ram().shared();
    shared.last_time_ns.store(0, Ordering::Release);
    let of_each = reads.div_ceil(participants);
    let mut total = Order::default();
    let mut done = 0;
    while done < of_each {
        progress(done as f64 / of_each as f64);
        let reads = BATCH.min(of_each - done);
        let request = Request::Monotonic { source, reads, participants, guarded };
        shared.ready.store(0, Ordering::Release);
        (0..vcpus).try_for_each(|vcpu| machine.post(vcpu, request))?;
        for vcpu in 0..vcpus {
            let order = Order::decode(&machine.answer(vcpu, request)?);
            total.reads += order.reads;
            total.backward += order.backward;
            total.worst_ns = total.worst_ns.max(order.worst_ns);
            total.meetings += order.meetings;
        }
        done += reads;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpus_that_hardly_met_show_nothing_but_a_step_back() {
        assert!(matches!(never_backward(0, 0), Verdict::NotMeasured(_)));
        assert!(matches!(never_backward(0, 999), Verdict::NotMeasured(_)));
        assert_eq!(never_backward(0, 1_000), Verdict::Passed);
        assert_eq!(never_backward(1, 0), Verdict::Failed);
        assert_eq!(never_backward(1, 1_000), Verdict::Failed);
    }
}
