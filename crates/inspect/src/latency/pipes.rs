//! UnixBench's pipe-based context switching, placed by us and by the scheduler.

use std::process::Command;
use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::FigureKind;
use instruments::measurements::Measurements;
use linux::cpus::pin;

use super::{LatencyRun, now_ns};
use crate::measure::loads::{self, MeasuringLoad};
use crate::pipe_pair::PipePair;

/// Round trips, timed one by one, with the partner on CPU `there`.
pub(super) fn placed(
    run: &mut LatencyRun<'_>,
    kind: FigureKind,
    (here, there): (u32, u32),
    length: Duration,
) {
    run.doing(kind.name());
    // A process starts where its parent may run.
    let pair = pin(there)
        .map_err(|error| error.to_string())
        .and_then(|_pinned| PipePair::start((run.plan.echo)()).map_err(|error| error.to_string()));
    let mut samples = Distribution::new();
    let timed = pair.and_then(|mut pair| {
        let _pinned = pin(here).map_err(|error| error.to_string())?;
        // The first trip waits for the partner's start.
        pair.pass().map_err(|error| error.to_string())?;
        let ends = Instant::now() + length;
        while Instant::now() < ends {
            let sent = now_ns();
            pair.pass().map_err(|error| error.to_string())?;
            samples.record(now_ns().saturating_sub(sent) as f64);
        }
        Ok(())
    });
    match timed {
        Ok(()) => run.found.add_figure(kind, &samples),
        Err(why) => run.found.miss(kind.name(), why),
    }
}

/// One copy, and one a CPU, wherever the scheduler puts them; `length` each.
pub(super) fn free(run: &mut LatencyRun<'_>, echo: fn() -> Command, length: Duration) {
    let cpus = u32::try_from(run.cpus.len()).unwrap_or(u32::MAX);
    let (mut missing, mut switches) = (Measurements::default(), Vec::new());
    let load = MeasuringLoad::Switches(echo);
    loads::round(load, cpus, (1, length), &mut switches, &mut missing, run.progress);
    run.found.switches = switches;
    run.found.not_measured.extend(missing.not_measured);
}
