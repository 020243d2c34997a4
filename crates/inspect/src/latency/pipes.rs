//! UnixBench's pipe-based context switching, on CPUs that are named.

use std::time::{Duration, Instant};

use instruments::distribution::Distribution;
use instruments::latency::FigureKind;
use linux::cpus::pin;

use super::{LatencyRun, now_ns};
use crate::pipe_pair::PipePair;

/// Round trips, timed one by one, with the partner on CPU `there`.
pub(super) fn measure(
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
