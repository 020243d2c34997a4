//! A machine whose time of day goes wrong, as far as the keeper meets it: the
//! kernel's clock with what adjtimex does to it, and sources that know the
//! truth within their bounds.

pub(crate) mod clock;
pub(crate) mod deeds;
pub(crate) mod others;

use disruptions::{Disruption, Kind, Size};
use keeper::{
    Action, Adjustment, Announced, AnnouncedScale, CorrectionCause, Keeper, KeptBound, Policy,
    SourceKind,
};
use pvclock::units::{LeapSecond, OffsetBound};

pub(crate) use clock::ModelClock;
pub(crate) use deeds::Deed;
use others::Others;

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const S: u64 = 1_000_000_000;

/// Noon of 31 December 2026, from which on scales differ for a day.
pub(crate) const NOON_NS: i64 = 1_798_718_400 * S as i64;
pub(crate) const HALF_A_DAY_NS: i64 = 43_200 * S as i64;

/// The interval of samples, `parachron keep`'s default.
pub(crate) const INTERVAL_NS: u64 = S / 2;

/// A source that knows the truth within its bound, or lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) bound_ns: u64,
    /// Its error beyond its bound.
    pub(crate) lie_ns: i64,
    pub(crate) is_unreachable: bool,
    pub(crate) scale: AnnouncedScale,
    pub(crate) leap: Option<LeapSecond>,
}

impl Source {
    pub(crate) fn honest(kind: SourceKind, bound_ns: u64) -> Self {
        let scale = AnnouncedScale::Unknown;
        Self { kind, bound_ns, lie_ns: 0, is_unreachable: false, scale, leap: None }
    }
}

/// A machine with a keeper.
pub(crate) struct Machine {
    pub(crate) clock: ModelClock,
    pub(crate) sources: Vec<Source>,
    pub(crate) attempts: u64,
    pub(crate) requests: u64,
    /// Each correction, and what the kernel was told, in order.
    pub(crate) deeds: Vec<Deed>,
    /// What each source showed in this sample, if the clock was not stepped since.
    measured: Vec<Option<OffsetBound>>,
    /// How often a published bound was held against the clock, and by how much the clock was
    /// beyond it at most, ns.
    pub(crate) bounds: u64,
    pub(crate) beyond_bound_ns: u64,
    /// Another process sets the clock by this just before the next correction.
    pub(crate) set_before_correction_ns: Option<i64>,
    pub(crate) keeper: Keeper,
    /// Of each frequency that was set: a server was selected.
    pub(crate) by_servers: Vec<bool>,
    /// Rates that were told to be wrong, ppb, and how often an offset was refused.
    pub(crate) told_ppb: Vec<f64>,
    pub(crate) refusals: u64,
    /// The scale of the truth.
    pub(crate) scale: AnnouncedScale,
    pub(crate) others: Others,
    /// The host's word comes after so many samples, and whether with a notice.
    pub(crate) told_each: u64,
    pub(crate) gives_notice: bool,
    heard: u64,
    never_backward: bool,
    noise: u64,
}

/// Whether a set of the clock makes it wrong, as the daemon has it
/// (crates/daemon/src/daemon.rs).
fn rests_on_offsets(action: &Action) -> bool {
    !matches!(
        action,
        Action::Restart
            | Action::Makestep { .. }
            | Action::SetFigures { max_ns: Some(_), .. }
            | Action::Refuse(..)
            | Action::WrongRate { .. }
    )
}

/// When a message was sent, and the clock's error then.
#[derive(Clone, Copy)]
struct Sent {
    at_ns: u64,
    error_ns: i64,
}

impl Machine {
    pub(crate) fn new(policy: Policy, sources: &[Source], drift_ppm: i64, seed: u64) -> Self {
        let kinds: Vec<SourceKind> = sources.iter().map(|source| source.kind).collect();
        Self {
            clock: ModelClock::new(drift_ppm),
            sources: sources.to_vec(),
            attempts: 0,
            requests: 0,
            deeds: Vec::new(),
            measured: vec![None; sources.len()],
            bounds: 0,
            beyond_bound_ns: 0,
            set_before_correction_ns: None,
            never_backward: policy.never_backward,
            keeper: Keeper::new(policy, &kinds),
            by_servers: Vec::new(),
            told_ppb: Vec::new(),
            refusals: 0,
            scale: AnnouncedScale::Unknown,
            others: Others::new(seed),
            told_each: 1,
            gives_notice: false,
            heard: 0,
            noise: seed | 1,
        }
    }

    /// A pause of `for_ns`, as a sample may show it, for example by the
    /// marker in the VMClock page.
    pub(crate) fn seen(&self, for_ns: u64) -> Disruption {
        Disruption {
            kinds: Kind::Pause.into(),
            at_monotonic_ns: self.clock.monotonic_ns,
            size: Some(Size { ns: for_ns as f64, bound_ns: 0.0 }),
            behind: Some(Size { ns: for_ns as f64, bound_ns: 0.0 }),
            evidence: Vec::new(),
        }
    }

    /// Time passes to the next sample, and the keeper acts.
    pub(crate) fn sample(&mut self, seen: &[Disruption]) {
        let sent = Sent { at_ns: self.clock.monotonic_ns, error_ns: self.clock.error_ns() };
        let moves = (self.clock.steps.len(), self.others.sets);
        self.clock.advance(INTERVAL_NS);
        self.others.discipline(&mut self.clock);
        let now_ns = self.clock.monotonic_ns;
        // What a client reads until then.
        self.judge_bound(self.clock.moved_at_ns);
        // As the daemon looks as a sample begins (crates/daemon/src/daemon/guard.rs).
        if self.others.have_set() {
            self.keeper.was_set(now_ns);
        }
        let mut disruptions = self.others.reported(now_ns);
        disruptions.retain(|set| !self.keeper.is_own_step(set));
        disruptions.extend_from_slice(seen);
        self.keeper.gathering(self.others.is_gathering(), None);
        self.keeper.unset_clock(self.clock.behind_ns());
        self.keeper.sample(now_ns, &disruptions);
        self.measured.fill(None);
        self.act();
        let is_as_sent = moves == (self.clock.steps.len(), self.others.sets);
        self.hear(is_as_sent.then_some(sent));
        // What was reported ends a bound that was measured before.
        let moved_at_ns = self.clock.moved_at_ns;
        let is_reported = disruptions.iter().any(|seen| seen.at_monotonic_ns >= moved_at_ns);
        self.judge_bound(if is_reported { 0 } else { moved_at_ns });
    }

    /// Holds the bound that is published against the clock, if it was measured after this.
    fn judge_bound(&mut self, moved_at_ns: u64) {
        let now_ns = self.clock.monotonic_ns;
        let known = self.keeper.error_bound(now_ns);
        let KeptBound::Within { offset, .. } = known else { return };
        if offset.at_monotonic_ns <= moved_at_ns {
            return;
        }
        let bound_ns = known.error_ns(now_ns).unwrap_or(0);
        let beyond_ns = self.clock.error_ns().unsigned_abs().saturating_sub(bound_ns);
        self.bounds += 1;
        self.beyond_bound_ns = self.beyond_bound_ns.max(beyond_ns);
    }

    /// Carries out what the keeper wants.
    fn act(&mut self) {
        while let Some(action) = self.keeper.next(self.clock.monotonic_ns) {
            self.others.may_set(&mut self.clock);
            let now_ns = self.clock.monotonic_ns;
            if let Action::Step(_) | Action::Slew(_) = &action
                && let Some(by_ns) = self.set_before_correction_ns.take()
            {
                // CLOCK_REALTIME went another way than CLOCK_MONOTONIC.
                self.others.set(&mut self.clock, by_ns);
            }
            if rests_on_offsets(&action) && self.others.have_set() {
                self.keeper.was_set(now_ns);
                if !matches!(action, Action::Measure(_)) {
                    continue;
                }
            }
            if let Action::Step(by) | Action::Slew(by) = &action {
                self.note_correction(by.by_ns);
            }
            if let Some(is_done) = self.carry_out(action) {
                self.attempts += 1;
                self.keeper.corrected(now_ns, is_done);
            }
        }
    }

    /// Whether a correction is made; nothing where it is none.
    fn carry_out(&mut self, action: Action) -> Option<bool> {
        let is_ours = !self.others.is_beside;
        match action {
            Action::Measure(sources) => self.poll(&sources),
            Action::Step(by) => {
                assert!(by.by_ns >= 0 || !self.never_backward, "stepped by {} ns", by.by_ns);
                let is_done = self.clock.step(by.by_ns).is_ok();
                if is_done {
                    self.others.jumped(by.by_ns);
                    self.measured.fill(None);
                }
                return Some(is_done);
            }
            Action::Slew(by) => {
                assert!(is_ours || by.by_ns == 0, "slewed beside another daemon");
                return Some(self.clock.slew(by.by_ns).is_ok());
            }
            Action::SetError(error) => {
                self.note_told(error.max_ns);
                self.clock.set_error(error).unwrap_or_default();
            }
            Action::SetFigures { max_ns, estimated_ns } => {
                self.clock.set_figures(max_ns, estimated_ns).unwrap_or_default();
            }
            Action::Discipline(by) => {
                assert!(is_ours, "disciplined beside another daemon");
                self.discipline(by);
            }
            Action::SetLeap(leap) => {
                assert!(is_ours, "a leap second told beside another daemon");
                return Some(self.clock.set_leap(leap).is_ok());
            }
            Action::Refuse(..) => self.refusals += 1,
            Action::WrongRate { ppb } => self.told_ppb.push(ppb),
            Action::Synchronised(_) => {}
            Action::Restart => assert!(!is_ours, "no other daemon"),
            Action::Makestep { .. } | Action::FeedChronyd(_) => panic!("no chronyd: {action:?}"),
        }
        None
    }

    fn poll(&mut self, sources: &[usize]) {
        let offsets: Vec<_> = sources.iter().map(|&index| self.measure(index)).collect();
        for (&index, offset) in sources.iter().zip(offsets) {
            let Source { leap, scale, .. } = self.sources[index];
            let told = Announced { leap, scale };
            let unix_ns = self.clock.realtime_ns.max(0).unsigned_abs();
            self.keeper.announced(index, told, self.clock.monotonic_ns, unix_ns);
            self.measured[index] = offset;
            self.keeper.measured(index, self.clock.monotonic_ns, offset);
        }
    }

    fn discipline(&mut self, Adjustment { frequency_ppb, slew_ns }: Adjustment) {
        let set = frequency_ppb.map_or(Ok(()), |ppb| self.clock.set_frequency(ppb));
        let slewed = slew_ns.map_or(Ok(()), |by_ns| {
            self.note_correction(by_ns);
            self.clock.single_shot(by_ns / 1000)
        });
        self.keeper.corrected(self.clock.monotonic_ns, set.and(slewed).is_ok());
        if frequency_ppb.is_some() {
            self.by_servers.push(self.follows_server());
        }
    }

    /// The host's word comes by itself: of now, or as it was `sent` after the last sample,
    /// if the clock was not set since. With a notice, if it gives any.
    fn hear(&mut self, sent: Option<Sent>) {
        self.heard += 1;
        let now_ns = self.clock.monotonic_ns;
        for index in 0..self.sources.len() {
            let is_told = self.sources[index].kind == SourceKind::HostValue
                && self.heard.is_multiple_of(self.told_each);
            let Some(offset) = is_told.then(|| self.measure(index)).flatten() else { continue };
            if self.others.have_set() {
                self.keeper.was_set(now_ns);
            }
            let is_earlier = self.others.below(2) == 0;
            let offset = sent.filter(|_| is_earlier).map_or(offset, |sent| OffsetBound {
                offset_ns: offset.offset_ns + self.clock.error_ns() - sent.error_ns,
                at_monotonic_ns: sent.at_ns,
                ..offset
            });
            if self.gives_notice {
                self.keeper.suspect(now_ns, CorrectionCause::HostResumed);
            }
            self.measured[index] = Some(offset);
            self.keeper.measured(index, now_ns, Some(offset));
            self.act();
        }
    }

    /// Whether a server is selected.
    fn follows_server(&self) -> bool {
        let selected = self.keeper.view(self.clock.monotonic_ns).selected;
        selected.is_some_and(|(index, _)| self.sources[index].kind == SourceKind::Ntp)
    }

    pub(crate) fn samples(&mut self, count: u64) {
        for _ in 0..count {
            self.sample(&[]);
        }
    }

    /// What the other scale is ahead: up to half a second at midnight.
    fn other_ns(&self) -> i64 {
        let since_ns = self.clock.truth_ns - NOON_NS;
        let to_midnight_ns = (since_ns - HALF_A_DAY_NS).abs();
        (HALF_A_DAY_NS - to_midnight_ns).max(0) / (HALF_A_DAY_NS / (S as i64 / 2))
    }

    /// How far the scale of a source is from that of the truth.
    fn off_scale_ns(&self, index: usize) -> i64 {
        let scale = self.sources[index].scale;
        let is_other = scale != self.scale && scale != AnnouncedScale::Unknown;
        if is_other { self.other_ns() } else { 0 }
    }

    fn measure(&mut self, index: usize) -> Option<OffsetBound> {
        // xorshift64 (Marsaglia, 2003).
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        self.requests += 1;
        let source = self.sources[index];
        let noise = (self.noise % (2 * source.bound_ns + 1)) as i64 - source.bound_ns as i64;
        let off_ns = self.off_scale_ns(index);
        (!source.is_unreachable).then_some(OffsetBound {
            offset_ns: noise + source.lie_ns + off_ns - self.clock.error_ns(),
            bound_ns: source.bound_ns,
            at_monotonic_ns: self.clock.monotonic_ns,
        })
    }
}
