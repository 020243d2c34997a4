use clap::Parser;
use simulator::Scenario;
use simulator::quantity::Seconds;

use super::*;
use crate::commands::CommandLine;
use crate::output::plot::tests::check;

fn simulated(name: &str, guests: u64, threads: u64) -> (Scenario, Of, Vec<DisciplineRun>) {
    let (scenario, _) = load::scenario(name).unwrap();
    let of = Of { guests: 0..guests, days: 1.0, seed: 7 };
    let span_ns = scenario.check(guests, of.days).unwrap();
    let simulation = |corrector| Simulation::new(&scenario, corrector, of.seed, span_ns);
    let done = run::run_all(&scenario.disciplines, simulation, of.guests.clone(), threads).unwrap();
    (scenario.clone(), of, done)
}

#[test]
fn the_report_is_the_same_on_any_number_of_threads() {
    let report = |threads| {
        let (scenario, of, done) = simulated("compare-keepers", 40, threads);
        output::json_document(&SimulateReport::new(&scenario, &of, run::fleets(&done))).unwrap()
    };
    let one = report(1);
    assert!(one.contains("\"digest\""));
    assert_eq!(one, report(2));
    assert_eq!(one, report(7));
}

#[test]
fn text_is_80_columns_wide_and_tells_the_worst() {
    let (scenario, of, done) = simulated("compare-keepers", 40, 2);
    let report = SimulateReport::new(&scenario, &of, run::fleets(&done));
    let text = text::render(&report, Format::Text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let words = text.replace('\n', " ");
    assert!(words.contains("was furthest off: ") && words.contains("after a fault of kind"));
    let csv = csv::render(&done);
    assert_eq!(csv.lines().count(), 1 + 5 * 40);
    assert!(text::rate(&of, &done).contains("guest-days a minute"));
}

#[test]
fn words_in_the_picture_do_not_lie_on_each_other() {
    for name in ["compare-keepers", "migration-night", "laptop"] {
        let (scenario, of, done) = simulated(name, 20, 2);
        let span_ns = scenario.check(20, of.days).unwrap();
        let simulation = |corrector| Simulation::new(&scenario, corrector, of.seed, span_ns);
        let report = SimulateReport::new(&scenario, &of, run::fleets(&done));
        check(&plot::svg(&report, &done, span_ns, simulation));
    }
}

#[test]
fn a_broken_limit_prints_a_scenario_that_breaks_it_again() {
    let (mut scenario, ..) = simulated("compare-keepers", 1, 1);
    scenario.limits.error_s = Some(Seconds(100.0));
    scenario.disciplines = vec![simulator::ScenarioCorrector::Keeper];
    let of = Of { guests: 0..40, days: 2.0, seed: 7 };
    let span_ns = scenario.check(40, of.days).unwrap();
    let simulation = |corrector| Simulation::new(&scenario, corrector, of.seed, span_ns);
    let done = run::run_all(&scenario.disciplines, simulation, of.guests.clone(), 2).unwrap();
    let text = load::shrunk(&scenario, &of, &done, simulation).unwrap();
    assert!(text.starts_with("# Guest ") && text.contains("[[event]]"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smaller.toml");
    std::fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    let command = CommandLine::try_parse_from(["parachron", "simulate", path]).unwrap();
    let code = crate::commands::run(command).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
}

#[test]
fn a_part_of_a_fleet_is_no_success() {
    let code = |broken, is_whole| format!("{:?}", ended(broken, is_whole));
    let codes = [0, 2, 1, 1].map(|code| format!("{:?}", ExitCode::from(code)));
    assert_eq!([code(0, true), code(0, false), code(1, true), code(1, false)], codes);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let why = |text: &str, options: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let words = ["parachron", "simulate", path.to_str().unwrap()];
        let command = CommandLine::try_parse_from(words.iter().chain(options)).unwrap();
        crate::commands::run(command).unwrap_err().to_string()
    };
    for (text, options, expected) in [
        ("name = 'x'\nspeed = 3\n", &[][..], "mine.toml:2: unknown field `speed`"),
        ("name = 'x'\n\n[[server]]\nloss = 7\n", &[], "mine.toml:4: 7: expected a share, 0 to 1"),
        ("name = 'x'\n", &["--guests", "1000000000"], "a fleet of 1000000000 guests"),
        ("name = 'x'\nguests = 0\n", &[], "a fleet of 0 guests"),
        ("name = 'x'\n", &["--days", "nan"], "NaN days"),
        ("name = 'x'\ndisciplines = []\n", &[], "`disciplines` is empty"),
        (
            "name = 'x'\n[[fault]]\nkind = 'server-lies'\nat_s = 1.0\nserver = 3\n",
            &[],
            "mine.toml:2: something happens to server 3",
        ),
        ("name = 'x'\n\n[[fault]]\nkind = 'pause'\n", &[], "mine.toml:3: a fault has neither"),
        (
            "name = 'x'\nevent = [\n{ kind = 'server-lies', server = 1, at_ns = 1, length_ns = 1 }]\n",
            &[],
            "mine.toml:3: something happens to server 1",
        ),
        (
            "name = 'x'\n[replay]\nversion = 9\nguest = 0\nseed = 1\n",
            &[],
            "its seed is for version 9 of the random streams",
        ),
    ] {
        let why = why(text, options);
        assert!(why.contains(expected), "{text}: {why}");
    }
    let command = CommandLine::try_parse_from(["parachron", "simulate", "no-such"]).unwrap();
    let why = crate::commands::run(command).unwrap_err().to_string();
    assert!(why.contains("cannot read the scenario no-such"), "{why}");
}
