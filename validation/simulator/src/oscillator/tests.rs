use instruments::drift::allan::overlapping;

use super::*;
use crate::random::Purpose;

const NOTHING: Noise = Noise { offset_ppm: 0.0, white: 0.0, walk: 0.0, temperature_ppm: 0.0 };

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
        _ => 1e-9 * tau_s.sqrt(),
    }
}

fn noise(kind: &str) -> Noise {
    match kind {
        "white" => Noise { white: 1e-9, ..NOTHING },
        _ => Noise { walk: 1e-9, ..NOTHING },
    }
}

/// τ, s, the step of the series, s, and its length: τ is four steps.
const TAUS: [f64; 6] = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0];
const LENGTH: usize = 40_000;
const FACTOR: usize = 4;

#[test]
fn deviations_are_those_of_the_theory() {
    for kind in ["white", "walk"] {
        for tau_s in TAUS {
            let phase = phase(noise(kind), tau_s / FACTOR as f64, LENGTH);
            let seen = overlapping(&phase, tau_s / FACTOR as f64, FACTOR).unwrap().deviation;
            let off = seen / theory(kind, tau_s) - 1.0;
            assert!(off.abs() < 0.05, "{kind} over {tau_s} s: {seen:e}, off by {off}");
        }
    }
}

/// The law over one interval is that over its parts.
#[test]
fn a_long_look_has_the_law_of_many_short_ones() {
    for kind in ["white", "walk"] {
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
fn temperature_is_what_was_asked_for() {
    let day_ns = 86_400_000_000_000;
    let noise = Noise { temperature_ppm: 1.0, ..NOTHING };
    let mut warm = Oscillator::new(noise, RandomStream::new(1, 1, Purpose::Boot), 0);
    let most = (1..=24).map(|hour| warm.look(day_ns / 24 * hour).abs()).fold(0.0, f64::max);
    // 1 ppm over a day's sine is 86.4 ms / 2 pi each way, and nothing after a day.
    assert!((10e6..28e6).contains(&most), "{most}");
    assert!(warm.look(day_ns).abs() < 1e-3);
}
