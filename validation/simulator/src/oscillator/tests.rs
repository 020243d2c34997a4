use instruments::drift::allan::overlapping;

use super::*;
use crate::random::Purpose;

const NOTHING: Noise = Noise {
    offset_ppm: Ppm(0.0),
    white: Fraction(0.0),
    flicker: Fraction(0.0),
    walk: Fraction(0.0),
    temperature_ppm: Ppm(0.0),
    ageing_ppm_a_day: Ppm(0.0),
};

/// The phase, s, at each `tau0_s`.
fn phase(noise: Noise, tau0_s: f64, count: usize) -> Vec<f64> {
    let mut oscillator = Oscillator::new(noise, RandomStream::new(16, 3, Purpose::Boot), 0);
    let at = |index: usize| (index as f64 * tau0_s * 1e9) as i64;
    (0..=count).map(|index| oscillator.look(at(index)) * 1e-9).collect()
}

/// Each kind's deviation over τ, by its theory: NIST SP 1065, table 5.
fn theory(kind: &str, tau_s: f64) -> f64 {
    match kind {
        "white" => 1e-9 / tau_s.sqrt(),
        "flicker" => 1e-9,
        _ => 1e-9 * tau_s.sqrt(),
    }
}

fn noise(kind: &str) -> Noise {
    let level = Fraction(1e-9);
    match kind {
        "white" => Noise { white: level, ..NOTHING },
        "flicker" => Noise { flicker: level, ..NOTHING },
        _ => Noise { walk: level, ..NOTHING },
    }
}

/// τ, s, the step of the series, s, and its length: τ is four steps.
const TAUS: [f64; 6] = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0];
const LENGTH: usize = 40_000;
const FACTOR: usize = 4;

/// What allantools 2024.6 makes of the same series (`oadev`, data_type "phase"):
/// white, flicker, walk. Made by tests/allan.py of what
/// `PARACHRON_PHASES=FOLDER cargo test -p simulator` writes.
const ALLANTOOLS: &[(&str, f64, f64)] = &include!("allantools.in");

#[test]
fn deviations_are_those_of_the_theory_and_of_allantools() {
    let folder = std::env::var_os("PARACHRON_PHASES").map(std::path::PathBuf::from);
    let mut compared = 0;
    for kind in ["white", "flicker", "walk"] {
        for tau_s in TAUS {
            let phase = phase(noise(kind), tau_s / FACTOR as f64, LENGTH);
            if let Some(folder) = &folder {
                let lines: Vec<String> = phase.iter().map(|x| format!("{x:e}")).collect();
                std::fs::write(folder.join(format!("{kind}-{tau_s}")), lines.join("\n")).unwrap();
            }
            let seen = overlapping(&phase, tau_s / FACTOR as f64, FACTOR).unwrap().deviation;
            let off = seen / theory(kind, tau_s) - 1.0;
            assert!(off.abs() < 0.05, "{kind} over {tau_s} s: {seen:e}, off by {off}");
            let theirs = ALLANTOOLS.iter().filter(|it| it.0 == kind && it.1 == tau_s);
            for (.., deviation) in theirs {
                assert!((seen / deviation - 1.0).abs() < 1e-6, "{kind} {tau_s}: {deviation:e}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 18);
}

/// The law over one interval is that over its parts.
#[test]
fn a_long_look_has_the_law_of_many_short_ones() {
    for kind in ["white", "flicker", "walk"] {
        let sum = |parts: i64| {
            let squares = (0..4000_u64).map(|guest| {
                let stream = RandomStream::new(guest, 0, Purpose::Boot);
                let mut oscillator = Oscillator::new(noise(kind), stream, 0);
                let before = oscillator.look(1_000_000_000);
                let step_ns = 100_000_000_000 / parts;
                let after = (1..=parts).map(|n| oscillator.look(1_000_000_000 + n * step_ns));
                (after.last().unwrap() - before).powi(2)
            });
            squares.sum::<f64>() / 4000.0
        };
        let (one, many) = (sum(1), sum(50));
        assert!((one / many - 1.0).abs() < 0.1, "{kind}: {one:e} and {many:e}");
    }
}

#[test]
fn temperature_and_ageing_are_what_was_asked_for() {
    let day_ns = 86_400_000_000_000;
    let noise = Noise { ageing_ppm_a_day: Ppm(0.5), ..NOTHING };
    let mut ageing = Oscillator::new(noise, RandomStream::new(1, 1, Purpose::Boot), 0);
    // After two days it is 1 ppm fast, and has gained a day's worth of that.
    assert!((ageing.look(2 * day_ns) - 86_400_000.0).abs() < 1.0);
    let noise = Noise { temperature_ppm: Ppm(1.0), ..NOTHING };
    let mut warm = Oscillator::new(noise, RandomStream::new(1, 1, Purpose::Boot), 0);
    let most = (1..=24).map(|hour| warm.look(day_ns / 24 * hour).abs()).fold(0.0, f64::max);
    // 1 ppm over a day's sine is 86.4 ms / 2 pi each way, and nothing after a day.
    assert!((10e6..28e6).contains(&most), "{most}");
    assert!(warm.look(day_ns).abs() < 1e-3);
}
