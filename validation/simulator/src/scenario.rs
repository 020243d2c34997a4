//! What is simulated: hosts, guests, servers, and what happens to them. As a
//! file it is TOML, with the names of the fields; what is left out has its
//! default, what is unknown is refused.

use serde::Deserialize;

use crate::fault::{Fault, FaultKind, Planned};
use crate::oscillator::Noise;
use crate::quantity::{Day, Millis, Offset, PollInterval, Seconds, Share, StartS, TickHz};

pub use crate::limits::{Limited, Limits};

/// Servers of one guest.
pub(crate) const MOST_SERVERS: usize = 8;

/// Guests of one run: more would take some 200 bytes each of memory, and months.
pub const MOST_GUESTS: u64 = 10_000_000;

/// Days of one run.
pub const MOST_DAYS: f64 = 366.0;

/// The scenarios that come with the program: name and text.
pub const BUILT_IN: [(&str, &str); 10] = [
    ("migration-night", include_str!("../scenarios/migration-night.toml")),
    ("snapshot-farm", include_str!("../scenarios/snapshot-farm.toml")),
    ("laptop", include_str!("../scenarios/laptop.toml")),
    ("wrong-frequency", include_str!("../scenarios/wrong-frequency.toml")),
    ("busy-host", include_str!("../scenarios/busy-host.toml")),
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
    pub start_s: StartS,
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
    pub poll_s: PollInterval,
    /// A second is inserted at the end of this day of the run, from 1.
    #[serde(default)]
    pub leap_after_day: Option<Day>,
    /// The guests.
    #[serde(default)]
    pub guest: ScenarioGuest,
    /// The hosts.
    #[serde(default)]
    pub host: ScenarioHost,
    /// The servers that each guest asks.
    #[serde(default, rename = "server")]
    pub servers: Vec<ScenarioServer>,
    /// What happens, by chance.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// What happens, to the ns. Faults do not happen beside it.
    #[serde(default, rename = "event")]
    pub events: Vec<Planned>,
    /// What must hold beside the promises of the code inside.
    #[serde(default)]
    pub limits: Limits,
}

const fn start() -> StartS {
    // 1 June 2026, noon.
    StartS(1_780_315_200)
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

const fn poll() -> PollInterval {
    PollInterval(64)
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

/// What is the same for all guests.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioGuest {
    /// What its kernel counts.
    pub counter: CounterModel,
    /// Ticks a second: 100 to 1000.
    pub tick_hz: TickHz,
    /// How wrong the clock is at the start: deviation, s.
    pub starts_off_s: Seconds,
}

impl Default for ScenarioGuest {
    fn default() -> Self {
        Self { counter: CounterModel::KvmClock, tick_hz: TickHz(250), starts_off_s: Seconds(0.0) }
    }
}

/// What a guest's kernel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterModel {
    /// The page of the host.
    KvmClock,
    /// The TSC.
    Tsc,
    /// The interrupts of its timer; one that is dropped is time lost.
    Ticks,
}

/// What is the same for all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioHost {
    /// Their oscillators.
    pub oscillator: Noise,
    /// Their wall clocks' error: deviation, ms.
    pub clock_error_ms: Millis,
    /// Their TSCs can be scaled.
    pub scales_tsc: bool,
    /// Guests may read the host's time.
    pub offers_time: bool,
    /// The host tells it in a VMClock page.
    pub vmclock: bool,
}

impl Default for ScenarioHost {
    fn default() -> Self {
        Self {
            oscillator: Noise::default(),
            clock_error_ms: Millis(0.2),
            scales_tsc: true,
            offers_time: false,
            vmclock: false,
        }
    }
}

/// An NTP server, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioServer {
    /// There and back with empty queues, ms.
    pub delay_ms: Millis,
    /// Mean wait in queues, each way, ms.
    pub jitter_ms: Millis,
    /// The share of the delay on the way there.
    pub there: Share,
    /// Requests without a reply.
    pub loss: Share,
    /// Its root distance, ms, which it is right within.
    pub root_ms: Millis,
    /// By how much it lies, s.
    pub lies_s: Offset,
    /// It spreads a leap second over the day around it.
    pub smears: bool,
}

impl Default for ScenarioServer {
    fn default() -> Self {
        Self {
            delay_ms: Millis(10.0),
            jitter_ms: Millis(0.3),
            there: Share(0.5),
            loss: Share(0.001),
            root_ms: Millis(1.0),
            lies_s: Offset(0.0),
            smears: false,
        }
    }
}

impl Scenario {
    /// The span of a run of so many days, ns.
    ///
    /// # Errors
    /// What cannot be simulated, and why.
    pub fn check(&self, guests: u64, days: f64) -> Result<i64, Impossible> {
        if guests == 0 || guests > MOST_GUESTS {
            return Err(Impossible::Guests(guests));
        }
        if !(days > 0.0 && days <= MOST_DAYS) {
            return Err(Impossible::Days(days));
        }
        if self.servers.len() > MOST_SERVERS {
            return Err(Impossible::Servers(self.servers.len()));
        }
        if self.disciplines.is_empty() {
            return Err(Impossible::NoDiscipline);
        }
        let is_none = |server: u32| server as usize >= self.servers.len();
        for (index, fault) in self.faults.iter().enumerate() {
            if fault.length_s[0] > fault.length_s[1] {
                let [from, to] = fault.length_s.map(|length| length.0);
                return Err(Impossible::Length(index, from, to));
            }
            if fault.per_day.is_none() && fault.at_s.is_none() {
                return Err(Impossible::Never(index));
            }
            let lies = fault.kind == FaultKind::ServerLies;
            let server = fault.server.or(lies.then_some(0));
            if let Some(server) = server.filter(|server| is_none(*server)) {
                return Err(Impossible::NoServer(ScenarioTable::Fault, index, server));
            }
        }
        for (index, event) in self.events.iter().enumerate() {
            if event.kind == FaultKind::ServerLies && is_none(event.server) {
                return Err(Impossible::NoServer(ScenarioTable::Event, index, event.server));
            }
        }
        Ok((days * 86_400e9) as i64)
    }
}

/// A table of a scenario's file that has many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenarioTable {
    /// `[[fault]]`
    Fault,
    /// `[[event]]`
    Event,
}

/// A scenario that cannot be simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Impossible {
    /// Not from 1 to [`MOST_GUESTS`].
    Guests(u64),
    /// Not more than 0 and up to [`MOST_DAYS`].
    Days(f64),
    /// More servers than there is room for.
    Servers(usize),
    /// No `disciplines`.
    NoDiscipline,
    /// The fault of this place in the list has a range of lengths whose end is
    /// before its start.
    Length(usize, f64, f64),
    /// The fault of this place has no time.
    Never(usize),
    /// What is at this place of the table is of a server that is not in the list.
    NoServer(ScenarioTable, usize, u32),
}

impl core::fmt::Display for Impossible {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Guests(guests) => write!(to, "a fleet of {guests} guests cannot be simulated"),
            Self::Days(days) => write!(to, "{days} days cannot be simulated"),
            Self::Servers(count) => write!(to, "{count} servers are more than a guest asks"),
            Self::NoDiscipline => to.write_str("`disciplines` is empty"),
            Self::Length(_, from, most) => {
                write!(to, "a fault's length_s is from {from} to {most} s")
            }
            Self::Never(_) => {
                to.write_str("a fault has neither per_day nor at_s, and would never happen")
            }
            Self::NoServer(_, _, server) => {
                write!(to, "something happens to server {server}, and there are fewer")
            }
        }
    }
}

impl core::error::Error for Impossible {}
