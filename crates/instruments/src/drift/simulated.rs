//! A reference of known frequency behind a network of known jitter.

use super::{Nesting, Reading, Span};

/// Numbers of a seed: SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// How long a way takes beyond its least, ns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Jitter {
    /// Anything up to this.
    Uniform(f64),
    /// Queues: this on average, now and then many times as long.
    Exponential(f64),
    /// The absolute value of a normal distribution of this deviation.
    HalfNormal(f64),
}

impl Jitter {
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Self::Uniform(most) => most * random.unit(),
            Self::Exponential(mean) => -mean * (1.0 - random.unit()).ln(),
            Self::HalfNormal(deviation) => {
                let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
                deviation * (radius * (random.unit() * std::f64::consts::TAU).cos()).abs()
            }
        }
    }
}

/// A server and the way to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    /// Its frequency error, ppm.
    pub(super) ppm: f64,
    /// The least time of a way, ns: there and back.
    pub(super) least_ns: (f64, f64),
    pub(super) jitter: Jitter,
    /// It steps by so much, ns, at this true time, ns.
    pub(super) step: Option<(f64, f64)>,
    /// The share of requests without a reply.
    pub(super) loss: f64,
}

impl Server {
    pub(super) fn new(ppm: f64, jitter: Jitter) -> Self {
        Self { ppm, least_ns: (200_000.0, 300_000.0), jitter, step: None, loss: 0.0 }
    }

    fn time_at(&self, true_ns: f64) -> u64 {
        let stepped = self.step.filter(|(_, at)| true_ns >= *at).map_or(0.0, |(step, _)| step);
        let elapsed = true_ns * (1.0 + self.ppm / 1e6) + stepped;
        1_795_000_000_000_000_000 + elapsed.round() as u64
    }

    /// What a client with a perfect clock that counts from 5 s sees, asking
    /// each `interval_s` for `length_s`.
    pub(super) fn poll(&self, seed: u64, interval_s: f64, length_s: f64) -> Vec<Reading> {
        let mut random = Random(seed);
        let mut readings = Vec::new();
        for request in 0..(length_s / interval_s) as usize {
            let sent = request as f64 * interval_s * 1e9;
            let received = sent + self.least_ns.0 + self.jitter.draw(&mut random);
            let replied = received + 20_000.0;
            let back = replied + self.least_ns.1 + self.jitter.draw(&mut random);
            if random.unit() < self.loss {
                continue;
            }
            let clock = |true_ns: f64| 5_000_000_000 + true_ns.round() as u64;
            readings.push(Reading {
                clock: Span { before: clock(sent), after: clock(back) },
                reference: Span { before: self.time_at(received), after: self.time_at(replied) },
                nesting: Nesting::ClockOutside,
            });
        }
        readings
    }
}
