//! What the experiments find, in plain units.

use instruments::measurements::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One bar, and how it was met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked: `hyperv: counter against page`.
    pub name: String,
    /// What must be so, with its tolerance: `within 200 ppm of theory`.
    pub bar: String,
    /// What was found: `12.3 ppm`.
    pub found: String,
    /// Whether it is so.
    pub verdict: Verdict,
}

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it must be.
    Passed,
    /// Not as it must be.
    Failed,
    /// It could not be looked at here, and why.
    NotMeasured(String),
}

impl Verdict {
    /// By a condition.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Passed } else { Self::Failed }
    }
}

/// All of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Where the experiments ran: `KVM`, or `in process, no KVM` and why.
    pub ran_on: RanOn,
    /// The host's TSC, Hz.
    pub host_tsc_hz: u64,
    /// From the machine's start to the guest's first report, ms.
    pub boot_ms: Option<f64>,
    /// In the order they ran.
    pub experiments: Vec<Outcome>,
}

/// What an experiment was run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RanOn {
    /// Virtual machines on /dev/kvm.
    Kvm,
    /// Host and guest code in one process, and why.
    InProcess(String),
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// What was done.
    pub findings: Findings,
    /// Every bar it is held to.
    pub checks: Vec<Check>,
    /// How long it took, s.
    pub seconds: f64,
}

/// Each experiment's own table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "experiment", content = "rows")]
pub enum Findings {
    /// Guest time against host time.
    Drift(Vec<Drift>),
    /// What each event does to the page.
    Updates(Vec<Update>),
    /// What a reading costs inside the guest.
    Cost(Vec<Cost>),
    /// Whether time goes backward between vCPUs.
    Monotonic(Vec<Monotonic>),
    /// The guest's now against the host's.
    Offset(Vec<Offset>),
    /// What a guest sees of having been saved and restored.
    Restore(Vec<Restore>),
    /// The kernel's page against ours.
    Agreement(Vec<Agreement>),
    /// What KVM's own tests ask of a clock: the checks say all.
    Conformance,
}

/// Who made the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The kernel's KVM.
    Kernel,
    /// Our provider.
    Own,
}

/// One clock's drift.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Who made the clock.
    pub backend: Backend,
    /// The provider's name.
    pub provider: String,
    /// The guest's clock.
    pub source: String,
    /// The TSC frequency the guest was told, or measured itself, Hz.
    pub guest_tsc_hz: u64,
    /// How long, by the host's clock, s.
    pub host_s: f64,
    /// How long by the guest's, s.
    pub guest_s: f64,
    /// What the guest counts in 300 s of the host, s.
    pub per_300_s: f64,
    /// How much too fast the guest's clock runs, ppm.
    pub drift_ppm: f64,
    /// By how much it should, after what it was told, ppm.
    pub theory_ppm: f64,
    /// What reading both clocks leaves open, ppm.
    pub uncertainty_ppm: f64,
    /// Guest less host, at moments since the start: s, then ms.
    pub track: Vec<(f64, f64)>,
}

/// One event and what it did to one vCPU's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    /// What was caused.
    pub event: String,
    /// Who made the clock.
    pub backend: Backend,
    /// Whose page.
    pub vcpu: usize,
    /// The page's version before and after.
    pub version: (u32, u32),
    /// What the update did to time: the new page's less the old one's at the
    /// new page's TSC, ns.
    pub step_ns: i64,
    /// Flags before and after.
    pub flags: (u8, u8),
    /// Why nothing was caused here, if so.
    pub not_caused: Option<String>,
}

/// What one clock costs in the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Who made the clock.
    pub backend: Backend,
    /// The provider's name.
    pub provider: String,
    /// The guest's clock.
    pub source: String,
    /// Cycles a reading, over rounds.
    pub cycles: Spread,
    /// Least ns a reading.
    pub least_ns: f64,
    /// The bare RDTSC in the same rounds, cycles.
    pub rdtsc_cycles: Spread,
    /// Least of the one over least of the other.
    pub ratio: f64,
    /// Readings a round.
    pub reads: u64,
    /// Rounds.
    pub rounds: u64,
}

/// One run of all vCPUs against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Monotonic {
    /// Who made the clock.
    pub backend: Backend,
    /// How it was set up: `stable`, `unstable`, `unstable, guarded`.
    pub setting: String,
    /// The guest's clock.
    pub source: String,
    /// vCPUs that took part.
    pub vcpus: usize,
    /// Whether the page carried TSC_STABLE.
    pub stable: bool,
    /// Whether readers kept the greatest time.
    pub guarded: bool,
    /// Reads.
    pub reads: u64,
    /// Of which backward.
    pub backward: u64,
    /// The largest step back, ns.
    pub worst_ns: u64,
    /// Reads after which another vCPU had published.
    pub meetings: u64,
}

/// The guest's now against the host's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Offset {
    /// Who made the clock.
    pub backend: Backend,
    /// The provider's name.
    pub provider: String,
    /// The guest's clock.
    pub source: String,
    /// Guest less host, ns.
    pub offset_ns: Spread,
    /// What the best sample leaves open, either way, ns.
    pub bound_ns: f64,
    /// Samples.
    pub samples: u64,
}

/// What a guest sees of an absence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restore {
    /// Who made the clock.
    pub backend: Backend,
    /// `advance` or `freeze`.
    pub policy: String,
    /// The guest's clock.
    pub source: String,
    /// How long it was away, by the host's clock, s.
    pub away_s: f64,
    /// How far its clock went on over the absence, s.
    pub seen_s: f64,
    /// How far it should have, s.
    pub expected_s: f64,
    /// How often GUEST_STOPPED was seen.
    pub guest_stopped: u32,
}

/// Two pages for one VM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Which pages.
    pub page: String,
    /// Ours less the kernel's at the same TSC, ns.
    pub apart_ns: Spread,
    /// Looks at both.
    pub samples: u64,
    /// Over how long, s.
    pub seconds: f64,
}
