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
