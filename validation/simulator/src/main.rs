//! `simulator SCENARIO [GUESTS [SEED]]`: what becomes of a fleet's clocks, with each discipline
//! of the scenario, which is a built-in one or a file.

use std::error::Error;
use std::process::ExitCode;

use simulator::scenario::BUILT_IN;
use simulator::{Fleet, Scenario, Simulation};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for (name, _) in BUILT_IN {
            println!("{name}");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let text = match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (*text).to_owned(),
        None => std::fs::read_to_string(&name)?,
    };
    let scenario: Scenario = toml::from_str(&text)?;
    let guests = arguments.next().map_or(Ok(scenario.guests), |guests| guests.parse())?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let span_ns = scenario.check(scenario.days)?;
    let mut is_kept = true;
    for corrector in &scenario.disciplines {
        let run = Simulation { scenario: &scenario, corrector: *corrector, seed, span_ns };
        let fleet = run.guests(0..guests);
        println!("{}: {}", corrector.name(), summary(&fleet));
        for outcome in fleet.broken() {
            is_kept = false;
            println!("guest {}: {:?}", outcome.guest, outcome.violation);
        }
    }
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summary(fleet: &Fleet) -> String {
    let [ms, ms_100, s] = fleet.ever_off();
    let slowest_ns = fleet.guests.iter().map(|guest| guest.slowest_ns).max().unwrap_or(0);
    let recovered: u64 = fleet.guests.iter().map(|guest| guest.recovered).sum();
    let never_right: u64 = fleet.guests.iter().map(|guest| guest.never_right).sum();
    format!(
        "ever off by 1 ms, 100 ms, 1 s: {ms}, {ms_100}, {s} guests; right again after {recovered} \
         faults, not after {never_right}; all within {:.3} s; digest {:016x}",
        slowest_ns as f64 / 1e9,
        fleet.digest()
    )
}
