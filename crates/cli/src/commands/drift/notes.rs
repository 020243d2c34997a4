//! What the figures of all clocks together tell beyond each of them.

use instruments::drift::Step;
use instruments::drift::agreement::{Agreement, agreement};
use instruments::steps::Interval;

use super::report::{PairReport, ReferenceReport};
use instruments::figures::{signed, time};

/// Steps of two clocks this close in time, s, are of one event.
const TOGETHER_S: f64 = 2.0;

/// What the measurement cannot be relied on for: references that stepped while
/// they were one, clocks that were set back, and steps of one clock against
/// one reference, which do not tell whose they were. A reference that others
/// outvote disturbs nothing.
pub(super) fn disturbances(references: &[ReferenceReport], pairs: &[PairReport]) -> Vec<String> {
    let outvoted =
        |name: &str| references.iter().any(|one| one.name == name && one.agrees == Some(false));
    let mut names: Vec<&str> = Vec::new();
    for pair in pairs {
        if !names.contains(&pair.reference.as_str()) && !outvoted(&pair.reference) {
            names.push(&pair.reference);
        }
    }
    let mut told = Vec::new();
    // A clock that went back did so against each reference; once is enough.
    let mut back: Vec<&str> = Vec::new();
    for name in names {
        let of_it: Vec<&PairReport> = pairs.iter().filter(|pair| pair.reference == name).collect();
        let common = common_steps(&of_it);
        told.extend(common.iter().map(|step| {
            let by = signed(-step.ns, time);
            format!(
                "All {} clocks stepped together against {name} at {:.1} s: \
                 the reference stepped by {by}, not they.",
                of_it.len(),
                step.at_s
            )
        }));
        for pair in &of_it {
            let its_own = |step: &&Step| !common.iter().any(|other| is_alike(step, other));
            let went_back = |step: &&Step| step.ns + step.bound_ns < 0.0;
            // A clock that no other was compared beside, with this reference or
            // with others, may have stepped or not.
            let is_unsure =
                |step: &&Step| of_it.len() == 1 && !stepped_elsewhere(pair, step, pairs);
            let mut steps = pair.drift.steps.iter().filter(its_own);
            let step = steps.find(|step| went_back(step) || is_unsure(step));
            if let Some(step) = step.filter(|_| !back.contains(&pair.clock.as_str())) {
                back.push(&pair.clock);
                told.push(said_of_step(pair, step, is_unsure(&step)));
            }
        }
    }
    told
}

/// Whether this clock stepped so against another reference too: then it was
/// the clock.
fn stepped_elsewhere(pair: &PairReport, step: &Step, pairs: &[PairReport]) -> bool {
    let mut others =
        pairs.iter().filter(|other| other.clock == pair.clock && other.reference != pair.reference);
    others.any(|other| other.drift.steps.iter().any(|its| is_alike(step, its)))
}

fn said_of_step(pair: &PairReport, step: &Step, is_unsure: bool) -> String {
    let (moved, the_other) =
        if step.ns < 0.0 { ("was set back", "forward") } else { ("went forward", "back") };
    let or_it = match is_unsure {
        true => format!(", or {} {the_other}", pair.reference),
        false => String::new(),
    };
    format!("{} {moved} by {} at {:.1} s{or_it}.", pair.clock, time(step.ns.abs()), step.at_s)
}

fn is_alike(one: &Step, other: &Step) -> bool {
    (one.at_s - other.at_s).abs() < TOGETHER_S
        && (one.ns - other.ns).abs() <= one.bound_ns + other.bound_ns
}

/// Where all clocks step at once, by the same, it was the reference that did.
fn common_steps(pairs: &[&PairReport]) -> Vec<Step> {
    let [first, others @ ..] = pairs else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let in_all = |step: &&Step| {
        others.iter().all(|pair| pair.drift.steps.iter().any(|other| is_alike(step, other)))
    };
    first.drift.steps.iter().filter(in_all).copied().collect()
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
        let more = if told.len() < 3 { "with three or more" } else { "with others too" };
        return Some(format!(
            "The {} references contradict each other, and no majority tells which is wrong: \
             compare {more}.",
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
    let admitted = reference.status.root_distance_ns.unwrap_or(0) as f64;
    let wide = offset.bound_ns.max(pair.drift.median_delay_ns / 2.0) + admitted;
    Interval { low: offset.ns - wide, high: offset.ns + wide }
}

#[cfg(test)]
mod tests {
    use instruments::drift::budget::Budget;
    use instruments::drift::{Nesting, Reading, Series, Span};

    use super::super::clocks::ClockName;
    use super::super::pair::{Pair, judged};
    use super::*;

    /// Steps of both clocks, ms, half way through 60 s.
    fn pairs(steps_ms: [i64; 2]) -> Vec<PairReport> {
        let clocks = [ClockName::Monotonic, ClockName::Raw];
        let pair = |(clock, step_ms): (ClockName, i64)| {
            let mut series = Series::new();
            for n in 1..61 {
                let at = 1_000_000_000 * n;
                let step = if n > 30 { step_ms * 1_000_000 } else { 0 };
                let reference = Span { before: at, after: at + 100 };
                let (clock, nesting) =
                    (Span::at((at + 50).saturating_add_signed(step)), Nesting::ReferenceOutside);
                series.push(Reading { clock, reference, nesting }).unwrap();
            }
            judged(&Pair::of(clock, "phc /dev/ptp0", series), Budget::default()).unwrap()
        };
        clocks.into_iter().zip(steps_ms).map(pair).collect()
    }

    #[test]
    fn it_was_the_reference_where_all_clocks_step_by_the_same() {
        let of = |pairs: &[PairReport]| disturbances(&[], pairs);
        assert_eq!(
            of(&pairs([7, 7])),
            ["All 2 clocks stepped together against phc /dev/ptp0 at 30.0 s: \
              the reference stepped by -7.00 ms, not they."]
        );
        assert!(of(&pairs([7, 0])).is_empty() && of(&pairs([7, 90])).is_empty());
        assert_eq!(
            of(&pairs([7, 7])[..1]),
            ["monotonic went forward by 7.00 ms at 30.0 s, or phc /dev/ptp0 back."],
            "one clock alone does not tell"
        );
        // Against two references it does.
        let twice = |step_ms| {
            let mut both = [pairs([step_ms, 0]), pairs([step_ms, 0])].map(|mut two| two.remove(0));
            both[1].reference = "ntp 192.0.2.1".into();
            of(&both)
        };
        assert!(twice(7).is_empty());
        assert_eq!(twice(-7), ["monotonic was set back by 7.00 ms at 30.0 s."]);
    }

    #[test]
    fn a_clock_that_was_set_back_is_told() {
        let of = |pairs: &[PairReport]| disturbances(&[], pairs);
        assert_eq!(of(&pairs([0, -9])), ["raw was set back by 9.00 ms at 30.0 s."]);
        assert_eq!(
            of(&pairs([-9, 0])[..1]),
            ["monotonic was set back by 9.00 ms at 30.0 s, or phc /dev/ptp0 forward."]
        );
        // Forward is a gap, and two ways apart is neither together nor back.
        assert_eq!(of(&pairs([4, -4])), ["raw was set back by 4.00 ms at 30.0 s."]);
    }
}
