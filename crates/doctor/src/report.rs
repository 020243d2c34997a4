//! The doctor's whole report, as `parachron doctor --format json` gives it.

use std::fmt;

use facts::Fact;
use facts::Facts;
use facts::cpu::HypervisorKind;
use instruments::figures;
use instruments::measurements::{Measurements, Spread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::finding::Diagnosis;
use crate::text;

/// A machine's diagnosis, and the facts and figures behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DoctorReport {
    /// Which machine, in short.
    pub machine: MachineSummary,
    /// The findings, and the rules without one.
    pub diagnosis: Diagnosis,
    /// What the machine reports.
    pub facts: Facts,
    /// What was measured on it; `null` when nothing was.
    pub measurements: Option<Measurements>,
}

impl DoctorReport {
    /// Examines a machine.
    pub fn new(facts: Facts, measurements: Option<Measurements>) -> Self {
        Self {
            machine: MachineSummary::of(&facts, measurements.as_ref()),
            diagnosis: crate::diagnose(&facts, measurements.as_ref()),
            facts,
            measurements,
        }
    }
}

/// Which machine was examined, for people; omits what is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MachineSummary {
    /// `Firecracker guest (KVM), 2 CPUs, AMD EPYC`
    pub hardware: String,
    /// `Linux 6.1.0-18-amd64, Debian GNU/Linux 12 (bookworm)`
    pub system: String,
    /// `tsc (offered: tsc kvm-clock)`
    pub clocksource: String,
    /// What reading the clock costs; `null` when not measured.
    pub read_cost: Option<ReadCost>,
}

/// What one reading of the clock costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadCost {
    /// Nanoseconds.
    pub ns: Spread,
    /// Samples taken.
    pub samples: u64,
}

impl fmt::Display for ReadCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (median of {} samples, 99 % within {})",
            figures::time(self.ns.median),
            self.samples,
            figures::time(self.ns.p99)
        )
    }
}

impl MachineSummary {
    /// A machine in short.
    pub fn of(facts: &Facts, measurements: Option<&Measurements>) -> Self {
        let case = Case::new(facts, measurements);
        Self {
            hardware: hardware(&case),
            system: system(facts),
            clocksource: clocksource(facts),
            read_cost: case
                .clock_cost()
                .map(|cost| ReadCost { ns: cost.ns, samples: cost.samples }),
        }
    }
}

fn hardware(case: &Case<'_>) -> String {
    let facts = case.facts;
    let hypervisor = case.kind().map(HypervisorKind::name);
    let product = case.snapshots().or(facts.system.product.known().map(String::as_str));
    let what = match (product, hypervisor, case.is_guest()) {
        (Some(product), Some(hypervisor), _) if product != hypervisor => {
            format!("{product}, a guest of {hypervisor}")
        }
        (_, Some(hypervisor), _) => format!("a guest of {hypervisor}"),
        (Some(product), None, Some(true)) => format!("{product}, a guest"),
        (None, None, Some(true)) => "a guest".to_owned(),
        (Some(product), None, _) => product.to_owned(),
        (None, None, Some(false)) => "bare metal".to_owned(),
        (None, None, None) => "unknown machine".to_owned(),
    };
    let cpus = facts
        .cpu
        .logical_cpus
        .known()
        .map(|n| text::count(usize::try_from(*n).unwrap_or(usize::MAX), "CPU", "CPUs"));
    joined([Some(what), cpus, facts.cpu.model.known().cloned()])
}

fn system(facts: &Facts) -> String {
    let kernel = facts.kernel.release.known().map(|release| format!("Linux {release}"));
    let container = facts.system.container.known().map(|kind| format!("in a container ({kind})"));
    joined([kernel, facts.system.distribution.known().cloned(), container])
}

fn clocksource(facts: &Facts) -> String {
    let name = |fact: &Fact<String>| match fact {
        Fact::Known(name) => name.clone(),
        Fact::Unknown(why) => format!("unknown ({why})"),
    };
    let current = name(&facts.clocksources.current);
    match facts.clocksources.available.known() {
        Some(available) => format!("{current} (offered: {})", available.join(" ")),
        None => current,
    }
}

fn joined(parts: [Option<String>; 3]) -> String {
    let known: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    if known.is_empty() { "unknown".to_owned() } else { known.join(", ") }
}
