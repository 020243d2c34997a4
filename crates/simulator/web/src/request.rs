//! What the page asks, and what it is told, as JSON.

use serde::{Deserialize, Serialize};
use simulator::file::Unreadable;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum PageRequest {
    /// The scenarios that come with it.
    Scenarios,
    /// A new run, of this scenario's text; what is left out is as the scenario says.
    Start {
        text: String,
        guests: Option<u64>,
        days: Option<f64>,
        /// As people tell it ([`simulator::seed`]): a number of JavaScript has 53 bits.
        seed: Option<String>,
    },
    /// The next guests under the discipline of this place in the list. The reply is no
    /// JSON: the worst error in each of [`simulator::outcome::BANDS`] parts of the run
    /// for each guest, s, as little-endian f32, and NaN where it was away.
    Run { discipline: usize, guests: u64 },
    /// The report, as `parachron simulate --format json` prints it.
    Report,
    /// What happened to this guest.
    Story { discipline: usize, guest: u64 },
}

/// A scenario that comes with the program.
#[derive(Debug, Serialize)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// A run that began.
#[derive(Debug, Serialize)]
pub(crate) struct StartedSimulation<'s> {
    pub(crate) name: &'s str,
    pub(crate) about: &'s str,
    /// The first guest's number, and how many there are.
    pub(crate) first: u64,
    pub(crate) guests: u64,
    pub(crate) days: f64,
    pub(crate) seed: String,
    pub(crate) right_s: f64,
    pub(crate) disciplines: Vec<&'static str>,
}

/// A request that cannot be answered.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    pub(crate) refused: String,
    /// The scenario's line.
    pub(crate) line: Option<usize>,
}

impl From<Unreadable> for Refused {
    fn from(Unreadable { line, why }: Unreadable) -> Self {
        Self { refused: why, line: Some(line) }
    }
}

impl From<&str> for Refused {
    fn from(why: &str) -> Self {
        Self { refused: why.into(), line: None }
    }
}
