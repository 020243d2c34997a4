//! The first line of the result: what a read of the clock costs, and what to do about it.

use instruments::figures::{three_digits, time};
use instruments::measurements::{CallCost, Measurements, ReadPath, TRAPPED_RDTSC_NS};

use super::report::{BenchReport, source_name};
use crate::output::number_of;

/// The call that programs make most.
const USUAL: &str = "clock_gettime(CLOCK_MONOTONIC)";
/// A read through the vDSO is an ordered read of the counter and some arithmetic: above this
/// multiple of the bare instruction something else costs time.
const FAST_RATIO: f64 = 4.0;

/// One sentence on the cost, and one for each source under which a clock went backward.
pub(super) fn sentences(report: &BenchReport) -> String {
    let usual = |run: &Measurements| run.cost(USUAL).map(|cost| cost.ns.median);
    let measured = report.runs.iter().filter(|run| usual(run).is_some());
    let cheapest = measured
        .min_by(|a, b| usual(a).unwrap_or(f64::MAX).total_cmp(&usual(b).unwrap_or(f64::MAX)));
    let mut text = match cheapest.and_then(|run| run.cost(USUAL).map(|cost| (run, cost))) {
        Some((run, cost)) => cost_sentence(run, cost, report.runs.len() > 1),
        None => "CLOCK_MONOTONIC was not measured.".to_owned(),
    };
    for run in &report.runs {
        let backward = run.order.iter().filter(|order| order.backward > 0);
        let clocks: Vec<String> = backward
            .map(|order| {
                let times = number_of(order.backward, "time");
                format!("{} {times}, by up to {}", order.clock, time(order.largest_backward_ns))
            })
            .collect();
        if !clocks.is_empty() {
            let source = source_name(run);
            text.push_str(&format!(" Time went backward under {source}: {}.", clocks.join("; ")));
        }
    }
    text
}

fn cost_sentence(run: &Measurements, cost: &CallCost, is_cheapest: bool) -> String {
    let ns = three_digits(cost.ns.median);
    let cheapest = format!(" under {}, the cheapest source", source_name(run));
    let rank = if is_cheapest { cheapest.as_str() } else { "" };
    let bare = run.cost("rdtsc").map(|bare| bare.ns.median);
    let judgement = match (cost.path, bare) {
        (ReadPath::Counted { entered: 1.., .. }, _) => {
            "; it enters the kernel, so it is slow: run `parachron doctor`"
        }
        (_, Some(bare)) if bare > TRAPPED_RDTSC_NS => {
            "; the hypervisor emulates the counter's read: run `parachron doctor`"
        }
        (_, Some(bare)) if cost.ns.median <= FAST_RATIO * bare => ": as fast as this CPU allows",
        (_, Some(_)) => ": slow beside the counter: run `parachron doctor`",
        _ => "",
    };
    let way = match cost.path {
        ReadPath::Counted { entered: 0, .. } => " through the vDSO",
        _ => "",
    };
    format!("CLOCK_MONOTONIC takes {ns} ns{way}{rank}{judgement}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::sample::{report, run, three_sources};

    #[test]
    fn the_answer_names_the_cost_the_way_and_the_remedy() {
        let fast = report(vec![run("tsc", 27.1)]);
        let text = sentences(&fast);
        assert!(text.starts_with("CLOCK_MONOTONIC takes 27.1 ns"), "{text}");
        let mut entering = fast.clone();
        for cost in &mut entering.runs[0].costs {
            cost.path = ReadPath::Counted { calls: 1000, entered: 1000 };
        }
        assert!(sentences(&entering).contains("so it is slow: run `parachron doctor`."));
        let mut trapped = fast.clone();
        for cost in &mut trapped.runs[0].costs {
            cost.ns.median = 30_000.0;
        }
        assert!(sentences(&trapped).contains("the hypervisor emulates the counter's read: run"));
        let mut backward = fast;
        backward.runs[0].order[0].backward = 2;
        backward.runs[0].order[0].largest_backward_ns = 70.0;
        let text = sentences(&backward);
        assert!(text.contains(" Time went backward under tsc: "), "{text}");
        assert!(text.contains(" 2 times, by up to 70.0 ns"), "{text}");
        assert!(sentences(&three_sources()).contains(" under tsc, the cheapest source"));
    }
}
