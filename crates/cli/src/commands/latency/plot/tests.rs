use instruments::distribution::Distribution;
use instruments::latency::{Delay, FigureKind, Latency};

use super::*;
use crate::commands::bench::report::MachineIdentity;
use crate::output::plot::tests::check;

/// A run with every figure and cause.
fn report() -> LatencyReport {
    let mut latency = Latency { over_s: 20.5, ..Latency::default() };
    let kinds = [FigureKind::TimerWakeUp, FigureKind::Gap, FigureKind::Echo];
    for kind in kinds {
        let mut samples = Distribution::new();
        (1..2000).for_each(|n| samples.record(f64::from(n * n) * 7.0));
        latency.add_figure(kind, &samples);
    }
    latency.delays = (0..)
        .zip(LatenessCause::ALL)
        .map(|(n, &cause)| Delay {
            kind: FigureKind::Gap,
            at_ns: n * 1_000_000_000,
            ns: 30_000 << (n % 12),
            cpu: 0,
            cause,
        })
        .filter(|delay| delay.cause < LatenessCause::IdleExit)
        .collect();
    let machine = MachineIdentity { kernel: "6.18".into(), cpu: None, cpus: 2 };
    LatencyReport { version: String::new(), machine, latency, findings: Vec::new(), compared: None }
}

#[test]
fn no_words_are_outside_or_on_others() {
    check(&svg(&report()));
}

#[test]
fn a_run_without_anything_is_drawn_too() {
    let empty = LatencyReport { latency: Latency::default(), ..report() };
    assert!(svg(&empty).ends_with("</svg>\n"));
}
