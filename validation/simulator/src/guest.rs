//! One guest from its start to the end of the run: looks and faults, in order.

use host::RestorePolicy;

use crate::checks::Promise;
use crate::fault::{Absence, FaultKind, Planned};
use crate::fleet::Simulation;
use crate::kept::{INTERVAL, SimulatedKeeper};
use crate::kernel::SimulatedKernel;
use crate::random::{Purpose, RandomStream};
use crate::scenario::{Scenario, ScenarioCorrector, ns};
use crate::tally::SimulationTally;
use crate::world::SimulatedWorld;

const S: i64 = 1_000_000_000;

/// The observer goes on looking so long after what happened, true ns.
const ATTENTION_NS: i64 = 1_200_000_000;

/// And so often, ns: as planned, and while evidence is gathered.
const LOOK_NS: i64 = INTERVAL.as_nanos() as i64;
const GATHER_NS: i64 = 50_000_000;

/// A process that was due runs so long after the guest goes on, ns.
const WOKEN_NS: i64 = 2_000_000;

/// A guest.
pub(crate) struct SimulatedGuest<'s> {
    scenario: &'s Scenario,
    poll_ns: i64,
    world: SimulatedWorld,
    /// What corrects its clock, where something does.
    keeper: Option<Box<SimulatedKeeper>>,
    next_poll_ns: i64,
    /// When the observer looks next, and until when it does.
    next_look_ns: i64,
    attends_until_ns: i64,
    /// Until when what corrects the clock does not run.
    gone_until_ns: i64,
}

impl<'s> SimulatedGuest<'s> {
    pub(crate) fn new(run: &Simulation<'s>, guest: u64) -> Option<Self> {
        let scenario = run.scenario;
        let mut stream = RandomStream::new(run.seed, guest, Purpose::Boot);
        let world = SimulatedWorld::new(scenario, (run.seed, guest))?;
        let poll_ns = scenario.poll_s.cast_signed() * S;
        let is_kept = run.corrector == ScenarioCorrector::Keeper;
        let keeper = is_kept.then(|| Box::new(SimulatedKeeper::new(&world, scenario)));
        let next_poll_ns = S + (stream.unit() * poll_ns as f64) as i64;
        Some(Self {
            scenario,
            poll_ns,
            world,
            keeper,
            next_poll_ns,
            next_look_ns: S / 2,
            attends_until_ns: ATTENTION_NS,
            gone_until_ns: 0,
        })
    }

    /// All of it.
    pub(crate) fn run(
        mut self,
        plan: &[Planned],
        span_ns: i64,
        tally: &mut SimulationTally,
    ) -> SimulatedWorld {
        for event in plan {
            self.quiet(event.at_ns, tally);
            self.happens(event, tally);
        }
        self.quiet(span_ns, tally);
        self.world
    }

    /// Up to `until_ns` nothing happens, but a leap second.
    fn quiet(&mut self, until_ns: i64, tally: &mut SimulationTally) {
        let leap_ns = self.world.truth.leap_ns();
        if let Some(leap_ns) = leap_ns.filter(|at| (self.world.now_ns..until_ns).contains(at)) {
            self.looks_until(leap_ns - 1, tally);
            self.attend(leap_ns);
            tally.happened(&self.world, None);
        }
        self.looks_until(until_ns, tally);
    }

    fn looks_until(&mut self, until_ns: i64, tally: &mut SimulationTally) {
        loop {
            let looks_ns = if self.attends_until_ns > self.world.now_ns {
                self.next_look_ns
            } else {
                i64::MAX
            };
            let next_ns = self.next_poll_ns.min(looks_ns);
            if next_ns >= until_ns {
                self.world.advance(until_ns);
                return tally.look(&mut self.world);
            }
            self.world.advance(next_ns);
            tally.look(&mut self.world);
            if next_ns == self.next_poll_ns {
                self.next_poll_ns += self.poll_ns;
                self.poll();
            } else {
                self.look();
            }
            tally.corrected(&self.world);
        }
    }

    fn poll(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.poll(&mut self.world);
        }
        self.follow();
    }

    /// The observer looks.
    fn look(&mut self) {
        let mut after_ns = LOOK_NS;
        if let Some(keeper) = &mut self.keeper {
            keeper.round(&mut self.world, true);
            after_ns = if keeper.is_gathering() { GATHER_NS } else { LOOK_NS };
        }
        self.next_look_ns = self.world.now_ns + after_ns;
        self.follow();
    }

    /// What a poll or a step of the keeper's brings.
    fn follow(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        self.next_poll_ns = self.world.now_ns + keeper.waits_ns(&self.world);
        if std::mem::take(&mut keeper.has_stepped) {
            self.attends_until_ns = self.world.now_ns + ATTENTION_NS;
            self.next_look_ns = self.next_look_ns.max(self.world.now_ns + GATHER_NS);
        }
    }

    /// Looks as the daemon would have before what happens at `at_ns`, and after.
    fn attend(&mut self, at_ns: i64) {
        if self.world.now_ns < self.gone_until_ns {
            return;
        }
        if self.attends_until_ns < self.world.now_ns {
            if let Some(keeper) = &mut self.keeper {
                keeper.attend();
            }
            for before_ns in [0, GATHER_NS] {
                self.world.advance(self.world.now_ns + before_ns);
                self.look();
            }
        }
        self.attends_until_ns = at_ns + ATTENTION_NS;
    }

    fn happens(&mut self, event: &Planned, tally: &mut SimulationTally) {
        self.attend(self.world.now_ns);
        self.world.counts.faults += 1;
        let from_ns = self.world.now_ns;
        tally.happened(&self.world, Some(event.fault.kind));
        let until_ns = from_ns + event.length_ns;
        let fault = &event.fault;
        match fault.kind {
            FaultKind::ServerLies => {
                self.world.network.lie(fault.server, ns(fault.off_s), until_ns);
            }
            FaultKind::NetworkDown => self.world.network.fail(until_ns),
            FaultKind::StealBurst => self.world.stolen.begin(ns(fault.off_s), until_ns),
            FaultKind::ClockSet => {
                let _ = self.world.kernel.step(ns(fault.off_s));
            }
            FaultKind::KeeperGone => {
                self.restart();
                self.gone_until_ns = until_ns;
            }
            FaultKind::WrongRtc => self.boot(ns(fault.off_s)),
            FaultKind::WrongFrequency => {
                let SimulatedWorld { machine, truth, .. } = &mut self.world;
                machine.advertise(fault.factor, from_ns, truth);
            }
            FaultKind::CounterReset => {
                let SimulatedWorld { machine, truth, .. } = &mut self.world;
                machine.reset_counter(from_ns, truth);
            }
            _ => self.away(event, from_ns, until_ns),
        }
        self.world.skip(self.world.now_ns);
        let resumed_ns = self.world.now_ns;
        self.attends_until_ns = resumed_ns + ATTENTION_NS;
        self.next_look_ns = resumed_ns + WOKEN_NS;
        self.next_poll_ns = self.next_poll_ns.max(resumed_ns + 2 * WOKEN_NS);
        if resumed_ns < self.gone_until_ns {
            self.next_poll_ns = self.next_poll_ns.max(self.gone_until_ns);
            (self.next_look_ns, self.attends_until_ns) = (i64::MAX, resumed_ns);
        }
        tally.goes_on(&self.world);
        tally.look(&mut self.world);
    }

    /// It does not run until `until_ns`.
    fn away(&mut self, event: &Planned, from_ns: i64, until_ns: i64) {
        let SimulatedWorld { machine, truth, checks, counted, .. } = &mut self.world;
        let freezes = event.fault.away == Absence::Freeze;
        match event.fault.kind {
            FaultKind::Pause => machine.pause((from_ns, until_ns), freezes, truth),
            FaultKind::HostSleep => machine.sleep(from_ns, until_ns, truth),
            FaultKind::Steal => {
                counted.stolen_ns += event.length_ns.cast_unsigned();
            }
            _ => {
                let tsc = machine.tsc(from_ns);
                let before_ns = machine.page_ns(tsc);
                let saved = machine.save(from_ns, truth);
                let is_moved = event.fault.kind == FaultKind::Migrate;
                let policy = if freezes { RestorePolicy::Freeze } else { RestorePolicy::Advance };
                if let Ok(bound) = machine.restore(&saved, policy, is_moved, until_ns, truth) {
                    let tsc = machine.tsc(until_ns);
                    let away_ns = if freezes { 0 } else { event.length_ns };
                    let moved_ns = machine.page_ns(tsc).wrapping_sub(before_ns).cast_signed();
                    let step_ns = (moved_ns - away_ns).abs();
                    let most_ns = bound.bound.0.cast_signed();
                    checks.at_most(Promise::PlannedStep, until_ns, step_ns, most_ns);
                }
            }
        }
        self.world.skip(until_ns);
    }

    /// The guest boots, by an RTC that is off.
    fn boot(&mut self, off_ns: i64) {
        let SimulatedWorld { machine, truth, now_ns, .. } = &mut self.world;
        let at_ns = *now_ns;
        let rtc_ns = truth.utc_ns(at_ns).saturating_add(off_ns).div_euclid(S) * S;
        self.world.kernel = SimulatedKernel::boot(self.scenario.counter, machine, at_ns, rtc_ns);
        self.world.checks.boot();
        self.restart();
    }

    /// What corrects the clock starts anew.
    fn restart(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            **keeper = SimulatedKeeper::new(&self.world, self.scenario);
        }
    }
}
