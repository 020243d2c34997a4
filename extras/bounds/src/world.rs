//! A machine and three servers: the truth, the counter, and the kernel's clock.

use crate::S;
use crate::trace::{Event, Trace, Way};

/// What an NTP server states: its own distance from the truth, which it keeps, ns.
pub(crate) const ROOT_DELAY_NS: f64 = 200_000.0;
pub(crate) const ROOT_DISPERSION_NS: f64 = 300_000.0;
const SERVER_ERROR_NS: f64 = 150_000.0;

/// The day on which the traces begin, and the time since boot then.
const BEGUN_NS: f64 = 1_798_675_200.0 * 1e9;
const BOOTED_NS: f64 = 1e12;

/// One exchange with a server: the counter before and after, what the server shows in between, and
/// what the clock does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) counter_ns: [i64; 2],
    pub(crate) server_ns: i64,
    /// What to add to the kernel's clock, and the most that is off, ns.
    pub(crate) offset_ns: i64,
    pub(crate) bound_ns: u64,
    pub(crate) announces_leap: bool,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct World {
    seed: u64,
    there: Way,
    back: Way,
    rate_ppb: f64,
    wander_ppb: f64,
    /// True time since the beginning, and since 1970 less that, ns.
    passed_ns: f64,
    epoch_ns: f64,
    /// By how much the counter, CLOCK_MONOTONIC and CLOCK_REALTIME are ahead of it, ns.
    counter_ahead_ns: f64,
    monotonic_ahead_ns: f64,
    realtime_ahead_ns: f64,
    frequency_ppb: f64,
    slew_left_ns: f64,
    server_errors_ns: [f64; 3],
    is_silent: bool,
    /// The servers announce a leap second, and the kernel was told of it.
    pub(crate) is_leap_day: bool,
    pub(crate) is_leap_armed: bool,
}

impl World {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut world = Self {
            seed: trace.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            there: trace.there,
            back: trace.back,
            rate_ppb: trace.rate_ppb,
            wander_ppb: trace.wander_ppb,
            passed_ns: 0.0,
            epoch_ns: BEGUN_NS,
            counter_ahead_ns: 0.0,
            monotonic_ahead_ns: 0.0,
            realtime_ahead_ns: 4e6,
            frequency_ppb: 0.0,
            slew_left_ns: 0.0,
            server_errors_ns: [0.0; 3],
            is_silent: false,
            is_leap_day: trace.events.iter().any(|(_, event)| matches!(event, Event::LeapSecond)),
            is_leap_armed: false,
        };
        world.server_errors_ns = [(); 3].map(|()| (2.0 * world.unit() - 1.0) * SERVER_ERROR_NS);
        world
    }

    pub(crate) fn servers(&self) -> usize {
        self.server_errors_ns.len()
    }

    /// xorshift64* (Vigna, 2016).
    fn unit(&mut self) -> f64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        (self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn delay_ns(&mut self, way: Way) -> f64 {
        way.least_ns - way.more_ns * (1.0 - self.unit()).ln()
    }

    /// Time passes.
    pub(crate) fn advance(&mut self, ns: u64) {
        let ns = ns as f64;
        let day = self.passed_ns / (86_400.0 * S as f64) * std::f64::consts::TAU;
        let rate = (self.rate_ppb + self.wander_ppb * day.sin()) * 1e-9;
        let slewed_ns = self.slew_left_ns.clamp(-ns * 5e-4, ns * 5e-4);
        self.slew_left_ns -= slewed_ns;
        let steered_ns = ns * (rate + self.frequency_ppb * 1e-9) + slewed_ns;
        self.counter_ahead_ns += ns * rate;
        self.monotonic_ahead_ns += steered_ns;
        self.realtime_ahead_ns += steered_ns;
        self.passed_ns += ns;
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Migration { pause_ns, faster_ppb, .. } => {
                self.rate_ppb += faster_ppb;
                self.passed_ns += pause_ns;
                self.counter_ahead_ns -= pause_ns;
                self.monotonic_ahead_ns -= pause_ns;
                self.realtime_ahead_ns -= pause_ns;
            }
            Event::Lie { server, off_ns } => self.server_errors_ns[server] = off_ns,
            Event::Silence => self.is_silent = true,
            Event::LeapSecond => {
                self.epoch_ns -= 1e9;
                self.is_leap_day = false;
                // The kernel inserts it too, if it was told.
                if !self.is_leap_armed {
                    self.realtime_ahead_ns += 1e9;
                }
            }
        }
    }

    /// UTC as a number that repeats the inserted second.
    pub(crate) fn truth_ns(&self) -> i64 {
        (self.epoch_ns as i64).saturating_add(self.passed_ns as i64)
    }

    pub(crate) fn counter_ns(&self) -> i64 {
        (BOOTED_NS + self.passed_ns + self.counter_ahead_ns) as i64
    }

    pub(crate) fn monotonic_ns(&self) -> u64 {
        (BOOTED_NS + self.passed_ns + self.monotonic_ahead_ns) as u64
    }

    /// How far CLOCK_REALTIME is off, ns.
    pub(crate) fn error_ns(&self) -> u64 {
        self.realtime_ahead_ns.abs() as u64
    }

    pub(crate) fn step(&mut self, by_ns: i64) {
        self.realtime_ahead_ns += by_ns as f64;
        self.slew_left_ns = 0.0;
    }

    pub(crate) fn slew(&mut self, by_ns: i64) {
        self.slew_left_ns = by_ns as f64;
    }

    pub(crate) fn set_frequency(&mut self, ppb: f64) {
        self.frequency_ppb = ppb;
    }

    /// Asks a server.
    pub(crate) fn exchange(&mut self, server: usize) -> Option<Exchange> {
        let [there_ns, back_ns] = [self.there, self.back].map(|way| self.delay_ns(way));
        if self.is_silent {
            return None;
        }
        let off_ns = self.server_errors_ns[server];
        let round_trip_ns = there_ns + back_ns;
        let sent_ns = self.counter_ns();
        let distance_ns = ROOT_DISPERSION_NS + ROOT_DELAY_NS / 2.0;
        Some(Exchange {
            counter_ns: [sent_ns, sent_ns + round_trip_ns as i64],
            server_ns: self.truth_ns() + (there_ns + off_ns) as i64,
            offset_ns: ((there_ns - back_ns) / 2.0 + off_ns - self.realtime_ahead_ns) as i64,
            bound_ns: (round_trip_ns / 2.0 + distance_ns) as u64 + 1,
            announces_leap: self.is_leap_day,
        })
    }
}
