//! An oscillator's error, drawn only when somebody looks.
//!
//! The error of its time, x, is what its fractional frequency y adds up to:
//!
//! | part | y | Allan deviation over τ |
//! | --- | --- | --- |
//! | white | white noise | `white` / √τ |
//! | walk | a random walk | `walk` · √τ |
//! | temperature | a day's sine | |
//!
//! The first two are Gaussian with known moments over any interval, so what is drawn after
//! an hour has the law of 3600 draws a second apart (Zucca and Tavella, IEEE Trans. UFFC 52(2),
//! 2005). All that moves x and nothing that is remembered is one draw.
//!
//! # A worked example
//!
//! White noise of 1e-9 at 1 s, seen after 100 s: x has moved by 1e-9 · √100 s =
//! 10 ns of deviation. A walk of 1e-12 at 1 s: its y has moved by 1e-12 · √(3 ·
//! 100) = 1.7e-11, its x by 1e-12 · √(100³) = 1 ns.

use serde::Deserialize;

use crate::random::RandomStream;

const DAY_S: f64 = 86_400.0;

/// What is wrong with an oscillator.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Deviation of the constant error among oscillators, ppm.
    pub offset_ppm: f64,
    /// White frequency noise: Allan deviation at 1 s.
    pub white: f64,
    /// Random walk of the frequency: Allan deviation at 1 s.
    pub walk: f64,
    /// Amplitude of the day's temperature, ppm.
    pub temperature_ppm: f64,
}

impl Default for Noise {
    /// A server's crystal, after its kernel has calibrated it.
    fn default() -> Self {
        Self { offset_ppm: 2.0, white: 1e-9, walk: 1e-11, temperature_ppm: 0.05 }
    }
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
    /// Where the day's temperature began, radians.
    phase: f64,
}

impl Oscillator {
    /// An oscillator that shows `at_ns` at that time.
    #[must_use]
    pub fn new(noise: Noise, mut stream: RandomStream, at_ns: i64) -> Self {
        let offset = stream.normal() * noise.offset_ppm * 1e-6;
        let phase = stream.unit() * std::f64::consts::TAU;
        Self { noise, stream, at_ns, error_ns: 0.0, offset, walk: 0.0, phase }
    }

    /// What it is ahead at this true time, ns. Times do not go back.
    pub fn look(&mut self, at_ns: i64) -> f64 {
        let dt_ns = at_ns - self.at_ns;
        if dt_ns <= 0 {
            return self.error_ns;
        }
        let dt_s = dt_ns as f64 * 1e-9;
        // E[Δy²] = 3 walk² dt; E[Δx Δy] = that · dt/2; Var[Δx] = that · dt²/3.
        let walk = self.noise.walk * (3.0 * dt_s).sqrt();
        let white = self.noise.white * dt_s.sqrt();
        let rest = (white * white + walk * walk * dt_s * dt_s / 12.0).sqrt();
        let step = self.stream.normal() * walk;
        let mut x_s = (self.offset + self.walk + step / 2.0) * dt_s;
        x_s += self.stream.normal() * rest;
        x_s += self.warmth_s(at_ns) - self.warmth_s(self.at_ns);
        self.walk += step;
        self.error_ns += x_s * 1e9;
        self.at_ns = at_ns;
        self.error_ns
    }

    /// Counts from this true time on.
    pub fn restart(&mut self, at_ns: i64) {
        self.look(at_ns);
        self.error_ns = 0.0;
    }

    /// What the day's temperature has added, s.
    fn warmth_s(&self, at_ns: i64) -> f64 {
        let turn = std::f64::consts::TAU / DAY_S;
        let angle = self.phase + at_ns as f64 * 1e-9 * turn;
        -libm::cos(angle) * self.noise.temperature_ppm * 1e-6 / turn
    }
}

#[cfg(test)]
mod tests;
