//! Which experiments, for how long, on what.

use std::time::Duration;

use host::Kind;
use pvclock::Hertz;
use vmm::MachineError;

/// One of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Experiment {
    /// Guest time against host time, by provider and source.
    Drift,
    /// What each event does to the page.
    Updates,
    /// What a reading costs inside the guest.
    Cost,
    /// Whether time goes backward between vCPUs.
    Monotonic,
    /// The guest's now against the host's.
    Offset,
    /// What a guest sees of having been saved and restored.
    Restore,
    /// The kernel's page against ours, for one VM.
    Agreement,
    /// What KVM's own tests ask of a clock.
    Conformance,
}

impl Experiment {
    /// All of them, in the order they run.
    pub const ALL: [Self; 8] = [
        Self::Conformance,
        Self::Cost,
        Self::Offset,
        Self::Monotonic,
        Self::Updates,
        Self::Restore,
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
            Self::Agreement => "agreement",
            Self::Conformance => "conformance",
        }
    }
}

/// Which providers, for how long, with what told.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Providers to try, where an experiment tries several.
    pub providers: Vec<Kind>,
    /// Guest clocks to try; empty for all there are.
    pub sources: Vec<guest::source::Source>,
    /// vCPUs, where an experiment has more than one.
    pub vcpus: usize,
    /// The TSC frequency to tell the guest over the true one: 1 tells the truth.
    pub told_over_true: f64,
    /// How long drift is measured.
    pub drift: Duration,
    /// How long a saved machine is left alone.
    pub away: Duration,
    /// Reads of the monotonic test, of all vCPUs together.
    pub monotonic_reads: u64,
    /// How long a guest's answer is waited for.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            providers: vec![Kind::None, Kind::Minimal, Kind::Kvm, Kind::HyperV],
            sources: Vec::new(),
            vcpus: 2,
            told_over_true: 1.0,
            drift: Duration::from_secs(10),
            away: Duration::from_secs(2),
            monotonic_reads: 10_000_000,
            patience: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// What the guest is told of a TSC of this rate.
    pub fn told(&self, host_tsc: Hertz) -> Hertz {
        Hertz((host_tsc.0 as f64 * self.told_over_true).round() as u64)
    }
}

/// How far an experiment is, to be shown or dropped.
pub trait Progress {
    /// It does this now, and is this far (0 to 1).
    fn step(&mut self, what: &str, done: f64);
}

/// Nobody wants to know.
impl Progress for () {
    fn step(&mut self, _: &str, _: f64) {}
}

/// What keeps an experiment from being made.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A vCPU's TSC offset.
    #[error(transparent)]
    TscOffset(#[from] kvm::Error),
    /// The host's clocks gave no TSC rate.
    #[error("the rate of this host's TSC could not be measured: {first:?}, {last:?}")]
    NoTscRate {
        /// At the beginning.
        first: instruments::rate::Pair,
        /// At the end.
        last: instruments::rate::Pair,
    },
    /// It is about what a virtual machine does.
    #[error("it is about virtual machines, and needs /dev/kvm")]
    NeedsKvm,
    /// Our provider refused what a guest may ask.
    #[error("the provider refuses its own page: {0}")]
    Refused(host::MsrError),
    /// Not one look showed both clocks.
    #[error("no look at the pages showed a time")]
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
