//! The figures of docs/guide/simulate.md are those of today's code.

use std::collections::BTreeSet;

use simulator::report::{DisciplineReport, Of, SimulateReport};
use simulator::scenario::BUILT_IN;
use simulator::{Fleet, Scenario, ScenarioCorrector, Simulation};

const GUIDE: &str = include_str!("../../../docs/guide/simulate.md");

/// What the guide's figures are of.
const GUESTS: u64 = 40;
const SEED: u64 = 1;

fn report(name: &str, disciplines: &[ScenarioCorrector]) -> SimulateReport {
    let (_, text) = BUILT_IN.iter().find(|(found, _)| *found == name).unwrap();
    let scenario: Scenario = toml::from_str(text).unwrap();
    let of = Of::new(&scenario, Some(GUESTS), None, Some(SEED));
    let span_ns = scenario.check(GUESTS, of.days).unwrap();
    let run = |corrector: &ScenarioCorrector| {
        let fleet =
            Simulation::new(&scenario, *corrector, SEED, span_ns).guests(0..GUESTS, || true);
        (*corrector, fleet)
    };
    let fleets: Vec<(ScenarioCorrector, Fleet)> = disciplines.iter().map(run).collect();
    let fleets = fleets.iter().map(|(corrector, fleet)| (*corrector, fleet));
    SimulateReport::new(&scenario, &of, fleets)
}

/// The keeper's part of it.
fn keeper(name: &str) -> DisciplineReport {
    report(name, &[ScenarioCorrector::Keeper]).disciplines.remove(0)
}

/// The figures of the row of a discipline, in the table after this heading.
fn row<'g>(heading: &str, name: &str) -> Vec<&'g str> {
    let (_, table) = GUIDE.split_once(heading).unwrap();
    let line = table.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    line.split_whitespace().skip(1).collect()
}

#[test]
fn the_output_is_that_of_the_program() {
    let all = [
        ScenarioCorrector::None,
        ScenarioCorrector::Pll,
        ScenarioCorrector::Regression,
        ScenarioCorrector::Keeper,
        ScenarioCorrector::Beside,
    ];
    let mut differ = Vec::new();
    for one in &report("compare-keepers", &all).disciplines {
        let name = one.discipline.name();
        let shares = one.ever_off.iter().chain(&one.time_off);
        let shares: Vec<String> = shares.map(|share| format!("{:.1}", share * 100.0)).collect();
        let faults = [one.recovered, one.never_right].map(|count| count.to_string());
        if row("Guests that were off\n", name) != shares {
            differ.push(format!("{name}: {shares:?}"));
        }
        if row("Faults that put a clock off", name)[..2] != faults {
            differ.push(format!("{name}: {faults:?}"));
        }
    }
    assert!(differ.is_empty(), "the guide has other figures: {differ:#?}");
}

#[test]
fn the_lessons_have_the_figures_of_the_keeper() {
    let [night, farm, laptop, frequency, busy, cloud] = [
        "migration-night",
        "snapshot-farm",
        "laptop",
        "wrong-frequency",
        "busy-host",
        "cloud-a-to-b",
    ]
    .map(keeper);
    let right_s = |one: &DisciplineReport| one.right_after_s.unwrap();
    let worst_s = |one: &DisciplineReport| one.worst.as_ref().unwrap().error_s.abs();
    let restores = farm.counts.faults;
    assert_eq!((restores, farm.never_right), (farm.recovered, 0));
    let lost_s =
        report("busy-host", &[ScenarioCorrector::None]).disciplines[0].last_error_s.unwrap()[0];
    let figures = [
        format!(
            "half are right after {:.1} s, 95 % within {:.1} minutes",
            right_s(&night)[0],
            right_s(&night)[1] / 60.0
        ),
        format!("all {restores} restores were right within {:.1} s", farm.longest_wrong_s),
        format!("95 % of the faults took {:.0} s at most", right_s(&laptop)[1]),
        format!("no guest is more than {:.1} s off", worst_s(&frequency)),
        format!("lose {lost_s:.1} s a day at the median"),
        format!("off by more than 100 ms for {:.3} % of the time", busy.time_off[1] * 100.0),
        format!("{:.1} s off at the median", cloud.last_error_s.unwrap()[0]),
        format!("never more than {:.0} s", worst_s(&cloud)),
    ];
    let missing: Vec<&String> =
        figures.iter().filter(|figure| !GUIDE.contains(figure.as_str())).collect();
    assert!(missing.is_empty(), "not in the guide: {missing:#?}");
}

/// The scenario of every fault has all kinds, and the page and the guide have words for each.
#[test]
fn each_kind_has_words() {
    let words = include_str!("../../../docs/simulator/words.js");
    let (_, text) = BUILT_IN.iter().find(|(found, _)| *found == "every-fault").unwrap();
    let scenario: Scenario = toml::from_str(text).unwrap();
    let kinds: BTreeSet<&str> = scenario.faults.iter().map(|fault| fault.kind.name()).collect();
    assert_eq!(kinds.len(), 14);
    for kind in kinds {
        assert!(words.contains(&format!("\"{kind}\": ")), "{kind} has no words on the page");
        assert!(GUIDE.contains(&format!("`{kind}`")), "{kind} is not in the guide");
    }
}
