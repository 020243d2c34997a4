//! A run in the page: a scenario, and its guests as far as they are simulated.

use serde::Serialize;
use simulator::outcome::BANDS;
use simulator::report::{Of, SimulateReport};
use simulator::scenario::BUILT_IN;
use simulator::seed::{NoSeed, Seed};
use simulator::{Fleet, Scenario, Simulation, file};

use crate::cells::Cells;
use crate::request::{Known, PageRequest, Refused, StartedSimulation};
use crate::story::Story;

/// Guests of a run: a page holds a line of each.
const MOST_GUESTS: u64 = 10_000;

/// What the page has open.
#[derive(Debug, Default)]
pub struct PageSession(Option<SessionRun>);

/// A run.
#[derive(Debug)]
struct SessionRun {
    scenario: Scenario,
    of: Of,
    span_ns: i64,
    /// Of each discipline.
    fleets: Vec<Fleet>,
}

impl PageSession {
    /// The reply to a request: JSON, unless the request says else.
    pub fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let reply = serde_json::from_slice(request)
            .map_err(|why| Refused { refused: why.to_string(), line: None })
            .and_then(|request| self.reply(request));
        reply.unwrap_or_else(|refused| json(&refused))
    }

    fn reply(&mut self, request: PageRequest) -> Result<Vec<u8>, Refused> {
        match request {
            PageRequest::Scenarios => Ok(json(&BUILT_IN.map(|(name, text)| Known { name, text }))),
            PageRequest::Start { text, guests, days, seed } => {
                let run = SessionRun::new(&text, guests, days, seed.as_deref())?;
                Ok(json(&self.0.insert(run).started()))
            }
            PageRequest::Run { discipline, guests } => self.run()?.next(discipline, guests),
            PageRequest::Report => self.run()?.report(),
            PageRequest::Story { discipline, guest } => self.run()?.story(discipline, guest),
        }
    }

    fn run(&mut self) -> Result<&mut SessionRun, Refused> {
        self.0.as_mut().ok_or_else(|| "nothing was started".into())
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

impl SessionRun {
    fn new(
        text: &str,
        guests: Option<u64>,
        days: Option<f64>,
        seed: Option<&str>,
    ) -> Result<Self, Refused> {
        let scenario = file::read(text)?;
        let refused = |why: NoSeed| Refused { refused: why.to_string(), line: None };
        let seed = seed.map(|text| text.parse::<Seed>().map_err(refused)).transpose()?;
        let of = Of::new(&scenario, guests, days, seed.map(|seed| seed.0));
        let count = of.guests.end - of.guests.start;
        let span_ns = scenario
            .check(count, of.days)
            .map_err(|why| Refused { refused: why.to_string(), line: file::line_of(text, why) })?;
        if count > MOST_GUESTS {
            let refused = format!("{count} guests: a page holds {MOST_GUESTS}, the program more");
            return Err(Refused { refused, line: None });
        }
        let fleets = scenario.disciplines.iter().map(|_| Fleet::new()).collect();
        Ok(Self { scenario, of, span_ns, fleets })
    }

    fn started(&self) -> StartedSimulation<'_> {
        let Self { scenario, of, .. } = self;
        StartedSimulation {
            name: &scenario.name,
            about: &scenario.about,
            first: of.guests.start,
            guests: of.guests.end - of.guests.start,
            days: of.days,
            seed: Seed(of.seed).to_string(),
            right_s: scenario.limits.right_ms.0 / 1e3,
            disciplines: scenario.disciplines.iter().map(|it| it.name()).collect(),
        }
    }

    fn simulation(&self, discipline: usize) -> Result<Simulation<'_>, Refused> {
        let corrector = self.scenario.disciplines.get(discipline).ok_or("no such discipline")?;
        Ok(Simulation::new(&self.scenario, *corrector, self.of.seed, self.span_ns))
    }

    fn next(&mut self, discipline: usize, guests: u64) -> Result<Vec<u8>, Refused> {
        let mut fleet =
            std::mem::take(self.fleets.get_mut(discipline).ok_or("no such discipline")?);
        let simulation = self.simulation(discipline)?;
        let from = self.of.guests.start + fleet.guests.len() as u64;
        let mut reply = Vec::new();
        for guest in from..from.saturating_add(guests).min(self.of.guests.end) {
            let mut cells = Cells::new(self.span_ns, BANDS);
            let mut watch = |look| cells.look(look);
            simulation.guest(guest, &simulation.plan(guest), &mut fleet, Some(&mut watch));
            reply.extend(cells.into_inner().into_iter().flat_map(f32::to_le_bytes));
        }
        self.fleets[discipline] = fleet;
        Ok(reply)
    }

    fn report(&self) -> Result<Vec<u8>, Refused> {
        let fleets = self.scenario.disciplines.iter().copied().zip(&self.fleets);
        let report = SimulateReport::new(&self.scenario, &self.of, fleets);
        let text = serde_json::to_string_pretty(&report);
        text.map(|text| (text + "\n").into_bytes()).map_err(|_| "no report".into())
    }

    fn story(&self, discipline: usize, guest: u64) -> Result<Vec<u8>, Refused> {
        if !self.of.guests.contains(&guest) {
            return Err("no such guest".into());
        }
        let right_ns = self.scenario.limits.right_ms.ns();
        Ok(json(&Story::simulate(&self.simulation(discipline)?, guest, self.span_ns, right_ns)))
    }
}

#[cfg(test)]
mod tests;
