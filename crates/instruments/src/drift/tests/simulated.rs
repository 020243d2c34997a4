//! A reference of known frequency behind a network of known jitter.

use pvclock::units::random::SplitMix64;

use crate::drift::{DriftReading, Nesting, Span};

/// How long a way takes beyond its least, ns.
#[derive(Debug, Clone, Copy)]
pub(in crate::drift) enum Jitter {
    /// Anything up to this.
    Uniform(f64),
    /// Queues: this on average, now and then many times as long.
    Exponential(f64),
    /// The absolute value of a normal distribution of this deviation.
    HalfNormal(f64),
}

impl Jitter {
    fn draw(self, random: &mut SplitMix64) -> f64 {
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
pub(in crate::drift) struct SimulatedServer {
    /// Its frequency error, ppm.
    pub(in crate::drift) ppm: f64,
    /// The least time of a way, ns: there and back.
    pub(in crate::drift) least_ns: (f64, f64),
    pub(in crate::drift) jitter: Jitter,
    /// It steps by so much, ns, at this true time, ns.
    pub(in crate::drift) step: Option<(f64, f64)>,
    /// The share of requests without a reply.
    pub(in crate::drift) loss: f64,
    /// Wrong answers: by so much, ns, with this chance of a first one and that
    /// of another right after it.
    pub(in crate::drift) wrong: Option<WrongInterval>,
    /// Times in which the way back takes longer.
    pub(in crate::drift) busy: Option<BusySchedule>,
}

/// A host that is busy now and then: then replies wait for the virtual CPU.
#[derive(Debug, Clone, Copy)]
pub(in crate::drift) struct BusySchedule {
    /// How much longer replies take then, ns on average.
    pub(in crate::drift) mean_ns: f64,
    /// How long it is busy, and not, s on average.
    pub(in crate::drift) lasts_s: f64,
}

/// Wrong answers.
#[derive(Debug, Clone, Copy)]
pub(in crate::drift) struct WrongInterval {
    /// Up to so far off, ns, either way, and a tenth of it at least.
    pub(in crate::drift) up_to_ns: f64,
    /// The chance of one.
    pub(in crate::drift) chance: f64,
    /// How many in a row.
    pub(in crate::drift) in_a_row: u32,
}

impl SimulatedServer {
    pub(in crate::drift) fn new(ppm: f64, jitter: Jitter) -> Self {
        let least_ns = (200_000.0, 300_000.0);
        Self { ppm, least_ns, jitter, step: None, loss: 0.0, wrong: None, busy: None }
    }

    fn time_at(&self, true_ns: f64) -> u64 {
        let stepped = self.step.filter(|(_, at)| true_ns >= *at).map_or(0.0, |(step, _)| step);
        let elapsed = true_ns * (1.0 + self.ppm / 1e6) + stepped;
        1_795_000_000_000_000_000 + elapsed.round() as u64
    }

    /// What a client with a perfect clock that counts from 5 s sees, asking
    /// each `interval_s` for `length_s`.
    pub(in crate::drift) fn poll(
        &self,
        seed: u64,
        interval_s: f64,
        length_s: f64,
    ) -> Vec<DriftReading> {
        let mut random = SplitMix64::new(seed);
        // Of its own, so that a server that lies is the clean one but for its lies.
        let mut lies = SplitMix64::new(!seed);
        let mut phases = SplitMix64::new(seed.rotate_left(32));
        let (mut is_busy, mut phase_ends_ns) = (seed.is_multiple_of(2), 0.0);
        let (mut left, mut off_ns) = (0, 0.0);
        let mut readings = Vec::new();
        for request in 0..(length_s / interval_s) as usize {
            let sent = request as f64 * interval_s * 1e9;
            let received = sent + self.least_ns.0 + self.jitter.draw(&mut random);
            let replied = received + 20_000.0;
            let mut back = replied + self.least_ns.1 + self.jitter.draw(&mut random);
            if let Some(BusySchedule { mean_ns, lasts_s }) = self.busy {
                if sent >= phase_ends_ns {
                    is_busy = !is_busy;
                    phase_ends_ns = sent + Jitter::Exponential(lasts_s * 1e9).draw(&mut phases);
                }
                back += f64::from(is_busy) * Jitter::Exponential(mean_ns).draw(&mut phases);
            }
            if random.unit() < self.loss {
                continue;
            }
            if let (0, Some(wrong)) = (left, self.wrong.filter(|one| lies.unit() < one.chance)) {
                let sign = if lies.unit() < 0.5 { -1.0 } else { 1.0 };
                (left, off_ns) =
                    (wrong.in_a_row, sign * wrong.up_to_ns * (0.1 + 0.9 * lies.unit()));
            }
            let off_ns = if left > 0 { off_ns } else { 0.0 };
            left = u32::saturating_sub(left, 1);
            let clock = |true_ns: f64| 5_000_000_000 + true_ns.round() as u64;
            let shown = |true_ns: f64| self.time_at(true_ns).saturating_add_signed(off_ns as i64);
            readings.push(DriftReading {
                clock: Span { before: clock(sent), after: clock(back) },
                reference: Span { before: shown(received), after: shown(replied) },
                nesting: Nesting::ClockOutside,
            });
        }
        readings
    }
}

/// Another clock of the machine, read around ours: a hardware clock's device,
/// or one that shows whole steps of `granule_ns`.
pub(in crate::drift) fn around(
    seed: u64,
    ppm: f64,
    bracket_ns: f64,
    granule_ns: u64,
    s: f64,
) -> Vec<DriftReading> {
    let mut random = SplitMix64::new(seed);
    let reading = |request: u32| {
        let at = f64::from(request) * 1e8 + 1e6 * random.unit();
        let (there, back) = (bracket_ns * random.unit(), bracket_ns * random.unit());
        let reference = |true_ns: f64| 7_000_000_000 + true_ns.round() as u64;
        let shown = 9_000_000_000 + (at * (1.0 + ppm / 1e6)) as u64;
        let shown = shown - shown % granule_ns;
        DriftReading {
            clock: Span { before: shown, after: shown + (granule_ns - 1) },
            reference: Span { before: reference(at - there), after: reference(at + back) },
            nesting: Nesting::ReferenceOutside,
        }
    };
    (0..(s * 10.0) as u32).map(reading).collect()
}

/// Both clocks latched at one instant, as KVM_HC_CLOCK_PAIRING and cards with cross
/// timestamps do it, each shown in whole ns: the clock is ahead by `ahead_ns` at the
/// start.
pub(in crate::drift) fn latched(seed: u64, ppm: f64, ahead_ns: f64, s: f64) -> Vec<DriftReading> {
    let mut random = SplitMix64::new(seed);
    let reading = |request: u32| {
        let at = 7e9 + f64::from(request) * 1e8 + 1e6 * random.unit();
        let clock = at + ahead_ns + (at - 7e9) * ppm / 1e6;
        let shown = |ns: f64| Span::instant(ns.floor() as u64);
        DriftReading { clock: shown(clock), reference: shown(at), nesting: Nesting::ClockOutside }
    };
    (0..(s * 10.0) as u32).map(reading).collect()
}

/// A clock of whole seconds, seen to change between two looks at it.
pub(in crate::drift) fn at_edges(
    seed: u64,
    ppm: f64,
    between_looks_ns: f64,
    seconds: u64,
) -> Vec<DriftReading> {
    let mut random = SplitMix64::new(seed);
    let reading = |second: u64| {
        let edge = (second as f64 * 1e9 + 3e8) / (1.0 + ppm / 1e6);
        let before = edge - between_looks_ns * random.unit();
        let reference = |true_ns: f64| 7_000_000_000 + true_ns.round() as u64;
        DriftReading {
            clock: Span::instant(1_795_000_000_000_000_000 + second * 1_000_000_000),
            reference: Span {
                before: reference(before),
                after: reference(before + between_looks_ns * 1.1),
            },
            nesting: Nesting::ReferenceOutside,
        }
    };
    (0..seconds).map(reading).collect()
}
