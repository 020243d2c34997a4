//! The keeper of `parachron keep`, driven as the daemon drives it.

use disruptions::{Disruption, Kind, Size};
use keeper::{Action, Announced, AnnouncedScale, Keeper, Policy, SourceKind};
use pvclock::units::{LeapSecond, OffsetBound};

use crate::clockbound::ClockBound;
use crate::trace::Trace;
use crate::world::World;

/// The keeper, and what the next sample shows it.
pub(crate) struct Kept {
    keeper: Keeper,
    disruptions: Vec<Disruption>,
}

impl Kept {
    pub(crate) fn new(trace: &Trace, poll_ns: u64) -> Self {
        let max_clock_error_ppb = trace.max_clock_error_ppb;
        let policy = Policy { poll_ns, max_clock_error_ppb, ..Policy::default() };
        let mut keeper = Keeper::new(policy, &[SourceKind::Ntp; 3]);
        keeper.start_at(0.0, None);
        Self { keeper, disruptions: Vec::new() }
    }

    /// A VMClock page's marker shows a migration, and not for how long it took.
    pub(crate) fn disrupt(&mut self, world: &World) {
        self.disruptions.push(Disruption {
            kinds: Kind::Migrated.into(),
            at_monotonic_ns: world.monotonic_ns(),
            size: None::<Size>,
            behind: None,
            evidence: Vec::new(),
        });
    }

    /// A sample; the other daemon has the same exchanges.
    pub(crate) fn sample(&mut self, world: &mut World, theirs: &mut ClockBound) {
        let now_ns = world.monotonic_ns();
        self.keeper.sample(now_ns, &std::mem::take(&mut self.disruptions));
        while let Some(action) = self.keeper.next(now_ns) {
            match action {
                Action::Measure(servers) => {
                    for server in servers {
                        self.measure(world, theirs, server, now_ns);
                    }
                    continue;
                }
                Action::Step(by) => world.step(by.by_ns),
                Action::Slew(by) => world.slew(by.by_ns),
                Action::Discipline(by) => {
                    by.frequency_ppb.into_iter().for_each(|ppb| world.set_frequency(ppb));
                    by.slew_ns.into_iter().for_each(|by_ns| world.slew(by_ns));
                }
                Action::SetLeap(leap) => world.is_leap_armed = leap.is_some(),
                _ => continue,
            }
            self.keeper.corrected(now_ns, true);
        }
    }

    fn measure(&mut self, world: &mut World, theirs: &mut ClockBound, server: usize, now_ns: u64) {
        let exchange = world.exchange(server);
        let leap = exchange.filter(|it| it.announces_leap).map(|_| LeapSecond::Inserted);
        let told = Announced { leap, scale: AnnouncedScale::Utc };
        self.keeper.announced(server, told, now_ns, world.truth_ns().unsigned_abs());
        if let Some(exchange) = &exchange {
            theirs.feed(server, exchange);
        }
        let offset = exchange.map(|exchange| OffsetBound {
            offset_ns: exchange.offset_ns,
            bound_ns: exchange.bound_ns,
            at_monotonic_ns: now_ns,
        });
        self.keeper.measured(server, now_ns, offset);
    }

    /// By how much the clock is off, and by how much at most, as published, ns.
    pub(crate) fn known(&self, world: &World) -> Option<(u64, u64)> {
        let now_ns = world.monotonic_ns();
        let bound_ns = self.keeper.error_bound(now_ns).error_ns(now_ns)?;
        Some((world.error_ns(), bound_ns))
    }
}
