//! Fleets of the scenarios that come with the program.

use simulator::scenario::BUILT_IN;
use simulator::{Fleet, Scenario, ScenarioCorrector, Simulation};

pub(crate) fn built_in(name: &str) -> Scenario {
    let (_, text) = BUILT_IN.iter().find(|(found, _)| *found == name).unwrap();
    toml::from_str(text).unwrap()
}

pub(crate) fn simulation(
    scenario: &Scenario,
    corrector: ScenarioCorrector,
    seed: u64,
    days: f64,
) -> Simulation<'_> {
    let span_ns = scenario.check(days).unwrap();
    Simulation { scenario, corrector, seed, span_ns }
}

pub(crate) fn fleet(scenario: &Scenario, corrector: ScenarioCorrector, guests: u64) -> Fleet {
    simulation(scenario, corrector, 7, scenario.days).guests(0..guests)
}
