use host::Kind;
use pvclock::Hertz;

use super::*;
use crate::results::{Findings, Verdict};

/// The host of the report of 293 s in 300 s.
const HOST_TSC: Hertz = Hertz(3_400_109_000);
const ADVERTISED_HZ: f64 = 3_478_274_491.0;

fn outcome_of(experiment: Experiment, settings: &Settings) -> Outcome {
    let outcome = run_in_process(experiment, settings, HOST_TSC, &mut ()).unwrap();
    assert!(!outcome.checks.is_empty());
    for check in &outcome.checks {
        assert_eq!(check.verdict, Verdict::Passed, "{check:?}");
    }
    outcome
}

#[test]
fn simulated_time_passes_every_check() {
    outcome_of(Experiment::Conformance, &Settings::default());
}

#[test]
fn a_wrong_advertised_frequency_makes_293_26_s_of_300() {
    let advertised_over_true = ADVERTISED_HZ / HOST_TSC.0 as f64;
    let providers = vec![Kind::Minimal, Kind::Kvm, Kind::HyperV];
    let settings = Settings { advertised_over_true, providers, ..Settings::default() };
    let Findings::Drift(rows) = outcome_of(Experiment::Drift, &settings).findings else {
        panic!("drift finds drift");
    };
    let counted = |source: &str, expected: &str| {
        let mut of_source = rows.iter().filter(|row| row.source == source).peekable();
        assert!(of_source.peek().is_some(), "{source}");
        for row in of_source {
            assert_eq!(format!("{:.2}", row.per_300_s), expected, "{row:?}");
        }
    };
    for source in ["tsc", "kvm-clock", "hyperv-page", "hyperv-counter"] {
        counted(source, "293.26");
    }
    for source in ["acpi_pm", "hpet", "pit", "rtc"] {
        counted(source, "300.00");
    }
}

#[test]
fn a_guest_without_an_advertised_frequency_measures_its_tsc() {
    let providers = vec![Kind::None];
    let settings = Settings { advertised_over_true: 1.1, providers, ..Settings::default() };
    let Findings::Drift(rows) = outcome_of(Experiment::Drift, &settings).findings else {
        panic!("drift finds drift");
    };
    let tsc = rows.iter().find(|row| row.source == "tsc").unwrap();
    assert!(tsc.drift_ppm.abs() < 20.0, "{tsc:?}");
}

#[test]
fn experiments_on_machines_are_refused() {
    for experiment in Experiment::ALL.into_iter().filter(|one| !IN_PROCESS.contains(one)) {
        let result = run_in_process(experiment, &Settings::default(), HOST_TSC, &mut ());
        assert!(matches!(result, Err(LabError::NeedsKvm)), "{experiment:?}: {result:?}");
    }
}

#[test]
fn this_host_s_tsc_has_a_frequency() {
    let rate = measure_host_tsc().unwrap();
    assert!((500_000_000..10_000_000_000).contains(&rate.0), "{rate:?}");
}
