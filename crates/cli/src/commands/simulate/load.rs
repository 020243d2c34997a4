//! Scenarios, from files and from the program.

use std::io::Read;

use simulator::report::Of;
use simulator::scenario::BUILT_IN;
use simulator::seed::Seed;
use simulator::{Scenario, ScenarioCorrector, Simulation, file, replay, shrink};

use super::Fleets;
use crate::error::CliError;

/// A longer file is no scenario.
const MOST_BYTES: u64 = 1 << 20;

/// Those that come with the program.
pub(super) fn built_in() -> Result<Vec<Scenario>, CliError> {
    BUILT_IN.iter().map(|(name, text)| parse(name, text)).collect()
}

/// The scenario of this name or file, and its text.
pub(super) fn scenario(name: &str) -> Result<(Scenario, String), CliError> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok((parse(name, text)?, (*text).to_owned()));
    }
    let mut text = String::new();
    let read = std::fs::File::open(name)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 <= MOST_BYTES => Ok((parse(name, &text)?, text)),
        Ok(_) => Err(CliError::Failed {
            cause: format!("{name} has more than {MOST_BYTES} bytes, too many for a scenario"),
            remedy: "name the file of a scenario; `parachron simulate` lists the built-in ones"
                .into(),
        }),
        Err(error) => {
            let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            Err(CliError::Failed {
                cause: format!("cannot read the scenario {name}: {error}"),
                remedy: format!("name a file, or one of {}", known.join(", ")),
            })
        }
    }
}

fn parse(name: &str, text: &str) -> Result<Scenario, CliError> {
    file::read(text).map_err(|file::Unreadable { line, why }| CliError::Failed {
        cause: format!("{name}:{line}: {why}"),
        remedy: "run `parachron simulate migration-night --print` to see a scenario; \
                 docs/guide/simulate.md describes each key"
            .into(),
    })
}

/// The scenario in which only what breaks the first broken promise happens.
pub(super) fn shrunk<'s>(
    scenario: &Scenario,
    of: &Of,
    done: &Fleets,
    simulation: impl Fn(ScenarioCorrector) -> Simulation<'s>,
) -> Result<String, CliError> {
    let broken = done.iter().find_map(|one| Some((one, one.fleet.broken().next()?)));
    let Some((one, outcome)) = broken else { return Ok(String::new()) };
    let Some(violation) = outcome.violation else { return Ok(String::new()) };
    let events = shrink(&simulation(one.corrector), outcome.guest, violation.promise);
    let mut smaller = replay(scenario, outcome.guest, of.seed, events);
    (smaller.disciplines, smaller.days) = (vec![one.corrector], of.days);
    let promise = violation.promise.name();
    let text = toml::to_string(&smaller).map_err(|error| CliError::Failed {
        cause: format!("cannot serialise the scenario: {error}"),
        remedy: "report this bug".into(),
    })?;
    Ok(format!(
        "# Guest {} of seed {} breaks the promise {promise} at {:.3} s: {:.6} s, at most {:.6} s.\n{text}",
        outcome.guest,
        Seed(of.seed),
        violation.at_ns as f64 / 1e9,
        violation.seen_ns as f64 / 1e9,
        violation.allowed_ns as f64 / 1e9,
    ))
}
