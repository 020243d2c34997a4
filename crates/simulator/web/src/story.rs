//! One guest's story: what happened to it, and how its clock came right again.

use serde::Serialize;
use simulator::fault::{FaultKind, Planned};
use simulator::{Fleet, Look, Simulation};

use crate::cells::Cells;

/// Cells of its line.
const CELLS: usize = 1000;

/// Steps of its clock that are told for each event.
const TOLD: usize = 3;

/// What is told of a guest.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    guest: u64,
    /// Its worst error in each thousandth of the run, s; nothing where it was away.
    line: Vec<f32>,
    events: Vec<StoryEvent>,
}

/// Something that happened, and what came of it before the next.
#[derive(Debug, Serialize)]
struct StoryEvent {
    at_s: f64,
    /// The start has no name.
    kind: Option<&'static str>,
    /// How long the guest was away, s.
    away_s: f64,
    /// The clock's error before, and as the guest goes on, s.
    before_s: f64,
    after_s: f64,
    worst_s: f64,
    /// It was off by more than is right.
    was_wrong: bool,
    /// How long after the guest went on it was right again, s.
    right_after_s: Option<f64>,
    /// The first steps of the clock by more than is right: how long after, and by how much, s.
    steps: Vec<[f64; 2]>,
    /// How many there were.
    all_steps: u64,
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl Story {
    /// Simulates the guest once more, and looks.
    pub(crate) fn simulate(
        simulation: &Simulation<'_>,
        guest: u64,
        span_ns: i64,
        right_ns: i64,
    ) -> Self {
        let mut cells = Cells::new(span_ns, CELLS);
        let mut looks: Vec<Look> = Vec::new();
        let mut watch = |look: Look| {
            cells.look(look);
            looks.push(look);
        };
        let plan: Vec<Planned> = simulation.plan(guest);
        simulation.guest(guest, &plan, &mut Fleet::new(), Some(&mut watch));
        let mut events: Vec<StoryEvent> = Vec::new();
        let mut before: Option<Look> = None;
        for look in looks {
            let begins = begins(before, look);
            if let Some(kind) = begins {
                events.push(StoryEvent::new(kind, look));
            }
            if let (Some(event), Some(before)) = (events.last_mut(), before)
                && begins.is_none()
            {
                event.goes_on(before, look, right_ns);
            }
            before = Some(look);
        }
        Self { guest, line: cells.into_inner(), events }
    }
}

/// What begins with this look: the start, a fault, a leap second.
fn begins(before: Option<Look>, look: Look) -> Option<Option<&'static str>> {
    let Some(before) = before else { return Some(None) };
    let utc_since = |it: Look| it.utc_ns - it.at_ns;
    if utc_since(look) != utc_since(before) && look.at_ns >= before.at_ns {
        return Some(Some("leap-second"));
    }
    look.happens.map(|kind: FaultKind| Some(kind.name()))
}

impl StoryEvent {
    fn new(kind: Option<&'static str>, look: Look) -> Self {
        let (at_s, error_s) = (seconds(look.at_ns), seconds(look.error_ns));
        Self {
            at_s,
            kind,
            away_s: 0.0,
            before_s: error_s,
            after_s: error_s,
            worst_s: 0.0,
            was_wrong: false,
            right_after_s: None,
            steps: Vec::new(),
            all_steps: 0,
        }
    }

    /// The next look, while nothing else happens.
    fn goes_on(&mut self, before: Look, look: Look, right_ns: i64) {
        let (at_s, error_s) = (seconds(look.at_ns), seconds(look.error_ns));
        if before.happens.is_some() {
            (self.away_s, self.after_s) = ((at_s - self.at_s).max(0.0), error_s);
        } else if look.at_ns == before.at_ns {
            let by_ns = look.error_ns.saturating_sub(before.error_ns);
            // What is less than right needs no story: a slew that begins moves a clock by 1 ns.
            if by_ns.saturating_abs() > right_ns {
                self.all_steps += 1;
                if self.steps.len() < TOLD {
                    self.steps.push([at_s - self.at_s - self.away_s, seconds(by_ns)]);
                }
            }
        }
        if error_s.abs() > self.worst_s.abs() {
            self.worst_s = error_s;
        }
        let is_right = look.error_ns.saturating_abs() <= right_ns;
        self.was_wrong |= !is_right;
        if self.was_wrong && is_right && self.right_after_s.is_none() {
            self.right_after_s = Some(at_s - self.at_s - self.away_s);
        }
    }
}
