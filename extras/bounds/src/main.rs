//! How wide the bound of `parachron keep` is beside that of ClockBound's algorithm, on the same
//! exchanges, and how often each does not hold: nine traces, each made from its seed.
//!
//! `cargo run` prints the table. The exit code is 1 where a bar is missed: keep's median bound is at
//! most 1.2 times ClockBound's on the quiet trace, and its bound holds at every second of every
//! trace.

mod clockbound;
mod kept;
mod trace;
mod world;

use std::process::ExitCode;

use clockbound::ClockBound;
use kept::Kept;
use trace::{Event, TRACES, Trace};
use world::World;

const S: u64 = 1_000_000_000;

/// The most that keep's median bound may be of ClockBound's, quiet.
const BAR: f64 = 1.2;

/// One daemon's bounds in a trace.
#[derive(Default)]
struct Tally {
    /// ns.
    bounds: Vec<u64>,
    violated: u64,
    unbounded: u64,
    farthest_ns: u64,
}

impl Tally {
    fn look(&mut self, known: Option<(u64, u64)>) {
        let Some((error_ns, bound_ns)) = known else { return self.unbounded += 1 };
        self.bounds.push(bound_ns);
        if error_ns > bound_ns {
            self.violated += 1;
            self.farthest_ns = self.farthest_ns.max(error_ns - bound_ns);
        }
    }

    fn median_ns(&mut self) -> f64 {
        self.bounds.sort_unstable();
        self.bounds.get(self.bounds.len() / 2).map_or(f64::NAN, |bound_ns| *bound_ns as f64)
    }

    fn shown(&mut self) -> String {
        let median_ms = self.median_ns() / 1e6;
        let Self { violated, unbounded, farthest_ns, .. } = self;
        let by = if *violated > 0 {
            format!(" by up to {:.3} ms", *farthest_ns as f64 / 1e6)
        } else {
            String::new()
        };
        format!("{median_ms:.3} ms | {unbounded} s | {violated} s{by}")
    }
}

/// Both daemons through one trace.
fn run(trace: &Trace, poll_s: u64) -> [Tally; 2] {
    let mut world = World::new(trace);
    let mut kept = Kept::new(trace, poll_s * S);
    let mut theirs = ClockBound::new(world.servers(), poll_s);
    let (mut tallies, mut next) = ([Tally::default(), Tally::default()], 0);
    for half_s in 0..trace.hours * 7200 {
        let at_ns = half_s * (S / 2);
        while let Some((_, event)) = trace.events.get(next).filter(|(s, _)| s * S <= at_ns) {
            next += 1;
            world.happen(*event);
            if let Event::Migration { is_told: true, .. } = event {
                kept.disrupt(&world);
                theirs.disrupt();
            }
        }
        kept.sample(&mut world, &mut theirs);
        if half_s % 2 == 1 {
            tallies[0].look(kept.known(&world));
            tallies[1].look(theirs.known(&world));
        }
        world.advance(S / 2);
    }
    tallies
}

fn main() -> ExitCode {
    println!(
        "| trace | poll | keep: median bound | no bound | violated | ClockBound: median bound | no bound | violated | ratio |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut is_met = true;
    for trace in TRACES {
        for poll_s in [16, 64] {
            let [mut ours, mut theirs] = run(trace, poll_s);
            let ratio = ours.median_ns() / theirs.median_ns();
            let (name, shown) = (trace.name, [ours.shown(), theirs.shown()].join(" | "));
            println!("| {name} | {poll_s} s | {shown} | {ratio:.2} |");
            is_met &= ours.violated == 0 && (name != "quiet" || ratio <= BAR);
        }
    }
    ExitCode::from(u8::from(!is_met))
}
