//! The rows that the experiments find, in plain units.

use instruments::measurements::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackendName {
    /// The kernel's KVM.
    Kernel,
    /// Our provider.
    Own,
}

impl BackendName {
    /// `kernel`, or the name of our provider.
    pub const fn label(self, provider: &str) -> &str {
        match self {
            Self::Kernel => "kernel",
            Self::Own => provider,
        }
    }
}

/// One clock's drift.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftRow {
    /// Who made the clock.
    pub backend: BackendName,
    /// The provider's name.
    pub provider: String,
    /// The guest's clock.
    pub source: String,
    /// The TSC frequency the guest uses, advertised or measured by itself, Hz.
    pub guest_tsc_hz: u64,
    /// Time that passed by the host's clock, s.
    pub host_s: f64,
    /// Time that passed by the guest's clock, s.
    pub guest_s: f64,
    /// What the guest's clock counts in 300 s of the host's, s.
    pub per_300_s: f64,
    /// How much too fast the guest's clock runs, ppm.
    pub drift_ppm: f64,
    /// By how much it should, at the advertised frequency, ppm.
    pub theory_ppm: f64,
    /// The bound of reading both clocks, ppm.
    pub uncertainty_ppm: f64,
    /// Guest minus host over time: s since the start, then ms.
    pub track: Vec<(f64, f64)>,
}

impl DriftRow {
    /// By how much the clock misses theory, ppm.
    pub fn error_ppm(&self) -> f64 {
        self.drift_ppm - self.theory_ppm
    }
}

/// One event and what it did to one vCPU's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    /// What was caused.
    pub event: String,
    /// Who made the clock.
    pub backend: BackendName,
    /// Whose page.
    pub vcpu: usize,
    /// The page's version before and after.
    pub version: (u32, u32),
    /// The step in time: the new page's minus the old page's, at the new page's
    /// TSC, ns.
    pub step_ns: i64,
    /// Flags before and after.
    pub flags: (u8, u8),
    /// Why the event could not be caused here, if so.
    pub not_caused: Option<String>,
}

/// The cost of one clock in the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    /// Who made the clock.
    pub backend: BackendName,
    /// The provider's name.
    pub provider: String,
    /// The guest's clock.
    pub source: String,
    /// Cycles a reading, over rounds.
    pub cycles: Spread,
    /// Least of a reading, ns.
    pub least_ns: f64,
    /// A bare RDTSC in the same rounds, cycles.
    pub rdtsc_cycles: Spread,
    /// Least of the clock over least of RDTSC.
    pub ratio: f64,
    /// Readings a round.
    pub reads: u64,
    /// Rounds.
    pub rounds: u64,
}

impl CostRow {
    /// A reading over rounds, ns.
    pub fn ns(&self) -> Spread {
        self.cycles.scaled(self.least_ns / self.cycles.min)
    }
}

/// One run of all vCPUs against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Monotonic {
    /// Who made the clock.
    pub backend: BackendName,
    /// How it was set up: `stable`, `unstable`, `unstable, guarded`.
    pub setting: String,
    /// The guest's clock.
    pub source: String,
    /// vCPUs that took part.
    pub vcpus: usize,
    /// Whether the page carried TSC_STABLE.
    pub stable: bool,
    /// Whether readers return the greatest time that any has published.
    pub guarded: bool,
    /// Reads.
    pub reads: u64,
    /// Reads below a time published before they began.
    pub backward: u64,
    /// The largest step back, ns.
    pub worst_ns: u64,
    /// Reads directly after another vCPU's.
    pub interleaved: u64,
}

/// The guest's time against the host's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OffsetRow {
    /// Who made the clock.
    pub backend: BackendName,
    /// The provider's name.
    pub provider: String,
    /// The guest's clock.
    pub source: String,
    /// Guest minus host, ns.
    pub offset_ns: Spread,
    /// The bound of the best sample, either way, ns.
    pub bound_ns: f64,
    /// Samples.
    pub samples: u64,
}

/// What a guest sees of one save and restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restore {
    /// Who made the clock.
    pub backend: BackendName,
    /// `advance` or `freeze`.
    pub policy: String,
    /// The guest's clock.
    pub source: String,
    /// Time from save to restore by the host's clock, s.
    pub downtime_s: f64,
    /// How far its clock advanced over it, s.
    pub seen_s: f64,
    /// How far it should have, s.
    pub expected_s: f64,
    /// By how much the two may differ: the computed step and the width of both
    /// readings, s.
    pub bound_s: f64,
    /// How often the guest saw GUEST_STOPPED.
    pub guest_stopped: u32,
}

impl Restore {
    /// How far the clock is from where it should be, s.
    pub fn error_s(&self) -> f64 {
        self.seen_s - self.expected_s
    }
}

/// Ticks of a periodic timer whose vCPU was held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TicksRow {
    /// What becomes of missed ticks: `delay`, `catch up`, `merge`, `discard`.
    pub policy: String,
    /// Without a guest: the timer by numbers, as the hold is long.
    pub simulated: bool,
    /// The timer's period, s.
    pub period_s: f64,
    /// How long the vCPU was held, s.
    pub held_s: f64,
    /// How long ticks were counted, by the guest's TSC, s.
    pub counted_s: f64,
    /// Ticks that came due in that time.
    pub owed: u64,
    /// Ticks that the guest counted.
    pub given: u64,
    /// The longest span without a tick, s.
    pub longest_s: f64,
    /// How far a guest that counts them is behind, s.
    pub behind_s: f64,
}

/// One boot of a stock kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stock {
    /// Who made the clock.
    pub backend: BackendName,
    /// The provider's name.
    pub provider: String,
    /// The kernel's release.
    pub kernel: String,
    /// vCPUs.
    pub vcpus: usize,
    /// The clock source it took.
    pub clocksource: String,
    /// Those it had.
    pub available: Vec<String>,
    /// From the machine's start to the report of its first program, s.
    pub took_s: f64,
    /// Its time of day less the host's, ns.
    pub offset_ns: Option<f64>,
    /// The bound of reading both, ns.
    pub bound_ns: f64,
    /// How much faster its CLOCK_MONOTONIC_RAW is than the host's, ppm.
    pub rate_ppm: Option<f64>,
    /// The kernel's PTP clock of the VMClock less the host's time, ns; the furthest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmclock_offset_ns: Option<f64>,
    /// The bound of that: the page's own, and that of reading both, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmclock_bound_ns: Option<f64>,
    /// What the doctor found inside: severity and rule.
    pub findings: Vec<String>,
    /// Lines of the kernel's log about clocks.
    pub log: Vec<String>,
    /// Its restores in other processes, where it was saved.
    pub moved: Vec<MovedRow>,
}

/// A stock kernel saved, and restored in another process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedRow {
    /// How it came there.
    pub way: String,
    /// The policy of its clocks.
    pub policy: String,
    /// By how much more than this host's rate the saving host's was told to be, ppm.
    pub told_ppm: i32,
    /// Real time between save and restore, s.
    pub away_s: f64,
    /// What each clock did.
    pub clocks: Vec<MovedClock>,
    /// The first firing of a timer of each clock since.
    pub timers: Vec<MovedTimer>,
    /// Why it was not restored.
    pub refused: Option<String>,
}

/// One clock of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedClock {
    /// CLOCK_MONOTONIC, …, or TSC.
    pub clock: String,
    /// By how much it went on while it was away, s.
    pub passed_s: f64,
    /// By how much it had to, by the policy and the host's clocks, s.
    pub expected_s: f64,
    /// How far it may be off, s.
    pub bound_s: f64,
}

impl MovedClock {
    /// What it missed its policy by, ns.
    pub fn error_ns(&self) -> f64 {
        (self.passed_s - self.expected_s) * 1e9
    }
}

/// One timer of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedTimer {
    /// Its clock.
    pub clock: String,
    /// How late it fired, by that clock, s.
    pub late_s: f64,
    /// How far its clock had gone past it when it was restored, s.
    pub owed_s: f64,
}

/// Two pages for one VM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Which pages.
    pub page: String,
    /// Our page minus the kernel's at the same TSC, ns.
    pub difference_ns: Spread,
    /// Samples of both.
    pub samples: u64,
    /// Time compared, s.
    pub seconds: f64,
}

impl Agreement {
    /// The largest difference, either way, ns.
    pub fn worst_ns(&self) -> f64 {
        self.difference_ns.max.abs().max(self.difference_ns.min.abs())
    }
}
