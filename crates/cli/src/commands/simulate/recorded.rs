//! Looks at the guests' clocks as comparisons with UTC, for `drift` and others.

use std::path::Path;

use instruments::drift::{DriftReading, Nesting, Span};
use records::{Record, Recorder};
use simulator::{Fleet, ScenarioCorrector, Simulation};

use super::Fleets;
use crate::error::CliError;

/// Simulates the guests again, and writes each look.
pub(super) fn write<'s>(
    path: &Path,
    done: &Fleets,
    simulation: impl Fn(ScenarioCorrector) -> Simulation<'s>,
) -> Result<(), CliError> {
    let failed = |error: records::Error| CliError::Failed {
        cause: error.to_string(),
        remedy: "pass --records with a new .csv, .jsonl or .parquet file, on a disk with room"
            .into(),
    };
    let mut recorder = Recorder::create(path).map_err(failed)?;
    for one in done {
        let simulation = simulation(one.corrector);
        for guest in &one.fleet.guests {
            let reference = format!("utc:{}:guest-{}", one.corrector.name(), guest.guest);
            let mut looks = Vec::new();
            let mut watch = |look: simulator::Look| {
                let ns = |ns: i64| u64::try_from(ns).unwrap_or(0);
                let clock = Span::instant(ns(look.utc_ns.saturating_add(look.error_ns)));
                let reference_span = Span::instant(ns(look.utc_ns));
                let nesting = Nesting::ReferenceOutside;
                let reading = DriftReading { clock, reference: reference_span, nesting };
                looks.push(Record::new("simulated", &reference, "realtime", reading));
            };
            let plan = simulation.plan(guest.guest);
            simulation.guest(guest.guest, &plan, &mut Fleet::new(), Some(&mut watch));
            recorder.write(&looks).map_err(failed)?;
        }
    }
    recorder.finish().map_err(failed)
}
