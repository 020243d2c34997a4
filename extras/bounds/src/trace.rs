//! The traces: a path to three servers, an oscillator, and what happens.

/// One direction of a path: the least delay, and how much longer it takes on average, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) least_ns: f64,
    pub(crate) more_ns: f64,
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// The machine stands for so long and goes on with an oscillator that is faster by this.
    Migration { pause_ns: f64, faster_ppb: f64, is_told: bool },
    /// A server is off by this from now on.
    Lie { server: usize, off_ns: f64 },
    /// No server can be reached.
    Silence,
    /// A second is inserted; the servers announce it until then.
    LeapSecond,
}

/// A trace.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    pub(crate) seed: u64,
    pub(crate) hours: u64,
    pub(crate) there: Way,
    pub(crate) back: Way,
    /// The oscillator's error, and by how much temperature moves it in the course of a day, ppb.
    pub(crate) rate_ppb: f64,
    pub(crate) wander_ppb: f64,
    /// `max-clock-error`, ppb: of a machine that cannot move unnoticed, or of one that can.
    pub(crate) max_clock_error_ppb: u64,
    /// What happens, by the second.
    pub(crate) events: &'static [(u64, Event)],
}

const FAST: Way = Way { least_ns: 180_000.0, more_ns: 20_000.0 };
const NOISY: Way = Way { least_ns: 2_000_000.0, more_ns: 3_000_000.0 };
const SLOW: Way = Way { least_ns: 9_000_000.0, more_ns: 50_000.0 };

const ONE_HOST_PPB: u64 = 15_000;
const TWO_HOSTS_PPB: u64 = 100_000;

/// Of two processors' oscillators.
const OTHER_HOST_PPB: f64 = 60_000.0;

const QUIET: Trace = Trace {
    name: "quiet",
    seed: 1,
    hours: 6,
    there: FAST,
    back: FAST,
    rate_ppb: 17_000.0,
    wander_ppb: 300.0,
    max_clock_error_ppb: ONE_HOST_PPB,
    events: &[],
};

/// All nine.
pub(crate) const TRACES: &[Trace] = &[
    QUIET,
    Trace { name: "noisy", seed: 2, there: NOISY, back: NOISY, ..QUIET },
    Trace { name: "asymmetric", seed: 3, there: SLOW, ..QUIET },
    Trace {
        name: "liar",
        seed: 4,
        events: &[(7200, Event::Lie { server: 2, off_ns: 50e6 })],
        ..QUIET
    },
    Trace { name: "leap second", seed: 5, events: &[(10_800, Event::LeapSecond)], ..QUIET },
    Trace {
        name: "migration, told",
        seed: 6,
        events: &[(
            9000,
            Event::Migration { pause_ns: 3e8, faster_ppb: OTHER_HOST_PPB, is_told: true },
        )],
        ..QUIET
    },
    Trace {
        name: "migration, not told",
        seed: 7,
        max_clock_error_ppb: TWO_HOSTS_PPB,
        events: &[(
            9000,
            Event::Migration { pause_ns: 0.0, faster_ppb: OTHER_HOST_PPB, is_told: false },
        )],
        ..QUIET
    },
    Trace { name: "other oscillator", seed: 8, rate_ppb: -150_000.0, wander_ppb: 5_000.0, ..QUIET },
    Trace {
        name: "a day of holdover",
        seed: 9,
        hours: 27,
        events: &[(7200, Event::Silence)],
        ..QUIET
    },
];
