//! What is simulated: hosts, guests, servers, and what happens to them. As a
//! file it is TOML, with the names of the fields; what is left out has its
//! default, what is unknown is refused. Figures are taken as they are.

use serde::Deserialize;

use crate::fault::{Fault, FaultKind};
use crate::oscillator::Noise;

/// Servers of one guest.
pub(crate) const MOST_SERVERS: usize = 8;

/// Days of one run.
pub const MOST_DAYS: f64 = 366.0;

/// The scenarios that come with the program: name and text.
pub const BUILT_IN: [(&str, &str); 9] = [
    ("migration-night", include_str!("../scenarios/migration-night.toml")),
    ("snapshot-farm", include_str!("../scenarios/snapshot-farm.toml")),
    ("laptop", include_str!("../scenarios/laptop.toml")),
    ("wrong-frequency", include_str!("../scenarios/wrong-frequency.toml")),
    ("leap-second", include_str!("../scenarios/leap-second.toml")),
    ("bad-ntp", include_str!("../scenarios/bad-ntp.toml")),
    ("cloud-a-to-b", include_str!("../scenarios/cloud-a-to-b.toml")),
    ("compare-keepers", include_str!("../scenarios/compare-keepers.toml")),
    ("every-fault", include_str!("../scenarios/every-fault.toml")),
];

/// A scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, in a line.
    #[serde(default)]
    pub about: String,
    /// When it starts, s since 1970.
    #[serde(default = "start")]
    pub start_s: u64,
    /// How many guests, unless the caller says.
    #[serde(default = "guests")]
    pub guests: u64,
    /// How many days, unless the caller says.
    #[serde(default = "days")]
    pub days: f64,
    /// What corrects the clocks: several are compared on the same fleet.
    #[serde(default = "disciplines")]
    pub disciplines: Vec<ScenarioCorrector>,
    /// Time between two requests to a server, s: 16 at least.
    #[serde(default = "poll")]
    pub poll_s: u64,
    /// A second is inserted at the end of this day of the run, from 1.
    #[serde(default)]
    pub leap_after_day: Option<u32>,
    /// What the guests' kernels count.
    #[serde(default)]
    pub counter: CounterModel,
    /// The hosts.
    #[serde(default)]
    pub host: ScenarioHost,
    /// The servers that each guest asks.
    #[serde(default, rename = "server")]
    pub servers: Vec<ScenarioServer>,
    /// What happens, by chance.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// What must hold beside the promises of the code inside.
    #[serde(default)]
    pub limits: Limits,
}

const fn start() -> u64 {
    // 1 June 2026, noon.
    1_780_315_200
}

const fn guests() -> u64 {
    1000
}

const fn days() -> f64 {
    1.0
}

fn disciplines() -> Vec<ScenarioCorrector> {
    vec![ScenarioCorrector::Keeper]
}

const fn poll() -> u64 {
    64
}

/// What corrects a guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioCorrector {
    /// Nothing.
    None,
    /// `parachron keep`, alone.
    Keeper,
}

impl ScenarioCorrector {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Keeper => "keeper",
        }
    }
}

/// What a guest's kernel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum CounterModel {
    /// The page of the host.
    #[default]
    KvmClock,
    /// The TSC.
    Tsc,
}

/// What is the same for all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioHost {
    /// Their oscillators.
    pub oscillator: Noise,
    /// Their wall clocks' error: deviation, ms.
    pub clock_error_ms: f64,
    /// Their TSCs can be scaled.
    pub scales_tsc: bool,
    /// The host tells it in a VMClock page.
    pub vmclock: bool,
}

impl Default for ScenarioHost {
    fn default() -> Self {
        Self { oscillator: Noise::default(), clock_error_ms: 0.2, scales_tsc: true, vmclock: false }
    }
}

/// An NTP server, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioServer {
    /// There and back with empty queues, ms.
    pub delay_ms: f64,
    /// Mean wait in queues, each way, ms.
    pub jitter_ms: f64,
    /// The share of the delay on the way there.
    pub there: f64,
    /// Requests without a reply.
    pub loss: f64,
    /// Its root distance, ms, which it is right within.
    pub root_ms: f64,
    /// By how much it lies, s.
    pub lies_s: f64,
    /// It spreads a leap second over the day around it.
    pub smears: bool,
}

impl Default for ScenarioServer {
    fn default() -> Self {
        Self {
            delay_ms: 10.0,
            jitter_ms: 0.3,
            there: 0.5,
            loss: 0.001,
            root_ms: 1.0,
            lies_s: 0.0,
            smears: false,
        }
    }
}

/// What must hold under the keeper, beside the promises of the code inside.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A clock that is off by no more is right, ms. The keeper leaves what lies
    /// within twice the servers' bounds, of which half the way is part.
    pub right_ms: f64,
    /// It is right again so long after a fault, s; not checked where that is left
    /// out.
    pub recovery_s: Option<f64>,
    /// It is never off by more, s.
    pub error_s: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { right_ms: 15.0, recovery_s: None, error_s: None }
    }
}

/// Seconds in whole ns.
pub(crate) fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

impl Scenario {
    /// The span of a run of so many days, ns.
    ///
    /// # Errors
    /// What cannot be simulated, and why.
    pub fn check(&self, days: f64) -> Result<i64, String> {
        if !(days > 0.0 && days <= MOST_DAYS) {
            return Err(format!("{days} days: expected up to {MOST_DAYS}"));
        }
        if self.servers.len() > MOST_SERVERS {
            return Err(format!("more than {MOST_SERVERS} servers"));
        }
        for fault in &self.faults {
            if fault.per_day.is_none() && fault.at_s.is_none() {
                return Err(format!("{:?} has neither per_day nor at_s", fault.kind));
            }
            let lies = fault.kind == FaultKind::ServerLies;
            if lies && fault.server as usize >= self.servers.len() {
                return Err(format!("server {} lies, and there are fewer", fault.server));
            }
        }
        Ok(ns(days * 86_400.0))
    }
}
