//! One look at everything that is watched: cheap, and on one CPU.

use instruments::steps::Bracket;
use platform::clock::Clock;
use platform::counter::{self, Counter, Tsc};
use platform::cpus::{self, Pinned};
use platform::fact::Fact;
use platform::facts::steering::Adjtimex;
use platform::watching::{self, LivePage};
use pvclock::kvm_clock::TimeInfo;

/// What one look saw.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Look {
    /// CLOCK_MONOTONIC, ns.
    pub(super) monotonic_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub(super) unix_ns: Option<u64>,
    /// The TSC, where it can be read.
    pub(super) tsc: Option<u64>,
    /// CLOCK_REALTIME within CLOCK_MONOTONIC.
    pub(super) realtime: Option<Bracket>,
    /// CLOCK_BOOTTIME within CLOCK_MONOTONIC.
    pub(super) boottime: Option<Bracket>,
    /// CLOCK_MONOTONIC within CLOCK_MONOTONIC_RAW.
    pub(super) monotonic: Option<Bracket>,
    /// CLOCK_MONOTONIC_RAW within the TSC.
    pub(super) raw: Option<Bracket>,
    /// The clock source.
    pub(super) source: Fact<String>,
    /// Who steers.
    pub(super) adjtimex: Fact<Adjtimex>,
    /// The kvm-clock page.
    pub(super) page: Fact<TimeInfo>,
}

/// Brackets to choose the tightest from.
const TRIES: u32 = 4;

/// Takes looks.
pub(super) struct Looker {
    page: Fact<LivePage>,
    /// The narrowest bracket of each pair so far.
    narrowest: [Option<u64>; 4],
    tsc_is_readable: bool,
    pinned: Option<(u32, Pinned)>,
}

impl Looker {
    /// Stays on the CPU it is on: where the TSCs of two CPUs differ, moving
    /// between them would look like steps.
    pub(super) fn new() -> Self {
        let cpu = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0);
        Self {
            page: LivePage::find(),
            narrowest: [None; 4],
            tsc_is_readable: counter::is_readable(),
            pinned: cpus::pin(cpu).ok().map(|pinned| (cpu, pinned)),
        }
    }

    /// The CPU it stays on, unless that was refused.
    pub(super) fn cpu(&self) -> Option<u32> {
        self.pinned.as_ref().map(|(cpu, _)| *cpu)
    }

    /// Looks at everything.
    pub(super) fn look(&mut self) -> Look {
        let tsc = self.tsc_is_readable.then_some(|| Some(Tsc.read_ordered()));
        let [realtime, boottime, monotonic, raw] = &mut self.narrowest;
        let raw = tsc.and_then(|tsc| bracket(raw, || Clock::MonotonicRaw.read_ns(), tsc));
        let monotonic =
            bracket(monotonic, || Clock::Monotonic.read_ns(), || Clock::MonotonicRaw.read_ns());
        let boottime =
            bracket(boottime, || Clock::Boottime.read_ns(), || Clock::Monotonic.read_ns());
        let realtime =
            bracket(realtime, || Clock::Realtime.read_ns(), || Clock::Monotonic.read_ns());
        Look {
            monotonic_ns: Clock::Monotonic.read_ns().unwrap_or_default(),
            unix_ns: Clock::Realtime.read_ns(),
            tsc: tsc.and_then(|tsc| tsc()),
            realtime,
            boottime,
            monotonic,
            raw,
            source: watching::clocksource(),
            adjtimex: watching::adjtimex(),
            page: self.page.clone().and_then(LivePage::read),
        }
    }
}

/// The inner clock within the outer one; a bracket twice as wide as the
/// narrowest so far will do.
fn bracket(
    narrowest: &mut Option<u64>,
    inner: impl Fn() -> Option<u64>,
    outer: impl Fn() -> Option<u64>,
) -> Option<Bracket> {
    let enough = narrowest.map_or(0, |width| width.saturating_mul(2));
    let found = Bracket::tightest(TRIES, enough, || {
        let before = outer()?;
        let inner = inner()?;
        Some(Bracket { before, inner, after: outer()? })
    });
    if let Some(width) = found.and_then(|bracket| bracket.width()) {
        *narrowest = Some(narrowest.map_or(width, |least| least.min(width)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_sees_the_clocks_of_this_machine() {
        let mut looker = Looker::new();
        let (first, second) = (looker.look(), looker.look());
        assert!(second.monotonic_ns > first.monotonic_ns);
        for bracket in [second.realtime, second.boottime, second.monotonic] {
            assert!(bracket.is_some_and(|bracket| bracket.before <= bracket.after));
        }
        assert_eq!(second.tsc.is_some(), second.raw.is_some());
        assert!(second.adjtimex.known().is_some());
    }
}
