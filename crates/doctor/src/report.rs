//! The doctor's whole report, as `parachron doctor --format json` gives it.

use std::fmt;

use facts::cpu::HypervisorKind;
use facts::kernel::version::date;
use facts::{Fact, Facts};
use instruments::figures;
use instruments::measurements::{Measurements, Spread};
use schemars::JsonSchema;
use serde::Serialize;

use crate::case::Case;
use crate::finding::Diagnosis;
use crate::rule::RuleSelection;
use crate::text;

/// A machine's diagnosis, and the facts and figures behind it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DoctorReport {
    /// Which form this document has.
    pub schema: SchemaId,
    /// Where and when it was made.
    pub origin: Origin,
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
        Self::with_rules(facts, measurements, &RuleSelection::default())
    }

    /// Examines a machine by some of the rules.
    pub fn with_rules(
        facts: Facts,
        measurements: Option<Measurements>,
        selection: &RuleSelection,
    ) -> Self {
        Self {
            schema: SchemaId::new("parachron-doctor"),
            origin: Origin::default(),
            machine: MachineSummary::new(&facts, measurements.as_ref()),
            diagnosis: crate::diagnose_by(&facts, measurements.as_ref(), selection),
            facts,
            measurements,
        }
    }

    /// The report with where and when it was made. What was right in a capture may be wrong now.
    pub fn with_origin(mut self, origin: Origin) -> Self {
        if let Some(unix_s) = origin.captured_unix_s {
            let date = date(unix_s as i64);
            self.diagnosis.verdict += &format!(" Captured on {date} by that machine's clock.");
        }
        Self { origin, ..self }
    }
}

/// Which form a JSON document has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchemaId {
    /// `parachron-doctor`.
    pub id: String,
    /// Rises when a field is taken away or changes its meaning; a new field
    /// alone does not raise it.
    pub version: u32,
}

impl SchemaId {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), version: 2 }
    }
}

/// Where and when a report was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// The machine's own name; `null` of a captured folder, which holds none.
    pub host: Option<String>,
    /// The captured folder; `null` of this machine.
    pub root: Option<String>,
    /// When the captured folder was written by that machine's clock, s since
    /// 1970, where it says.
    pub captured_unix_s: Option<u64>,
    /// When it was examined by this machine's clock, s since 1970.
    pub examined_unix_s: u64,
    /// Version of the program that examined it.
    pub program_version: String,
}

/// Which machine was examined, for people; omits what is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
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
    pub fn new(facts: &Facts, measurements: Option<&Measurements>) -> Self {
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
    let hypervisor = case.hypervisor_name();
    // SeaBIOS names itself where the VMM gives no name.
    let product = case.product().ok().filter(|name| *name != "Bochs");
    let product = case.snapshots().or(product);
    let what = match (product, hypervisor, case.is_guest()) {
        (_, Some(name), _) if case.kind() == Some(HypervisorKind::UserModeLinux) => name,
        (product, Some(xen), _) if case.is_dom0() => {
            let domain = format!("control domain (dom0) of {xen}");
            product.map_or(domain.clone(), |product| format!("{product}, {domain}"))
        }
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
    let cpus = case
        .logical_cpus()
        .ok()
        .map(|n| text::count(usize::try_from(*n).unwrap_or(usize::MAX), "CPU", "CPUs"));
    joined([Some(what), cpus, case.cpu_model().ok().map(str::to_owned)])
}

fn system(facts: &Facts) -> String {
    let kernel = facts.kernel.release.value().map(|release| format!("Linux {release}"));
    let container = facts.system.container.value().map(|kind| format!("in a container ({kind})"));
    joined([kernel, facts.system.distribution.value().cloned(), container])
}

fn clocksource(facts: &Facts) -> String {
    let name = |fact: &Fact<String>| match fact {
        Fact::Known(name) => name.clone(),
        Fact::Unknown(why) => format!("unknown ({why})"),
    };
    let current = name(&facts.clocksources.current);
    match facts.clocksources.available.value().map(Vec::as_slice) {
        Some([]) => format!("{current} (none is offered)"),
        Some(available) => format!("{current} (offered: {})", available.join(" ")),
        None => current,
    }
}

fn joined(parts: [Option<String>; 3]) -> String {
    let known: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    if known.is_empty() { "unknown".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use facts::Fact;

    use super::*;
    use crate::testing::healthy_kvm_guest;

    /// SeaBIOS calls the machine so where QEMU gives it no tables of SMBIOS
    /// (src/fw/smbios.c, BUILD_APPNAME), as for a microvm: it is not the emulator Bochs.
    #[test]
    fn a_firmwares_own_name_is_no_machines() {
        let named = |product: &str| {
            let mut facts = healthy_kvm_guest();
            facts.system.product = Fact::Known(product.into());
            MachineSummary::new(&facts, None).hardware
        };
        let cpu = "4 CPUs, AMD EPYC 7763 64-Core Processor";
        assert_eq!(named("Bochs"), format!("a guest of KVM, {cpu}"));
        assert_eq!(named("m7i.large"), format!("m7i.large, a guest of KVM, {cpu}"));
    }
}
