//! What this part has found.

use super::effects::Effect;
use crate::checks::Check;
use crate::outcome::Unavailable;

/// The results of this part.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The checks.
    pub(crate) checks: Vec<Check>,
    /// How each disruption changes the clocks.
    pub(crate) effects: Vec<Effect>,
    /// What could not run on this machine.
    pub(crate) skipped: Vec<Unavailable>,
}

impl Findings {
    /// A sequence that stopped with an error is a failed check.
    pub(super) fn finish(&mut self, what: &str, done: Result<(), String>) {
        if let Err(found) = done {
            let what = format!("{what}: completes all disruptions");
            self.checks.push(Check { what, found, passed: false });
        }
    }
}
