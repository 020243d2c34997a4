//! What the figures of all clocks together tell beyond each of them.

use instruments::drift::Step;

use super::report::PairReport;

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
