//! Which guest of which fleet.

use crate::scenario::{Scenario, ScenarioCorrector};

/// A run of one guest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulationRun<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) corrector: ScenarioCorrector,
    pub(crate) seed: u64,
    pub(crate) guest: u64,
    pub(crate) span_ns: i64,
}
