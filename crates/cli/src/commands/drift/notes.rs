//! What the figures of all clocks together tell beyond each of them.

use instruments::drift::Step;
use instruments::drift::agreement::{Agreement, agreement};
use instruments::steps::Interval;

use super::report::{PairReport, ReferenceReport};

/// Steps of two clocks this close in time, s, are of one event.
const TOGETHER_S: f64 = 2.0;

/// The notes that belong below a result.
pub(super) fn of(pairs: &[PairReport]) -> Vec<String> {
    let mut references: Vec<&str> = Vec::new();
    for pair in pairs {
        if !references.contains(&pair.reference.as_str()) {
            references.push(&pair.reference);
        }
    }
    references
        .into_iter()
        .flat_map(|reference| {
            let of_it: Vec<&PairReport> =
                pairs.iter().filter(|pair| pair.reference == reference).collect();
            reference_stepped(reference, &of_it)
        })
        .collect()
}

/// Where all clocks step at once, by the same, it was the reference that did.
fn reference_stepped(reference: &str, pairs: &[&PairReport]) -> Vec<String> {
    let [first, others @ ..] = pairs else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let alike = |one: &Step, other: &Step| {
        (one.at_s - other.at_s).abs() < TOGETHER_S
            && (one.ns - other.ns).abs() <= one.bound_ns + other.bound_ns
    };
    let in_all = |step: &&Step| {
        others.iter().all(|pair| pair.drift.steps.iter().any(|other| alike(step, other)))
    };
    first
        .drift
        .steps
        .iter()
        .filter(in_all)
        .map(|step| {
            let by = super::text::signed_time(-step.ns);
            format!(
                "All {} clocks stepped together against {reference} at {:.1} s: \
                 the reference stepped by {by}, not they.",
                pairs.len(),
                step.at_s
            )
        })
        .collect()
}

/// Marks which references agree about CLOCK_REALTIME, and takes the verdicts
/// from those that are outvoted: a clock need not keep to a wrong time. A
/// note where they differ.
pub(super) fn judge_references(
    references: &mut [ReferenceReport],
    pairs: &mut [PairReport],
) -> Option<String> {
    let mut told: Vec<(usize, Interval)> = Vec::new();
    for (index, reference) in references.iter().enumerate() {
        let realtime = pairs.iter().find(|pair| {
            pair.clock == "realtime" && pair.offset_is_error && pair.reference == reference.name
        });
        told.extend(realtime.map(|pair| (index, said(reference, pair))));
    }
    if told.len() < 2 {
        return None;
    }
    let bounds: Vec<Interval> = told.iter().map(|(_, bounds)| *bounds).collect();
    let Agreement::Majority(members) = agreement(&bounds) else {
        return Some(format!(
            "The {} references contradict each other, and no majority tells which is wrong: \
             compare with three or more.",
            told.len()
        ));
    };
    let mut outvoted = Vec::new();
    for ((index, _), agrees) in told.iter().zip(members) {
        if let Some(reference) = references.get_mut(*index) {
            reference.agrees = Some(agrees);
            if !agrees {
                outvoted.push(reference.name.clone());
            }
        }
    }
    for pair in pairs.iter_mut().filter(|pair| outvoted.contains(&pair.reference)) {
        (pair.frequency_verdict, pair.offset_verdict) = (None, None);
    }
    (!outvoted.is_empty()).then(|| {
        format!(
            "{}: a falseticker, outvoted by the others; its figures are not held against the \
             clocks.",
            outvoted.join(", ")
        )
    })
}

/// Where CLOCK_REALTIME's offset from the true time lies by a reference's
/// word: what the delay leaves open, and what it admits to be off itself.
fn said(reference: &ReferenceReport, pair: &PairReport) -> Interval {
    let offset = pair.drift.offset;
    let admitted = reference.root_distance_ns.unwrap_or(0) as f64;
    let wide = offset.bound_ns.max(pair.drift.median_delay_ns / 2.0) + admitted;
    Interval { low: offset.ns - wide, high: offset.ns + wide }
}

#[cfg(test)]
mod tests {
    use instruments::drift::budget::Budget;
    use instruments::drift::{Nesting, Reading, Series, Span};

    use super::super::clocks::ClockName;
    use super::super::session::{Pair, judged};
    use super::*;

    /// Steps of both clocks, ms, half way through 60 s.
    fn pairs(steps_ms: [u64; 2]) -> Vec<PairReport> {
        let clocks = [ClockName::Monotonic, ClockName::Raw];
        let pair = |(clock, step_ms): (ClockName, u64)| {
            let mut series = Series::new();
            for n in 1..61 {
                let at = 1_000_000_000 * n;
                let step = if n > 30 { step_ms * 1_000_000 } else { 0 };
                let reference = Span { before: at, after: at + 100 };
                let (clock, nesting) = (Span::at(at + step + 50), Nesting::ReferenceOutside);
                series.push(Reading { clock, reference, nesting }).unwrap();
            }
            judged(&Pair::of(clock, "phc /dev/ptp0", series), Budget::default()).unwrap()
        };
        clocks.into_iter().zip(steps_ms).map(pair).collect()
    }

    #[test]
    fn it_was_the_reference_where_all_clocks_step_by_the_same() {
        assert_eq!(
            of(&pairs([7, 7])),
            ["All 2 clocks stepped together against phc /dev/ptp0 at 30.0 s: \
              the reference stepped by -7.00 ms, not they."]
        );
        assert!(of(&pairs([7, 0])).is_empty() && of(&pairs([7, 90])).is_empty());
        assert!(of(&pairs([7, 7])[..1]).is_empty(), "one clock alone does not tell");
    }
}
