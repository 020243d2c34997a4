//! An oscillator's error, drawn only when somebody looks.
//!
//! The error of its time, x, is what its fractional frequency y adds up to:
//!
//! | part | y | Allan deviation over τ |
//! | --- | --- | --- |
//! | white | white noise | `white` / √τ |
//! | flicker | the sum of seven Ornstein-Uhlenbeck processes | `flicker` ± 2 %, 1 s to 10⁵ s |
//! | walk | a random walk | `walk` · √τ |
//! | temperature | a day's sine | |
//! | ageing | a line | `ageing` · τ / √2 |
//!
//! Each is Gaussian with known moments over any interval, so what is drawn after
//! an hour has the law of 3600 draws a second apart (Gillespie, Phys. Rev. E 54,
//! 2084, 1996, for the Ornstein-Uhlenbeck process and its integral; Zucca and
//! Tavella, IEEE Trans. UFFC 52(2), 2005, for the walk). All that moves x and
//! nothing that is remembered is one draw.
//!
//! # A worked example
//!
//! White noise of 1e-9 at 1 s, seen after 100 s: x has moved by 1e-9 · √100 s =
//! 10 ns of deviation. A walk of 1e-12 at 1 s: its y has moved by 1e-12 · √(3 ·
//! 100) = 1.7e-11, its x by 1e-12 · √(100³) = 1 ns.

use serde::Deserialize;

use crate::quantity::{Fraction, Ppm};
use crate::random::RandomStream;

const DAY_S: f64 = 86_400.0;

/// Intervals whose law is kept.
const LAWS: usize = 8;

/// The first process forgets in 0.1 s, each other 12 times as slowly: the last in
/// 3.5 days.
const PROCESSES: usize = 7;
const FIRST_S: f64 = 0.1;
const SPACING: f64 = 12.0;

/// The Allan deviation of such a sum of unit variances, in the middle of its
/// ripple from 1 s to 10⁵ s.
const FLICKER_LEVEL: f64 = 0.742_617;

/// What is wrong with an oscillator.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Deviation of the constant error among oscillators, ppm.
    pub offset_ppm: Ppm,
    /// White frequency noise: Allan deviation at 1 s.
    pub white: Fraction,
    /// Flicker: Allan deviation at any τ.
    pub flicker: Fraction,
    /// Random walk of the frequency: Allan deviation at 1 s.
    pub walk: Fraction,
    /// Amplitude of the day's temperature, ppm.
    pub temperature_ppm: Ppm,
    /// Change of the frequency a day, ppm.
    pub ageing_ppm_a_day: Ppm,
}

impl Default for Noise {
    /// A server's crystal, after its kernel has calibrated it.
    fn default() -> Self {
        Self {
            offset_ppm: Ppm(2.0),
            white: Fraction(1e-9),
            flicker: Fraction(1e-9),
            walk: Fraction(1e-11),
            temperature_ppm: Ppm(0.05),
            ageing_ppm_a_day: Ppm(0.001),
        }
    }
}

/// The law of the increments over one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Law {
    dt_s: f64,
    /// Of each process: what is left of y, what is drawn for it (σ), and what y
    /// and that draw add to x.
    processes: [[f64; 4]; PROCESSES],
    /// σ of the walk's y, and what that draw adds to x.
    walk: [f64; 2],
    /// σ of all else that x moves by.
    rest: f64,
    /// Cosine and sine of the part of a day.
    turn: [f64; 2],
}

impl Law {
    fn new(noise: &Noise, dt_s: f64) -> Self {
        let angle = dt_s / DAY_S * std::f64::consts::TAU;
        let turn = [libm::cos(angle), libm::sin(angle)];
        let mut law = Self { dt_s, turn, ..Self::default() };
        // E[Δy²] = 3 walk² dt; E[Δx Δy] = that · dt/2; Var[Δx] = that · dt²/3.
        law.walk = [noise.walk.0 * (3.0 * dt_s).sqrt(), dt_s / 2.0];
        let mut rest = noise.white.0 * noise.white.0 * dt_s;
        rest += law.walk[0] * law.walk[0] * dt_s * dt_s / 12.0;
        let mut forgets_s = FIRST_S;
        for process in &mut law.processes {
            let variance = (noise.flicker.0 / FLICKER_LEVEL) * (noise.flicker.0 / FLICKER_LEVEL);
            let gone = -libm::expm1(-dt_s / forgets_s);
            // Of unit variance: σ², covariance with x, variance of x.
            let drawn = gone * (2.0 - gone);
            let shared = forgets_s * gone * gone;
            let of_x = forgets_s * forgets_s * integral(dt_s / forgets_s);
            let sigma = drawn.sqrt();
            let along = if sigma > 0.0 { shared / drawn } else { 0.0 };
            let beyond = (of_x - shared * along).max(0.0);
            *process = [1.0 - gone, sigma * variance.sqrt(), forgets_s * gone, along];
            rest += variance * beyond;
            forgets_s *= SPACING;
        }
        law.rest = rest.sqrt();
        law
    }
}

/// 2z − 3 + 4e⁻ᶻ − e⁻²ᶻ: the variance of the integral of a process that is known
/// at its start. For small z by its series, 2z³/3 − z⁴/2 + 7z⁵/30.
fn integral(z: f64) -> f64 {
    if z < 1e-3 {
        return z * z * z * (2.0 / 3.0 - z / 2.0 + 7.0 * z * z / 30.0);
    }
    2.0 * z - 3.0 + 4.0 * libm::exp(-z) - libm::exp(-2.0 * z)
}

/// An oscillator.
#[derive(Debug, Clone)]
pub struct Oscillator {
    noise: Noise,
    stream: RandomStream,
    at_ns: i64,
    /// The error of its time, ns.
    error_ns: f64,
    offset: f64,
    walk: f64,
    processes: [f64; PROCESSES],
    /// Where the day's temperature is: cosine and sine.
    day: [f64; 2],
    /// Of the intervals used last: most are equal, to a ns or two.
    laws: [Law; LAWS],
    next: usize,
}

impl Oscillator {
    /// An oscillator that shows `at_ns` at that time.
    #[must_use]
    pub fn new(noise: Noise, mut stream: RandomStream, at_ns: i64) -> Self {
        let offset = stream.normal() * noise.offset_ppm.0 * 1e-6;
        let angle = stream.unit() * std::f64::consts::TAU;
        let day = [libm::cos(angle), libm::sin(angle)];
        let sigma = noise.flicker.0 / FLICKER_LEVEL;
        let processes = std::array::from_fn(|_| stream.normal() * sigma);
        let laws = [Law::default(); LAWS];
        let walk = 0.0;
        Self { noise, stream, at_ns, error_ns: 0.0, offset, walk, processes, day, laws, next: 0 }
    }

    /// What it is ahead at this true time, ns. Times do not go back.
    pub fn look(&mut self, at_ns: i64) -> f64 {
        let dt_ns = at_ns - self.at_ns;
        if dt_ns <= 0 {
            return self.error_ns;
        }
        let dt_s = dt_ns as f64 * 1e-9;
        let known = self.laws.iter().position(|law| law.dt_s == dt_s);
        let at = known.unwrap_or_else(|| {
            self.next = (self.next + 1) % LAWS;
            self.laws[self.next] = Law::new(&self.noise, dt_s);
            self.next
        });
        let law = &self.laws[at];
        let mut x_s = (self.offset + self.walk) * dt_s;
        let [step, rest] = self.stream.normals();
        let step = step * law.walk[0];
        x_s += step * law.walk[1] + rest * law.rest;
        self.walk += step;
        if self.noise.flicker.0 > 0.0 {
            let draws: [f64; PROCESSES] = self.stream.normals();
            let parts = self.processes.iter_mut().zip(&law.processes).zip(draws);
            for ((y, [left, sigma, by_y, by_draw]), drawn) in parts {
                let drawn = drawn * sigma;
                x_s += *y * by_y + drawn * by_draw;
                *y = *y * left + drawn;
            }
        }
        let turn = law.turn;
        x_s += self.slow_s(self.at_ns, at_ns, turn);
        self.error_ns += x_s * 1e9;
        self.at_ns = at_ns;
        self.error_ns
    }

    /// Counts from this true time on.
    pub fn restart(&mut self, at_ns: i64) {
        self.look(at_ns);
        self.error_ns = 0.0;
    }

    /// What temperature and ageing add, s.
    fn slow_s(&mut self, from_ns: i64, to_ns: i64, turn: [f64; 2]) -> f64 {
        let [from, to] = [from_ns, to_ns].map(|ns| ns as f64 * 1e-9 / DAY_S);
        let mut days = self.noise.ageing_ppm_a_day.0 * 1e-6 * (to * to - from * from) / 2.0;
        if self.noise.temperature_ppm.0 > 0.0 {
            // The day turns by the interval's angle.
            let ([cosine, sine], [by_cosine, by_sine]) = (self.day, turn);
            self.day = [cosine * by_cosine - sine * by_sine, sine * by_cosine + cosine * by_sine];
            let ppm = self.noise.temperature_ppm.0;
            days += ppm * 1e-6 * (cosine - self.day[0]) / std::f64::consts::TAU;
        }
        days * DAY_S
    }
}

#[cfg(test)]
mod tests;
