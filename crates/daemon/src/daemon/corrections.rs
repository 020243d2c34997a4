//! How corrections and adjustments are made: alone, or beside another daemon
//! that disciplines the clock.

use facts::steering::{Adjtimex, TimeKeeperKind};
use keeper::event::{Basis, Corrected, CorrectionMethod, KeeperEvent};
use keeper::{Action, Adjustment, ClockError, Correction, Corrector, KeptBound, LearntFrequency};
use linux::adjtimex::{self, TICK_US};
use linux::system_clock::SetError;
use pvclock::units::{LeapSecond, OffsetBound};

use super::guard::rests_on_measurement;
use super::{Daemon, Duration, Instant, change_event, monotonic_ns};
use crate::chronyd::LONGEST_STEP;
use crate::kept_clock::KeptClock;
use crate::other_daemons::FOR_A_CORRECTION;
use crate::polled::Source;

/// What chronyd is fed through, in events.
const FEED: &str = "chronyd's reference clock";

/// Where chronyd is told, in events.
const COMMANDS: &str = "chronyd's command socket";

/// Samples that come more often than this need no looks between them.
const LOOKS_FROM: Duration = Duration::from_millis(300);

impl Daemon {
    /// The frequency that is set, and the one that was learnt.
    pub(super) fn start_discipline(&mut self) {
        if self.keeper.policy().corrector != Corrector::Kernel || self.clock.is_simulated() {
            return self.start_keeper(None);
        }
        let stored = self.learnt.load().unwrap_or_else(|why| {
            self.events.push(KeeperEvent::FrequencyFile { why });
            None
        });
        self.start_keeper(stored);
    }

    /// What the kernel holds, and what was learnt before.
    pub(super) fn start_keeper(&mut self, stored: Option<LearntFrequency>) {
        let is_ours =
            self.keeper.policy().corrector == Corrector::Kernel && !self.clock.is_simulated();
        if is_ours && let Some((tick_us, ppb)) = self.clock.reset_tick() {
            self.events.push(KeeperEvent::TickReset { tick_us, frequency_ppm: ppb / 1000.0 });
        }
        self.keeper.start_at(self.clock.found_frequency_ppb(), stored);
        let Some(found) = adjtimex::read().ok().filter(|_| is_ours) else {
            return self.keeper.adopt_leap(None);
        };
        // A leap second that has passed is in the way of the next until its bit is
        // cleared.
        if found.state == libc::TIME_WAIT {
            let _ = self.clock.set_leap(None);
        }
        self.keeper.adopt_leap(found.leap_due());
    }

    pub(super) fn store_learnt(&mut self, is_last: bool) {
        if !self.clock.is_simulated()
            && let Err(why) = self.learnt.store(self.keeper.frequency(), is_last)
        {
            self.events.push(KeeperEvent::FrequencyFile { why });
        }
    }

    /// Leaves the discipline to another daemon that runs, or takes it over;
    /// whether that is new.
    pub(super) fn follow_others(&mut self, found_within: Duration) -> bool {
        if self.settings.chronyd.corrector() != Corrector::Kernel {
            return false;
        }
        let daemon = self.others.disciplining(found_within).cloned();
        let corrector = daemon.as_ref().map_or(Corrector::Kernel, |_| Corrector::Beside);
        if !self.keeper.set_corrector(corrector) {
            return false;
        }
        if daemon.is_none() {
            self.start_keeper(None);
        }
        let unit = daemon.as_ref().and_then(|daemon| daemon.unit.clone());
        let daemon = daemon.map(|daemon| daemon.kind);
        self.events.push(KeeperEvent::DaemonBeside { daemon, unit });
        true
    }

    /// What a source announces, by the clock as it would be.
    pub(super) fn report_announcement(&mut self, index: usize) {
        if let Ok(now) = self.clock.now() {
            let is_smeared_nearby = self.sources.iter().any(Source::is_smeared_nearby);
            let told = self.sources[index].announcement(is_smeared_nearby);
            self.keeper.announced(index, told, monotonic_ns(), now.0);
        }
    }

    pub(super) fn set_leap(&mut self, leap: Option<LeapSecond>) {
        // It fails for want of permission alone, as a correction does.
        let is_told = !self.follow_others(FOR_A_CORRECTION) && self.clock.set_leap(leap).is_ok();
        self.keeper.corrected(monotonic_ns(), is_told);
        if is_told {
            let by_s = leap.map_or(0, |leap| if leap == LeapSecond::Inserted { 1 } else { -1 });
            self.events.push(KeeperEvent::LeapSecond { by_s, dry_run: self.clock.is_simulated() });
        }
    }

    pub(super) fn is_beside(&self) -> bool {
        self.keeper.policy().corrector == Corrector::Beside
    }

    fn is_beside_chronyd(&mut self) -> bool {
        let daemon = self.others.current().map(|daemon| daemon.kind);
        self.is_beside() && daemon == Some(TimeKeeperKind::Chrony) && !self.clock.is_simulated()
    }

    /// Frequency and microseconds: no event tells of them.
    pub(super) fn discipline(&mut self, by: Adjustment) {
        if self.follow_others(FOR_A_CORRECTION) {
            return self.keeper.corrected(monotonic_ns(), false);
        }
        let made = self.clock.discipline(by);
        self.keeper.corrected(monotonic_ns(), made.is_ok());
        if made.is_err() {
            // Whoever steers it may have started just now.
            self.follow_others(Duration::ZERO);
            self.start_keeper(None);
        }
    }

    /// Looks whether another process has changed the frequency: the clock's rate is not known then,
    /// and its bound grows by what the kernel could steer until it is measured again.
    pub(super) fn check_frequency(&mut self) {
        let is_ours = self.keeper.policy().corrector == Corrector::Kernel;
        if is_ours && self.clock.is_steered_by_another() {
            self.lose_frequency(FOR_A_CORRECTION);
        }
    }

    /// Has nothing bound the clock's error while the kernel steers it beyond what bounds grow by,
    /// nor what was measured until then, and while it is not known what has happened.
    pub(super) fn note_steering(&mut self, is_beyond_bounds: bool) {
        let now_ns = monotonic_ns();
        if is_beyond_bounds != (self.unbounded_until_ns > now_ns) {
            self.keeper.forget_bound(now_ns);
            self.unbounded_until_ns = if is_beyond_bounds { u64::MAX } else { now_ns };
        }
        let unbounded_until_ns = self.observer.away_until_ns().max(Some(self.unbounded_until_ns));
        self.keeper.gathering(self.observer.is_gathering(), unbounded_until_ns);
    }

    /// Another process steers the clock, which may have started just now.
    pub(super) fn lose_frequency(&mut self, found_within: Duration) {
        self.keeper.lose_line();
        self.follow_others(found_within);
        self.start_keeper(None);
    }

    /// The other daemon measures anew.
    pub(super) fn restart_other(&mut self) {
        if self.is_beside_chronyd() {
            let begun = Instant::now();
            let change = self.chronyd.measure_anew();
            self.events.extend(change.map(|change| change_event(COMMANDS.to_owned(), change)));
            self.observer.was_busy(begun.elapsed().min(LONGEST_STEP));
        }
    }

    /// Whether the clock was set since what this rests on was measured.
    pub(super) fn is_cancelled(&mut self, action: &Action) -> bool {
        rests_on_measurement(action) && self.was_set()
    }

    pub(super) fn correct(&mut self, by: &Correction, how: CorrectionMethod) {
        // A step is made beside another daemon as well.
        if self.follow_others(FOR_A_CORRECTION) && how == CorrectionMethod::Slew {
            return self.keeper.corrected(monotonic_ns(), false);
        }
        let Some(moved_ns) = self.prepare(how) else {
            return self.events.push(KeeperEvent::Cancelled { how, by_ns: by.by_ns });
        };
        let by = &Correction { by_ns: by.by_ns.saturating_sub(moved_ns), ..*by };
        let read = |clock: &KeptClock| clock.now().ok().map(|now| now.0);
        let before_unix_ns = read(&self.clock);
        let done = self.carry_out(by, how);
        let after_unix_ns = read(&self.clock);
        self.keeper.corrected(monotonic_ns(), done.is_ok());
        if let Err(why) = done {
            self.summary.failed += 1;
            return self.events.push(KeeperEvent::Failed { how, by_ns: by.by_ns, why });
        }
        match how {
            CorrectionMethod::Step => {
                self.summary.steps += 1;
                let size_ns = by.by_ns.unsigned_abs();
                self.summary.largest_step_ns = self.summary.largest_step_ns.max(size_ns);
            }
            CorrectionMethod::Slew => self.summary.slews += 1,
            CorrectionMethod::Makestep => self.summary.makesteps += 1,
        }
        self.events.push(KeeperEvent::Corrected(Corrected {
            how,
            dry_run: self.clock.is_simulated(),
            before_unix_ns,
            after_unix_ns,
            basis: self.basis(by),
        }));
    }

    pub(super) fn basis(&self, correction: &Correction) -> Basis {
        let source = self.sources.get(correction.source);
        Basis::new(correction, source.map_or("?", |source| &source.name))
    }

    /// Before a correction: by how much that has moved the clock already, ns; `None` if it
    /// is not to be made any more, as the clock was moved since it was measured. What
    /// chronyd is told to step it measures itself.
    pub(super) fn prepare(&mut self, how: CorrectionMethod) -> Option<i64> {
        if how == CorrectionMethod::Makestep {
            return Some(0);
        }
        if self.was_set() {
            return None;
        }
        // What chronyd is slewing may be a step backward.
        let may_finish = !self.settings.policy.never_backward;
        if how != CorrectionMethod::Step || !may_finish || !self.is_beside_chronyd() {
            return Some(0);
        }
        let begun = Instant::now();
        let change = self.chronyd.finish_slew();
        self.events.extend(change.map(|change| change_event(COMMANDS.to_owned(), change)));
        let stepped_ns = self.guard.take_chronyds_step_ns();
        self.observer.was_busy(begun.elapsed().min(LONGEST_STEP));
        // Where it is not known what that was, the keeper is told.
        let is_known = !self.was_set();
        stepped_ns.filter(|_| is_known)
    }

    pub(super) fn set_error(&mut self, error: ClockError) -> Result<(), SetError> {
        if self.is_beside() { self.clock.restore_error(error) } else { self.clock.set_error(error) }
    }

    pub(super) fn carry_out(
        &mut self,
        by: &Correction,
        how: CorrectionMethod,
    ) -> Result<(), String> {
        match how {
            CorrectionMethod::Makestep if !self.clock.is_simulated() => {
                let begun = Instant::now();
                let done = self.chronyd.step();
                self.observer.was_busy(begun.elapsed().min(LONGEST_STEP));
                done.map_err(|why| why.to_string())
            }
            CorrectionMethod::Slew => self.clock.slew(by.by_ns).map_err(|why| why.to_string()),
            _ => {
                self.clock.step(by.by_ns).map_err(|why| why.to_string())?;
                if !self.clock.is_simulated() {
                    self.guard.step(by.by_ns);
                }
                Ok(())
            }
        }
    }

    /// Whether a clock of the host says what a pause has cost, at the price of a read and
    /// of a wake-up, and nothing else makes that needless: a host that gives notice wakes
    /// the daemon itself, and beside another daemon the next sample is soon enough.
    pub(super) fn looks_between(&self) -> bool {
        let is_alone = self.keeper.policy().corrector == Corrector::Kernel;
        let now = Instant::now();
        let is_told =
            self.sources.iter().filter_map(Source::host).any(|host| host.gives_notice(now));
        self.settings.interval >= LOOKS_FROM
            && is_alone
            && !is_told
            && self.sources.iter().any(Source::is_cheap)
    }

    /// Whether the clock, which was right, has been left behind or set.
    pub(super) fn has_moved(&mut self) -> bool {
        let KeptBound::Within { offset: known, .. } = self.keeper.error_bound(monotonic_ns())
        else {
            return false;
        };
        let seen = self.sources.iter_mut().find_map(Source::glance);
        let moved_ns = |seen: OffsetBound| {
            seen.offset_ns.saturating_sub(self.clock.ahead_ns()).abs_diff(known.offset_ns)
        };
        seen.is_some_and(|seen| moved_ns(seen) > self.settings.policy.step_threshold_ns)
    }

    pub(super) fn feed(&mut self, offset: &OffsetBound) {
        if self.clock.is_simulated() {
            self.summary.fed_chronyd += 1;
            return;
        }
        let (is_accepted, change) = self.chronyd.feed(offset);
        self.summary.fed_chronyd += u64::from(is_accepted);
        self.events.extend(change.map(|change| change_event(FEED.to_owned(), change)));
    }
}

/// Whether the kernel steers the clock faster than any bound grows: by a tick of another length,
/// as chronyd slews a large offset, or `adjtimex --tick` does.
pub(super) fn steers_beyond_bounds(found: &Adjtimex) -> bool {
    let by_tick_ppm = (found.tick_us - TICK_US) as f64 * 1e6 / TICK_US as f64;
    (found.frequency_ppm + by_tick_ppm).abs() * 1e3 > keeper::UNKNOWN_PPB
}
