//! The machine and its program. All is exact integer arithmetic in 2⁻³² ns
//! and cycles, and noise comes from a seed.

use pvclock::units::random::SplitMix64;

use crate::SystemTime;
use crate::timeline::bound::{TimexBound, VmClockBound};
use crate::timeline::maintenance::{Maintenance, MaintenanceReading};
use crate::timeline::published::Published;
use crate::timeline::realtime::RealtimeSample;
use crate::timeline::sample::TimelineSample;
use crate::timeline::steering::{Distrust, SteeringLimits};
use crate::timeline::view::{SegmentPlace, TimeOfDay, TimelineView};

const ONE: i128 = 1 << 32;

/// The settings' defaults.
pub(super) const LIMITS: SteeringLimits = SteeringLimits { segment_ns: 20_000_000, slew_ppm: 500 };

/// The machine.
#[derive(Debug)]
pub(super) struct World {
    tsc: i128,
    mono: i128,
    /// True time, on the scale of `mono`: what the system showed when its error
    /// was last reported as 0, and the time since.
    truth: i128,
    tsc_hz: i128,
    /// Whether the TSC did what cannot be known before the next sample.
    pub(super) tsc_moved: bool,
    /// How much faster than true time the system's clock goes, ppb.
    pub(super) system_ppb: i128,
    pub(super) realtime_offset_ns: i64,
    pub(super) distrust: Option<Distrust>,
    pub(super) identity: u64,
    /// The host bounds the error too, whatever happened.
    pub(super) host_bounds: bool,
    /// One sample in this many is interrupted; 0 for none.
    pub(super) interrupted: u64,
    /// No sample is usable, as on a machine that is always interrupted.
    pub(super) blind: bool,
    random: SplitMix64,
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
            host_bounds: false,
            interrupted: 0,
            blind: false,
            random: SplitMix64::new(seed),
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

    fn sample(&mut self) -> TimelineSample {
        let wait = |world: &mut Self| {
            let interrupted = world.interrupted > 0 && world.random.one_in(world.interrupted);
            let more = if interrupted { world.random.below(30_000) } else { 0 };
            world.random.below(15) + 15 + more
        };
        let before = self.tsc();
        let first = wait(self);
        self.pass(first);
        let ns = self.mono_ns();
        let second = wait(self);
        self.pass(second);
        TimelineSample { before, ns, after: self.tsc() }
    }

    fn reading(&mut self) -> MaintenanceReading {
        let now_ns = self.mono_ns();
        self.truth = self.mono;
        let samples = [self.sample(), self.sample(), self.sample()];
        let best = samples.into_iter().min_by_key(TimelineSample::width);
        let before_ns = self.mono_ns();
        self.pass(25);
        let realtime_ns = self.mono_ns() as i64 + self.realtime_offset_ns;
        self.pass(25);
        MaintenanceReading {
            now_ns,
            sample: best
                .filter(|best| best.width() < 10_000 && !self.blind && self.distrust.is_none()),
            realtime: RealtimeSample { before_ns, realtime_ns, after_ns: self.mono_ns() },
            timex: Some(TimexBound { max_error_ns: 0, synchronised: true }),
            segment: None,
            vmclock: Some(VmClockBound {
                identity: (self.identity, 7),
                error_ns: self.host_bounds.then_some(0),
            }),
            distrust: self.distrust,
            now_tsc: self.tsc(),
        }
    }
}

/// The result of a read, and true time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    pub(super) ns: u64,
    pub(super) system_ns: u64,
    /// Whether it is from a segment.
    pub(super) by_tsc: bool,
    pub(super) view: TimelineView,
    /// How far true time is outside the error.
    beyond_error_ns: u64,
}

impl Read {
    pub(super) fn away_ns(&self) -> u64 {
        self.ns.abs_diff(self.system_ns)
    }
}

/// A program that does what `Clock` does.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) world: World,
    pub(super) maintenance: Maintenance,
    published: Published,
    last_ns: u64,
    /// Whether the clock is maintained, as by `Maintainer`.
    pub(super) maintained: bool,
    /// How often a reader had to maintain the clock.
    pub(super) maintained_by_readers: u64,
}

impl Program {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            maintenance: Maintenance::new(LIMITS, None, 0),
            published: Published::empty(),
            last_ns: 0,
            maintained: false,
            maintained_by_readers: 0,
        }
    }

    fn step(&mut self) {
        let reading = self.world.reading();
        let view = self.maintenance.step(&reading);
        self.published.publish(&view);
    }

    /// A read, as `Clock::read_slowly` does it. It never goes back, and true
    /// time is within its error unless the TSC did what cannot be known.
    pub(super) fn read(&mut self) -> Read {
        let result = loop {
            let (_, view) = self.published.view();
            let (tsc, system_ns) = (self.world.tsc(), self.world.mono_ns());
            let truth_ns = self.world.truth_ns();
            let read = |time: TimeOfDay, by_tsc| Read {
                ns: time.monotonic_ns,
                system_ns,
                by_tsc,
                view,
                beyond_error_ns: SystemTime::new(&time).error().map_or(0, |error| {
                    time.monotonic_ns.abs_diff(truth_ns).saturating_sub(error.as_nanos() as u64)
                }),
            };
            match view.place(tsc) {
                SegmentPlace::On(ns) => break read(view.time_of_day(ns), true),
                SegmentPlace::Due(ns) => {
                    self.maintained_by_readers += 1;
                    self.step();
                    break read(view.time_of_day(ns), true);
                }
                SegmentPlace::Off if system_ns < view.retry_ns => {
                    break read(view.off(system_ns), false);
                }
                SegmentPlace::Off => {
                    self.maintained_by_readers += 1;
                    self.step();
                }
            }
        };
        assert!(result.ns >= self.last_ns, "{} ns back: {result:?}", self.last_ns - result.ns);
        self.last_ns = result.ns;
        assert!(
            result.beyond_error_ns == 0 || result.by_tsc && self.world.tsc_moved,
            "true time is not within the error: {result:?}"
        );
        result
    }

    /// Reads again and again for `ns`, at random distances of 20 µs and more;
    /// returns the read that was farthest off.
    pub(super) fn run(&mut self, ns: u64) -> Read {
        let end_ns = self.world.mono_ns() + ns;
        let mut worst = self.read();
        while self.world.mono_ns() < end_ns {
            let pause_ns = 20_000 + self.world.random.below(400_000);
            self.world.pass(pause_ns);
            if self.maintained && self.maintenance.view.is_half_over(self.world.tsc()) {
                self.step();
            }
            let read = self.read();
            if read.away_ns() > worst.away_ns() {
                worst = read;
            }
        }
        worst
    }

    pub(super) fn disruptions(&self) -> u64 {
        self.maintenance.steering.disruptions
    }
}
