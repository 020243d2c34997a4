//! Which experiments, for how long, on what.

use std::time::Duration;

use host::ClockProvider;
use pvclock::Hertz;
use vmm::MachineError;

/// One of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Experiment {
    /// Guest time against host time, by provider and source.
    Drift,
    /// What each event does to the page.
    Updates,
    /// The cost of a reading inside the guest.
    Cost,
    /// Whether time goes backward between vCPUs.
    Monotonic,
    /// The guest's time against the host's.
    Offset,
    /// What a guest sees of being saved and restored.
    Restore,
    /// What a guest that counts ticks loses, by policy.
    Ticks,
    /// The kernel's page against ours, for one VM.
    Agreement,
    /// What KVM's own tests check of a clock.
    Conformance,
    /// What a lock does when its vCPUs outnumber the host's CPUs. It judges no clock, and
    /// takes as long as all that do, so it is not among [`ALL`](Self::ALL).
    Locks,
    /// What a packet costs, by how guest and host wait for it: nor is this.
    Network,
}

impl Experiment {
    /// All of them, in the order they run.
    pub const ALL: [Self; 9] = [
        Self::Conformance,
        Self::Cost,
        Self::Offset,
        Self::Monotonic,
        Self::Updates,
        Self::Restore,
        Self::Ticks,
        Self::Agreement,
        Self::Drift,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drift => "drift",
            Self::Updates => "updates",
            Self::Cost => "cost",
            Self::Monotonic => "monotonic",
            Self::Offset => "offset",
            Self::Restore => "restore",
            Self::Ticks => "ticks",
            Self::Locks => "locks",
            Self::Network => "network",
            Self::Agreement => "agreement",
            Self::Conformance => "conformance",
        }
    }
}

/// Which providers and clocks, for how long, at which advertised frequency.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Providers, for experiments that compare several.
    pub providers: Vec<ClockProvider>,
    /// Guest clocks; empty for all.
    pub sources: Vec<guest::source::Source>,
    /// vCPUs, for experiments with more than one.
    pub vcpus: usize,
    /// The TSC frequency advertised to the guest over the true one.
    pub advertised_over_true: f64,
    /// How long drift is measured.
    pub drift: Duration,
    /// Time between save and restore.
    pub downtime: Duration,
    /// Reads of the monotonic test, of all vCPUs together.
    pub monotonic_reads: u64,
    /// How long each of its rows may take where a busy host makes reads slow: after
    /// that it ends, if the reads made suffice for a verdict. `None`: as long as
    /// the reads take.
    pub monotonic_time: Option<Duration>,
    /// Rounds in which each way to wait, for a lock or a packet, has a turn.
    pub rounds: u64,
    /// How long to wait for a reply of the guest.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            providers: vec![
                ClockProvider::None,
                ClockProvider::Minimal,
                ClockProvider::Kvm,
                ClockProvider::HyperV,
            ],
            sources: Vec::new(),
            vcpus: 2,
            advertised_over_true: 1.0,
            drift: Duration::from_secs(10),
            downtime: Duration::from_secs(2),
            monotonic_reads: 10_000_000,
            monotonic_time: Some(Duration::from_secs(1)),
            rounds: 5,
            timeout: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// The frequency advertised of a TSC of this frequency.
    pub fn advertised(&self, host_tsc: Hertz) -> Hertz {
        Hertz((host_tsc.0 as f64 * self.advertised_over_true).round() as u64)
    }
}

/// Receives how far the work is.
pub trait LabProgress {
    /// What is being done, and how much of all is done, 0 to 1.
    fn step(&mut self, what: &str, done: f64);
}

/// Ignores it.
impl LabProgress for () {
    fn step(&mut self, _: &str, _: f64) {}
}

pub(crate) type Result<T = ()> = std::result::Result<T, LabError>;

/// Why an experiment cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A vCPU's TSC offset.
    #[error(transparent)]
    TscOffset(#[from] kvm::Error),
    /// Our provider refused an MSR write of its own.
    #[error("Parachron's provider refused the address of its own page: {0}")]
    Refused(host::MsrError),
    /// No sample had both clocks.
    #[error("no valid sample of the clock pages")]
    NoSamples,
    /// A clock page that cannot be read.
    #[error("vCPU {vcpu}'s time page: {error}")]
    Page {
        /// Whose.
        vcpu: usize,
        /// Why.
        error: pvclock::ReadError,
    },
}
