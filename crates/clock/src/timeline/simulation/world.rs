//! The machine and its program. All is exact integer arithmetic in 2⁻³² ns
//! and cycles, and noise comes from a seed.

use crate::system_time::SystemTime;
use crate::timeline::bound::{Timex, VmClock};
use crate::timeline::maintenance::{Maintenance, Reading};
use crate::timeline::published::{Place, Published, TimeOfDay, View};
use crate::timeline::realtime::RealtimeSample;
use crate::timeline::sample::Sample;
use crate::timeline::steering::{Distrust, Limits};

const ONE: i128 = 1 << 32;

/// The settings' defaults.
pub(super) const LIMITS: Limits = Limits { segment_ns: 20_000_000, slew_ppm: 500 };

/// The machine.
#[derive(Debug)]
pub(super) struct World {
    tsc: i128,
    mono: i128,
    /// The truth, on the scale of `mono`, as far off as somebody's word lets
    /// it be: what the system said when it was last vouched for with an error
    /// of 0, and true time since.
    truth: i128,
    tsc_hz: i128,
    /// Whether the TSC did what nobody can know before the next look at it.
    pub(super) tsc_moved: bool,
    /// How much faster than true time the system's clock goes, ppb.
    pub(super) system_ppb: i128,
    pub(super) realtime_offset_ns: i64,
    pub(super) distrust: Option<Distrust>,
    pub(super) identity: u64,
    /// The host vouches for the time too, whatever happened.
    pub(super) host_vouches: bool,
    /// One sample in this many is interrupted; 0 for none.
    pub(super) interrupted: u64,
    /// No sample is of use, as on a machine that is never left in peace.
    pub(super) blind: bool,
    seed: u64,
}

impl World {
    pub(super) fn new(tsc_hz: i128, seed: u64) -> Self {
        Self {
            tsc: 5_000_000_000 * ONE,
            mono: 2_000_000_000 * ONE,
            truth: 2_000_000_000 * ONE,
            tsc_hz,
            tsc_moved: false,
            system_ppb: 0,
            realtime_offset_ns: 1_700_000_000_000_000_000,
            distrust: None,
            identity: 1,
            host_vouches: false,
            interrupted: 0,
            blind: false,
            seed: seed.wrapping_mul(2).wrapping_add(1),
        }
    }

    /// Lets `ns` of true time pass.
    pub(super) fn pass(&mut self, ns: u64) {
        let ns = i128::from(ns);
        self.tsc += ns * self.tsc_hz * ONE / 1_000_000_000;
        self.mono += ns * (1_000_000_000 + self.system_ppb) * ONE / 1_000_000_000;
        self.truth += ns * ONE;
    }

    /// Moves the TSC alone.
    pub(super) fn shift_tsc(&mut self, cycles: i128) {
        self.tsc += cycles * ONE;
        self.tsc_moved = true;
    }

    /// Moves the program to a machine with another TSC.
    pub(super) fn set_tsc_hz(&mut self, hz: i128) {
        self.tsc_hz = hz;
        self.tsc_moved = true;
    }

    pub(super) fn tsc(&self) -> u64 {
        (self.tsc >> 32) as u64
    }

    pub(super) fn mono_ns(&self) -> u64 {
        (self.mono >> 32) as u64
    }

    fn truth_ns(&self) -> u64 {
        (self.truth >> 32) as u64
    }

    /// A number below `below`, by xorshift.
    pub(super) fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn sample(&mut self) -> Sample {
        let wait = |world: &mut Self| {
            let interrupted = world.interrupted > 0 && world.random(world.interrupted) == 0;
            let more = if interrupted { world.random(30_000) } else { 0 };
            world.random(15) + 15 + more
        };
        let before = self.tsc();
        let first = wait(self);
        self.pass(first);
        let ns = self.mono_ns();
        let second = wait(self);
        self.pass(second);
        Sample { before, ns, after: self.tsc() }
    }

    fn reading(&mut self) -> Reading {
        let now_ns = self.mono_ns();
        self.truth = self.mono;
        let samples = [self.sample(), self.sample(), self.sample()];
        let best = samples.into_iter().min_by_key(Sample::width);
        let before_ns = self.mono_ns();
        self.pass(25);
        let realtime_ns = self.mono_ns() as i64 + self.realtime_offset_ns;
        self.pass(25);
        Reading {
            now_ns,
            sample: best
                .filter(|best| best.width() < 10_000 && !self.blind && self.distrust.is_none()),
            realtime: RealtimeSample { before_ns, realtime_ns, after_ns: self.mono_ns() },
            timex: Some(Timex { max_error_ns: 0, synchronised: true }),
            chronyd: None,
            vmclock: Some(VmClock {
                identity: (self.identity, 7),
                error_ns: self.host_vouches.then_some(0),
            }),
            distrust: self.distrust,
            now_tsc: self.tsc(),
        }
    }
}

/// What a read told, and what was true.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) ns: u64,
    pub(super) system_ns: u64,
    /// Whether a segment told it.
    pub(super) by_tsc: bool,
    pub(super) view: View,
    /// How far the truth lies outside of what was told with its error.
    beyond_error_ns: u64,
}

impl Told {
    pub(super) fn away_ns(&self) -> u64 {
        self.ns.abs_diff(self.system_ns)
    }
}

/// A program that does as `Clock` does.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) world: World,
    pub(super) maintenance: Maintenance,
    published: Published,
    last_ns: u64,
    /// Whether somebody keeps the clock, as `Keeper` does.
    pub(super) kept: bool,
    /// Times that a reader had to see to the clock.
    pub(super) seen_to_by_readers: u64,
}

impl Program {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            maintenance: Maintenance::new(LIMITS, None, 0),
            published: Published::empty(),
            last_ns: 0,
            kept: false,
            seen_to_by_readers: 0,
        }
    }

    fn step(&mut self) {
        let reading = self.world.reading();
        let view = self.maintenance.step(&reading);
        self.published.publish(&view);
    }

    /// A read, as `Clock::read_slowly` does it. It never goes back, and the
    /// truth is within its error unless the TSC did the unforeseeable.
    pub(super) fn read(&mut self) -> Told {
        let told = loop {
            let (_, view) = self.published.view();
            let (tsc, system_ns) = (self.world.tsc(), self.world.mono_ns());
            let truth_ns = self.world.truth_ns();
            let told = |time: TimeOfDay, by_tsc| Told {
                ns: time.monotonic_ns,
                system_ns,
                by_tsc,
                view,
                beyond_error_ns: SystemTime::of(&time).error().map_or(0, |error| {
                    time.monotonic_ns.abs_diff(truth_ns).saturating_sub(error.as_nanos() as u64)
                }),
            };
            match view.place(tsc) {
                Place::On(ns) => break told(view.on(ns), true),
                Place::Due(ns) => {
                    self.seen_to_by_readers += 1;
                    self.step();
                    break told(view.on(ns), true);
                }
                Place::Off if system_ns < view.retry_ns => {
                    break told(view.off(system_ns), false);
                }
                Place::Off => {
                    self.seen_to_by_readers += 1;
                    self.step();
                }
            }
        };
        assert!(told.ns >= self.last_ns, "{} ns back: {told:?}", self.last_ns - told.ns);
        self.last_ns = told.ns;
        assert!(
            told.beyond_error_ns == 0 || told.by_tsc && self.world.tsc_moved,
            "the truth is not within the error: {told:?}"
        );
        told
    }

    /// Reads again and again for `ns`, at random distances of 20 µs and more;
    /// returns the read that was farthest off.
    pub(super) fn run(&mut self, ns: u64) -> Told {
        let end_ns = self.world.mono_ns() + ns;
        let mut worst = self.read();
        while self.world.mono_ns() < end_ns {
            let pause_ns = 20_000 + self.world.random(400_000);
            self.world.pass(pause_ns);
            if self.kept && self.maintenance.view.is_half_over(self.world.tsc()) {
                self.step();
            }
            let told = self.read();
            if told.away_ns() > worst.away_ns() {
                worst = told;
            }
        }
        worst
    }

    pub(super) fn disruptions(&self) -> u64 {
        self.maintenance.steering.disruptions
    }
}
