//! Sources × modes × faults: whatever calls the clock right (the status and the metrics, which are
//! made of it, `--wait`, the log, the kernel, ClockBound's segments, the gate) names a bound that the
//! clock is within, and nothing does beyond the limit.

use disruptions::{Disruption, Kind, Size};
use keeper::SourceKind::{HostValue, NetworkCard, Ntp, Phc, Rtc, VmClock};
use keeper::{Action, Corrector, Keeper, Policy};
use pvclock::clockbound::SegmentStatus;

use super::*;
use crate::clockbound::bound;

mod path;

use path::Path;

const MS: i64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// `max-distance`, and what `--wait` is given.
const LIMIT_NS: u64 = S;
const WAIT_NS: u64 = 10_000_000;

const SOURCES: [&[SourceKind]; 11] = [
    &[VmClock],
    &[Phc],
    &[Ntp],
    &[Ntp, Ntp],
    &[Ntp, Ntp, Ntp],
    &[VmClock, Ntp, Ntp, Ntp],
    &[VmClock, Phc, Rtc],
    &[HostValue, Ntp],
    &[NetworkCard, Ntp, Ntp],
    &[Rtc],
    &[Rtc, Ntp, Ntp],
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Alone,
    NeverBackward,
    DryRun,
    Beside,
    Makestep,
    Feed,
}

const MODES: [Mode; 6] =
    [Mode::Alone, Mode::NeverBackward, Mode::DryRun, Mode::Beside, Mode::Makestep, Mode::Feed];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The clock is off from the start on.
    Off(i64),
    /// The last of several voices shows this.
    Lie(i64),
    /// No source is reached any more, or one of them.
    Silence,
    OneSilent,
    /// The machine stood, and a sample shows it or none does.
    Pause(i64, bool),
    /// Another process sets the clock.
    Set(i64),
    /// The kernel refuses every correction.
    Refused,
    /// The oscillator is this fast from the start on, ppm.
    Drift(i64),
    /// It becomes faster by this, as `max-clock-error` allows, ppm.
    Wander(i64),
}

impl Fault {
    fn is_from_start(self) -> bool {
        matches!(self, Self::Off(_) | Self::Drift(_))
    }
}

const FAULTS: [Fault; 20] = [
    Fault::Off(2000 * MS),
    Fault::Off(-2000 * MS),
    Fault::Off(300 * MS),
    Fault::Off(-40 * MS),
    Fault::Lie(2000 * MS),
    Fault::Lie(-30 * MS),
    Fault::Silence,
    Fault::OneSilent,
    Fault::Pause(3000 * MS, true),
    Fault::Pause(3000 * MS, false),
    Fault::Pause(40 * MS, true),
    Fault::Pause(40 * MS, false),
    Fault::Set(5000 * MS),
    Fault::Set(-50 * MS),
    Fault::Refused,
    Fault::Drift(80),
    Fault::Drift(-300),
    Fault::Drift(450),
    Fault::Wander(14),
    Fault::Wander(-14),
];

/// A machine whose truth is known: by how much its clock is ahead, ns.
struct World {
    keeper: Keeper,
    kinds: &'static [SourceKind],
    mode: Mode,
    fault: Option<Fault>,
    now_ns: u64,
    ahead_ns: i64,
    /// Of a dry run: by how much the clock would have been moved.
    moved_ns: i64,
    slew_ns: i64,
    drift_ppb: i64,
    /// A claim that rests on what was measured before this is no mistake yet.
    moved_at_ns: u64,
    claims: u64,
    noise: u64,
    replies: u64,
    path: Path,
}

impl World {
    fn new(kinds: &'static [SourceKind], mode: Mode) -> Self {
        let corrector = match mode {
            Mode::Beside => Corrector::Beside,
            Mode::Makestep => Corrector::Chronyd { makestep: true, feed: false },
            Mode::Feed => Corrector::Chronyd { makestep: false, feed: true },
            _ => Corrector::Kernel,
        };
        let never_backward = mode == Mode::NeverBackward;
        let policy = Policy { corrector, never_backward, ..Policy::default() };
        let mut keeper = Keeper::new(policy, kinds);
        keeper.start_at(0.0, None);
        Self {
            keeper,
            kinds,
            mode,
            fault: None,
            now_ns: 1000 * S,
            ahead_ns: 0,
            moved_ns: 0,
            slew_ns: 0,
            drift_ppb: 2_000,
            moved_at_ns: 0,
            claims: 0,
            noise: 7,
            replies: 0,
            path: Path::Noisy,
        }
    }

    /// How far the clock is off that is reported on, ns.
    fn error_ns(&self) -> u64 {
        (self.ahead_ns - if self.mode == Mode::DryRun { self.moved_ns } else { 0 }).unsigned_abs()
    }

    fn begin(&mut self, fault: Fault) {
        self.fault = Some(fault);
        let by_ns = match fault {
            Fault::Off(by_ns) | Fault::Set(by_ns) => by_ns,
            Fault::Pause(for_ns, _) => -for_ns,
            Fault::Drift(ppm) | Fault::Wander(ppm) => {
                self.drift_ppb += ppm * 1000;
                0
            }
            _ => 0,
        };
        self.ahead_ns += by_ns;
        self.moved_at_ns = if by_ns == 0 { self.moved_at_ns } else { self.now_ns };
        let kind = match fault {
            Fault::Pause(_, true) => Kind::Pause,
            Fault::Set(_) => return self.keeper.was_set(self.now_ns),
            _ => return,
        };
        let size = Some(Size { ns: by_ns.abs() as f64, bound_ns: 1000.0 });
        let at_monotonic_ns = self.now_ns;
        let (behind, evidence) = (size, Vec::new());
        let seen = Disruption { kinds: kind.into(), at_monotonic_ns, size, behind, evidence };
        self.keeper.sample(self.now_ns, &[seen]);
        self.act();
    }

    fn sample(&mut self) {
        let slewed_ns = self.slew_ns.clamp(-250_000, 250_000);
        self.slew_ns -= slewed_ns;
        self.ahead_ns += slewed_ns + self.drift_ppb / 2;
        self.moved_ns += if self.mode == Mode::DryRun { slewed_ns } else { 0 };
        self.now_ns += S / 2;
        self.judge("between two samples");
        self.keeper.sample(self.now_ns, &[]);
        self.act();
        if let Some(index) = self.kinds.iter().position(|kind| *kind == HostValue) {
            let offset = self.offset(index);
            self.keeper.measured(index, self.now_ns, offset);
            self.act();
        }
        self.judge("after a sample");
    }

    fn act(&mut self) {
        while let Some(action) = self.keeper.next(self.now_ns) {
            let is_made = self.fault != Some(Fault::Refused);
            match action {
                Action::Measure(sources) => {
                    for index in sources {
                        let offset = self.offset(index);
                        self.keeper.measured(index, self.now_ns, offset);
                    }
                    continue;
                }
                // Neither is there in a dry run, and the daemon logs it where the clock was left.
                Action::SetError(_) | Action::Synchronised(_) if self.mode == Mode::DryRun => {
                    continue;
                }
                Action::SetError(error) => {
                    self.hold("the kernel's error", error.max_ns);
                    self.hold("the kernel", LIMIT_NS);
                    continue;
                }
                // The kernel goes on calling a clock right that it called right.
                Action::SetFigures { max_ns: Some(max_ns), .. } if self.mode != Mode::DryRun => {
                    self.hold("the kernel's figures", max_ns);
                    continue;
                }
                Action::SetFigures { .. } => continue,
                Action::Synchronised(left) => {
                    let limit_ns = left.by_ns.unsigned_abs() + left.bound_ns;
                    self.hold("the log", limit_ns.min(LIMIT_NS));
                    continue;
                }
                Action::Step(by) if is_made => self.move_by(by.by_ns),
                Action::Slew(by) if is_made => self.slew_ns = by.by_ns,
                Action::Discipline(by) if is_made => {
                    self.drift_ppb += by.frequency_ppb.map_or(0, |ppb| ppb as i64 - self.set_ppb());
                    self.slew_ns = by.slew_ns.unwrap_or(self.slew_ns);
                }
                _ => {}
            }
            self.keeper.corrected(self.now_ns, is_made);
        }
    }

    /// The frequency before it is set again.
    fn set_ppb(&self) -> i64 {
        match self.keeper.error_bound(self.now_ns) {
            KeptBound::Within { frequency_ppb, .. } => frequency_ppb.into(),
            _ => 0,
        }
    }

    fn move_by(&mut self, by_ns: i64) {
        self.ahead_ns += by_ns;
        self.moved_ns += if self.mode == Mode::DryRun { by_ns } else { 0 };
        self.slew_ns = 0;
    }

    fn offset(&mut self, index: usize) -> Option<OffsetBound> {
        self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bound_ns = match self.kinds[index] {
            Ntp => 5_000_000,
            Rtc => S / 2,
            _ => 50_000,
        };
        self.replies += 1;
        let off_ns = self.path.off_ns(self.replies, self.noise >> 33, bound_ns);
        let is_last = index + 1 == self.kinds.len();
        let lie_ns = match self.fault {
            Some(Fault::Silence) => return None,
            Some(Fault::OneSilent) if is_last => return None,
            Some(Fault::Lie(by_ns)) if is_last && self.kinds.len() > 2 => by_ns,
            _ => 0,
        };
        let offset_ns = lie_ns + off_ns - self.ahead_ns;
        Some(OffsetBound { offset_ns, bound_ns, at_monotonic_ns: self.now_ns })
    }

    /// A claim: the clock is off by this at most.
    fn hold(&mut self, who: &str, bound_ns: u64) {
        self.claims += 1;
        let (error_ns, Self { kinds, mode, fault, .. }) = (self.error_ns(), &*self);
        // A liar that agrees with a right source adds twice the bound of that.
        let lies_ns = if matches!(fault, Some(Fault::Lie(_))) { 10_000_000 } else { 0 };
        assert!(
            error_ns <= bound_ns + lies_ns + 1000,
            "{who}: {bound_ns} ns, and it is off by {error_ns} ns: {kinds:?}, {mode:?}, {fault:?}"
        );
    }

    fn judge(&mut self, when: &str) {
        let view = self.keeper.view(self.now_ns);
        let known = self.keeper.error_bound(self.now_ns);
        let is_old = match known {
            KeptBound::Within { offset, .. } => offset.at_monotonic_ns <= self.moved_at_ns,
            KeptBound::Unknown | KeptBound::Disrupted => false,
        };
        if is_old {
            return;
        }
        let dry_run = self.mode == Mode::DryRun;
        let limit_ns = if dry_run { Policy::default().step_threshold_ns } else { LIMIT_NS };
        let moved_ns = if dry_run { self.moved_ns } else { 0 };
        let report = ClockReport::new(&view, &[], None, moved_ns, limit_ns, self.now_ns);
        // The metrics call a holdover synchronised too.
        if report.state != KeeperClockState::Unsynchronised {
            let bound_ns = report.error_ns().unwrap_or(0);
            self.hold(&format!("{:?} in the status {when}", report.state), bound_ns.min(LIMIT_NS));
        }
        if report.is_right_within(WAIT_NS.into()) {
            self.hold(&format!("--wait {when}"), WAIT_NS);
        }
        if dry_run {
            return;
        }
        let published = bound(known, self.now_ns, self.now_ns);
        let published_ns = match published.status {
            SegmentStatus::Synchronised => Some(published.bound_ns.min(LIMIT_NS)),
            SegmentStatus::FreeRunning => Some(published.bound_ns),
            _ => None,
        };
        published_ns.into_iter().for_each(|bound_ns| {
            self.hold(&format!("ClockBound's segments {when}"), bound_ns);
        });
        if let Some(error_ns) = known.error_ns(self.now_ns) {
            self.hold(&format!("the gate {when}"), error_ns);
        }
    }
}

/// What is attacked besides: sources that stand alone or that nothing else confirms, and replies at
/// the edges of their bounds, as over a path that takes longer one way.
const MORE_SOURCES: [&[SourceKind]; 9] = [
    &[HostValue],
    &[NetworkCard],
    &[Ntp, Rtc],
    &[Phc, Ntp],
    &[HostValue, Rtc],
    &[NetworkCard, NetworkCard],
    &[VmClock, Ntp],
    &[VmClock, HostValue],
    &[Ntp, Ntp, Ntp, Ntp, Ntp],
];

const PATHS: [Path; 5] =
    [Path::Edge(1), Path::Edge(-1), Path::Alternating, Path::Ramp(3), Path::Ramp(20)];

#[test]
fn no_path_and_no_lone_source_has_a_clock_called_right_beyond_its_bound() {
    let (mut claims, mut at) = (0, 0);
    for kinds in SOURCES.into_iter().chain(MORE_SOURCES) {
        for mode in MODES {
            for fault in FAULTS {
                // Each path with each source, mode and fault, though not with all three.
                at += 1;
                let mut world = World::new(kinds, mode);
                world.path = PATHS[(at + at / FAULTS.len()) % PATHS.len()];
                if fault.is_from_start() {
                    world.begin(fault);
                }
                (0..150).for_each(|_| world.sample());
                if !fault.is_from_start() {
                    world.begin(fault);
                }
                (0..150).for_each(|_| world.sample());
                claims += world.claims;
            }
        }
    }
    assert!(claims > 300_000, "{claims} claims");
}

#[test]
fn no_state_calls_a_clock_right_that_is_beyond_its_bound() {
    let mut claims = 0;
    for kinds in SOURCES {
        for mode in MODES {
            for fault in FAULTS {
                let mut world = World::new(kinds, mode);
                if fault.is_from_start() {
                    world.begin(fault);
                }
                (0..200).for_each(|_| world.sample());
                if !fault.is_from_start() {
                    world.begin(fault);
                }
                (0..300).for_each(|_| world.sample());
                claims += world.claims;
            }
        }
    }
    assert!(claims > 400_000, "{claims} claims");
}
