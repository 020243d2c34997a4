//! A machine whose time of day goes wrong, as far as the keeper meets it: the
//! kernel's clock with what adjtimex does to it, and sources that know the
//! truth within their bounds.

use disruptions::{Disruption, Kind, Size};
use keeper::{
    Action, Adjustment, Announced, ClockError, Keeper, Policy, SLEW_PPM, Scale, SourceKind,
    SystemClock,
};
use pvclock::Nanos;
use units::{LeapSecond, OffsetBound};

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const S: u64 = 1_000_000_000;

/// Noon of 31 December 2026, from which on scales differ for a day.
pub(crate) const NOON_NS: i64 = 1_798_718_400 * S as i64;
pub(crate) const HALF_A_DAY_NS: i64 = 43_200 * S as i64;

/// The interval of samples, `parachron keep`'s default.
pub(crate) const INTERVAL_NS: u64 = S / 2;

/// The kernel's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errno {
    Eperm,
    Einval,
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC, and the truth, which they do not know.
#[derive(Debug, Clone)]
pub(crate) struct ModelClock {
    pub(crate) truth_ns: i64,
    pub(crate) realtime_ns: i64,
    pub(crate) monotonic_ns: u64,
    pub(crate) slew_left_ns: i64,
    /// The oscillator's error, and what of it is corrected, ppb.
    pub(crate) drift_ppb: f64,
    pub(crate) frequency_ppb: f64,
    /// Of a nanosecond: what these have moved the clock by.
    moved: f64,
    /// Of each frequency that was set: its error before and after, ppb.
    pub(crate) frequencies: Vec<(f64, f64)>,
    /// The largest error that the kernel knows of, which it adds 500 ppm to, until
    /// something happens; and by how much it was too small at most.
    max_error_ns: Option<u64>,
    pub(crate) unknown_ns: u64,
    /// Errors estimated without a source, and what they were.
    pub(crate) estimates: Vec<(u64, u64)>,
    pub(crate) may_set: bool,
    pub(crate) steps: Vec<(u64, i64)>,
    pub(crate) slews: u64,
    /// The largest error reported to the kernel, and what it was.
    pub(crate) max_errors: Vec<(u64, u64)>,
}

impl ModelClock {
    pub(crate) fn new(drift_ppm: i64) -> Self {
        Self {
            truth_ns: 1_795_000_000 * S as i64,
            realtime_ns: 1_795_000_000 * S as i64,
            monotonic_ns: 1000 * S,
            slew_left_ns: 0,
            drift_ppb: drift_ppm as f64 * 1e3,
            frequency_ppb: 0.0,
            moved: 0.0,
            frequencies: Vec::new(),
            max_error_ns: None,
            unknown_ns: 0,
            estimates: Vec::new(),
            may_set: true,
            steps: Vec::new(),
            slews: 0,
            max_errors: Vec::new(),
        }
    }

    /// Time passes; `by_ns` is a multiple of a millisecond, so that parts
    /// per million of it are whole nanoseconds.
    pub(crate) fn advance(&mut self, by_ns: u64) {
        assert_eq!(by_ns % 1_000_000, 0);
        let part = |ppm: i64| by_ns as i64 / 1_000_000 * ppm;
        self.moved += by_ns as f64 * self.rate_error_ppb() * 1e-9;
        let drift = self.moved as i64;
        self.moved -= drift as f64;
        let slewed =
            part(SLEW_PPM as i64).min(self.slew_left_ns.abs()) * self.slew_left_ns.signum();
        self.slew_left_ns -= slewed;
        self.truth_ns += by_ns as i64;
        self.monotonic_ns += by_ns.saturating_add_signed(drift + slewed);
        self.realtime_ns += by_ns as i64 + drift + slewed;
        if let Some(max_error_ns) = &mut self.max_error_ns {
            *max_error_ns += by_ns / 2000;
            let known_ns = *max_error_ns;
            let unknown_ns = self.error_ns().unsigned_abs().saturating_sub(known_ns);
            self.unknown_ns = self.unknown_ns.max(unknown_ns);
        }
    }

    /// The host stops the machine, and every clock in it.
    pub(crate) fn pause(&mut self, for_ns: u64) {
        self.truth_ns += for_ns as i64;
        self.max_error_ns = None;
    }

    /// How much faster than the truth the clock is, ppb.
    pub(crate) fn rate_error_ppb(&self) -> f64 {
        self.drift_ppb + self.frequency_ppb + self.drift_ppb * self.frequency_ppb * 1e-9
    }

    /// How far the clock is ahead of the truth.
    pub(crate) fn error_ns(&self) -> i64 {
        self.realtime_ns - self.truth_ns
    }

    /// `adjtimex` with ADJ_SETOFFSET (`timekeeping_validate_timex`
    /// and `timekeeping_inject_offset`, kernel/time/timekeeping.c).
    pub(crate) fn set_offset(&mut self, sec: i64, usec: i64) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        if !(0..1_000_000).contains(&usec) {
            return Err(Errno::Einval);
        }
        let by_ns = sec.checked_mul(S as i64).and_then(|ns| ns.checked_add(usec * 1000));
        let set = by_ns.and_then(|by_ns| self.realtime_ns.checked_add(by_ns));
        // No time before boot, as it would be without CLOCK_MONOTONIC.
        let set = set.filter(|set| *set >= self.monotonic_ns as i64).ok_or(Errno::Einval)?;
        // TK_CLEAR_NTP.
        (self.realtime_ns, self.slew_left_ns) = (set, 0);
        Ok(())
    }

    /// `adjtimex` with ADJ_OFFSET_SINGLESHOT.
    pub(crate) fn single_shot(&mut self, usec: i64) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        self.slew_left_ns = usec.checked_mul(1000).ok_or(Errno::Einval)?;
        Ok(())
    }
}

impl SystemClock for ModelClock {
    type Error = Errno;

    fn now(&self) -> Result<Nanos, Errno> {
        u64::try_from(self.realtime_ns).map(Nanos).map_err(|_| Errno::Einval)
    }

    fn step(&mut self, by_ns: i64) -> Result<(), Errno> {
        let by_us = by_ns.div_euclid(1000);
        self.set_offset(by_us.div_euclid(1_000_000), by_us.rem_euclid(1_000_000))?;
        self.steps.push((self.monotonic_ns, by_ns));
        Ok(())
    }

    fn slew(&mut self, by_ns: i64) -> Result<(), Errno> {
        self.single_shot(by_ns / 1000)?;
        self.slews += 1;
        Ok(())
    }

    fn set_error(&mut self, error: ClockError) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        self.max_error_ns = Some(error.max_ns);
        self.max_errors.push((error.max_ns, self.error_ns().unsigned_abs()));
        Ok(())
    }

    fn set_figures(&mut self, max_ns: Option<u64>, estimated_ns: u64) -> Result<(), Errno> {
        if max_ns.is_some() {
            self.max_error_ns = None;
            return Ok(());
        }
        self.estimates.push((estimated_ns, self.error_ns().unsigned_abs()));
        Ok(())
    }

    fn set_leap(&mut self, _: Option<LeapSecond>) -> Result<(), Errno> {
        Ok(())
    }

    /// `adjtimex` with ADJ_FREQUENCY, in units of 2^-16 ppm.
    fn set_frequency(&mut self, ppb: f64) -> Result<(), Errno> {
        if !self.may_set {
            return Err(Errno::Eperm);
        }
        let before = self.rate_error_ppb();
        assert!(ppb.abs() <= 500_000.0, "beyond MAXFREQ: {ppb}");
        let units = (ppb * 65.536).round();
        self.frequency_ppb = units / 65.536;
        self.frequencies.push((before, self.rate_error_ppb()));
        Ok(())
    }
}

/// A source that knows the truth within its bound, or lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) bound_ns: u64,
    /// Its error beyond its bound.
    pub(crate) lie_ns: i64,
    pub(crate) is_unreachable: bool,
    pub(crate) scale: Scale,
}

impl Source {
    pub(crate) fn honest(kind: SourceKind, bound_ns: u64) -> Self {
        Self { kind, bound_ns, lie_ns: 0, is_unreachable: false, scale: Scale::Unknown }
    }
}

/// A machine with a keeper.
pub(crate) struct Machine {
    pub(crate) clock: ModelClock,
    pub(crate) sources: Vec<Source>,
    pub(crate) attempts: u64,
    pub(crate) requests: u64,
    /// Of each correction: the clock's error before, and when it is complete.
    pub(crate) corrections: Vec<(i64, i64)>,
    /// Another process sets the clock by this just before the next correction.
    pub(crate) set_before_correction_ns: Option<i64>,
    pub(crate) keeper: Keeper,
    /// Of each frequency that was set: a server was selected.
    pub(crate) by_servers: Vec<bool>,
    /// Rates that were told to be wrong, ppb, and how often an offset was refused.
    pub(crate) told_ppb: Vec<f64>,
    pub(crate) refusals: u64,
    /// The scale of the truth.
    pub(crate) scale: Scale,
    noise: u64,
}

impl Machine {
    pub(crate) fn new(policy: Policy, sources: &[Source], drift_ppm: i64, seed: u64) -> Self {
        let kinds: Vec<SourceKind> = sources.iter().map(|source| source.kind).collect();
        Self {
            clock: ModelClock::new(drift_ppm),
            sources: sources.to_vec(),
            attempts: 0,
            requests: 0,
            corrections: Vec::new(),
            set_before_correction_ns: None,
            keeper: Keeper::new(policy, &kinds),
            by_servers: Vec::new(),
            told_ppb: Vec::new(),
            refusals: 0,
            scale: Scale::Unknown,
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
        self.clock.advance(INTERVAL_NS);
        self.keeper.sample(self.clock.monotonic_ns, seen);
        while let Some(action) = self.keeper.next(self.clock.monotonic_ns) {
            let is_correction = matches!(action, Action::Step(_) | Action::Slew(_));
            if is_correction && let Some(by_ns) = self.set_before_correction_ns.take() {
                // CLOCK_REALTIME went another way than CLOCK_MONOTONIC.
                self.clock.realtime_ns += by_ns;
                self.keeper.was_set(self.clock.monotonic_ns);
                continue;
            }
            if let Action::Step(by) | Action::Slew(by) = &action {
                let before = self.clock.error_ns();
                self.corrections.push((before, before + by.by_ns));
            }
            let is_done = match action {
                Action::Measure(sources) => {
                    let offsets = sources.iter().map(|&index| self.measure(index));
                    let offsets: Vec<_> = offsets.collect();
                    for (index, offset) in sources.into_iter().zip(offsets) {
                        let told = Announced { leap: None, scale: self.sources[index].scale };
                        let unix_ns = self.clock.realtime_ns.max(0).unsigned_abs();
                        self.keeper.announced(index, told, self.clock.monotonic_ns, unix_ns);
                        self.keeper.measured(index, self.clock.monotonic_ns, offset);
                    }
                    continue;
                }
                Action::Step(by) => self.clock.step(by.by_ns).is_ok(),
                Action::Slew(by) => self.clock.slew(by.by_ns).is_ok(),
                Action::SetError(error) => {
                    let _ = self.clock.set_error(error);
                    continue;
                }
                Action::SetFigures { max_ns, estimated_ns } => {
                    let _ = self.clock.set_figures(max_ns, estimated_ns);
                    continue;
                }
                Action::Discipline(Adjustment { frequency_ppb, slew_ns }) => {
                    let set = frequency_ppb.map_or(Ok(()), |ppb| self.clock.set_frequency(ppb));
                    let slewed = slew_ns.map_or(Ok(()), |by_ns| {
                        let before = self.clock.error_ns();
                        self.corrections.push((before, before + by_ns));
                        self.clock.single_shot(by_ns / 1000)
                    });
                    let is_made = set.and(slewed).is_ok();
                    self.keeper.corrected(self.clock.monotonic_ns, is_made);
                    if frequency_ppb.is_some() {
                        self.by_servers.push(self.follows_server());
                    }
                    continue;
                }
                Action::Refuse(..) => {
                    self.refusals += 1;
                    continue;
                }
                Action::WrongRate { ppb } => {
                    self.told_ppb.push(ppb);
                    continue;
                }
                Action::Synchronised(_) => continue,
                Action::SetLeap(leap) => self.clock.set_leap(leap).is_ok(),
                Action::Restart | Action::Makestep { .. } | Action::FeedChronyd(_) => {
                    panic!("no chronyd: {action:?}")
                }
            };
            self.attempts += 1;
            self.keeper.corrected(self.clock.monotonic_ns, is_done);
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

    fn measure(&mut self, index: usize) -> Option<OffsetBound> {
        // xorshift64 (Marsaglia, 2003).
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        self.requests += 1;
        let source = self.sources[index];
        let noise = (self.noise % (2 * source.bound_ns + 1)) as i64 - source.bound_ns as i64;
        let is_other = source.scale != self.scale && source.scale != Scale::Unknown;
        let off_ns = if is_other { self.other_ns() } else { 0 };
        (!source.is_unreachable).then_some(OffsetBound {
            offset_ns: noise + source.lie_ns + off_ns - self.clock.error_ns(),
            bound_ns: source.bound_ns,
            at_monotonic_ns: self.clock.monotonic_ns,
        })
    }
}
