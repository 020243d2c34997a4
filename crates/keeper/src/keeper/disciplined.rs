//! The clock between corrections: its frequency, the last microseconds, and
//! what the kernel is told of its error.
//!
//! A server is asked once a minute, and a pause of milliseconds between two
//! replies, which nothing else shows, looks like a frequency: how well one that
//! servers show is known is not claimed, nor is it stored.

use disruptions::{Disruption, Evidence, Kind};

use super::polled::SECOND_NS;
use super::{Keeper, Known, Phase};
use crate::action::Action;
use crate::choice::Selected;
use crate::discipline::Adjustment;
use crate::frequency::Frequency;
use crate::offset::Offset;
use crate::policy::Corrector;
use crate::slewing::Slewing;
use crate::source::SourceKind;
use crate::system_clock::ClockError;

/// How often the clock's error is reported to the kernel, which adds 500 µs a
/// second to it: at most 8 ms.
const REPORT_INTERVAL_NS: u64 = 16 * SECOND_NS;

/// What the kernel adds to its largest error (MAXFREQ, include/linux/timex.h).
pub(super) const UNKNOWN_PPB: f64 = 500_000.0;

/// The kernel's largest error, by which it sets STA_UNSYNC (NTP_PHASE_LIMIT,
/// include/linux/timex.h).
const UNKNOWN_NS: u64 = 16 * SECOND_NS;

impl Keeper {
    /// The kernel's frequency at the start, ppb, and what was learnt before; that
    /// counts where a source can show it to be wrong.
    pub fn start_at(&mut self, kernel_ppb: f64, learnt: Option<Frequency>) {
        let disciplines = |kind: SourceKind| kind.is_local() && kind != SourceKind::Rtc;
        let learnt = learnt.filter(|_| self.sources.iter().any(|it| disciplines(it.kind)));
        self.discipline.failed();
        let adjustment = self.discipline.start(kernel_ppb, learnt);
        if self.policy.corrector == Corrector::Kernel {
            self.queued.extend(adjustment.map(Action::Discipline));
        }
    }

    /// The frequency that is set, and how well it is known; `None` while it is
    /// not. To be stored for the next start.
    pub fn frequency(&self) -> Option<Frequency> {
        let is_ours = self.policy.corrector == Corrector::Kernel;
        self.discipline.learnt().filter(|_| is_ours)
    }

    /// Another daemon that disciplines the clock was started, or the last one
    /// ended: whether that is new.
    pub fn set_corrector(&mut self, corrector: Corrector) -> bool {
        let is_new = self.policy.corrector != corrector;
        if is_new {
            self.policy.corrector = corrector;
            let is_ours = |action: &Action| {
                matches!(
                    action,
                    Action::Discipline(_) | Action::SetFigures { .. } | Action::SetError { .. }
                )
            };
            self.queued.retain(|action| !is_ours(action));
            self.leave_leap();
            self.discipline.failed();
        }
        is_new
    }

    /// What a disruption leaves of what was learnt: a paused machine keeps its
    /// oscillator, one that may have been moved perhaps not.
    pub(super) fn disturb_frequency(&mut self, disruption: &Disruption) {
        // An RTC runs away from a slow clock as in an absence. What it shows alone does
        // not hide a rate: that repeats itself to the millisecond.
        if !matches!(disruption.evidence[..], [Evidence::Rtc { .. }]) {
            self.discipline.disrupted();
        }
        let moves = [Kind::Migrated, Kind::SourceSwitched, Kind::SnapshotRestored];
        if !moves.into_iter().any(|kind| disruption.kinds.contains(kind)) {
            return;
        }
        let only = disruption.kinds.only();
        let is_certain = matches!(only, Some(Kind::Migrated | Kind::SourceSwitched));
        let adjustment = self.discipline.other_oscillator(is_certain);
        if self.policy.corrector == Corrector::Kernel {
            self.queued.extend(adjustment.map(Action::Discipline));
        }
    }

    /// A slew of ours began, beside those of the discipline.
    pub(super) fn slewed(&mut self, now_ns: u64, by_ns: i64) {
        let slewing = Slewing { by_ns, since_ns: now_ns };
        self.slewing = Some(slewing);
        self.discipline.slewed(slewing);
    }

    /// A set of the clock, noticed at `at_ns`, ended a slew (TK_CLEAR_NTP,
    /// kernel/time/timekeeping.c), but none that was begun since: a set is known some
    /// samples later. One that was begun before may have been begun after the set, and go
    /// on: what it moved would be taken for a frequency. So it is ended for certain.
    pub(super) fn end_slew(&mut self, at_ns: u64) {
        let is_ours = self.policy.corrector == Corrector::Kernel;
        if self.discipline.is_slewing(at_ns) && is_ours {
            let end = Adjustment { frequency_ppb: None, slew_ns: Some(0) };
            self.queued.push_back(Action::Discipline(end));
        }
        if let Some(slewing) = self.slewing.as_mut().filter(|one| one.since_ns <= at_ns) {
            slewing.by_ns = 0;
        }
        self.discipline.end_slew(at_ns);
    }

    /// The clock is right: what to adjust.
    pub(super) fn discipline(&mut self, now_ns: u64, selected: &Selected) -> Option<Adjustment> {
        self.learn(now_ns, selected)?;
        self.discipline.adjust(now_ns, self.policy.poll_ns)
    }

    /// Notes what is measured; `None` where nothing is to follow from it.
    fn learn(&mut self, now_ns: u64, selected: &Selected) -> Option<()> {
        let is_ours = self.policy.corrector == Corrector::Kernel && !selected.kind.is_pushed();
        // What a set that is not classified yet may be in shows no frequency.
        let proven = selected.proven.filter(|_| is_ours && !self.is_gathering)?;
        let offset = selected.offset.interval_at(now_ns);
        let likely_ns = selected.kind.is_server().then_some(selected.likely_ns);
        self.discipline.measured(now_ns, offset, proven, likely_ns);
        Some(())
    }

    /// The clock is slewed by all that it is off: of what shows its rate, the frequency
    /// is set. Where nothing had disturbed it, and its rate is not known, the next polls
    /// come in a hurry, and tell a rate from an absence before them.
    pub(super) fn learn_rate(&mut self, now_ns: u64, selected: &Selected) {
        let is_rate = matches!(self.phase, Phase::Settled) && selected.kind.is_server();
        let is_news = is_rate && !self.discipline.knows_rate() && !self.discipline.is_told();
        if is_news && std::mem::take(&mut self.may_hurry) {
            self.discipline.disturbed();
            self.hurry(now_ns);
        }
        if self.learn(now_ns, selected).is_some() {
            let frequency = self.discipline.adjust_frequency(now_ns, self.policy.poll_ns);
            self.queued.extend(frequency.map(Action::Discipline));
        }
    }

    /// Tells of a clock that runs at another rate than the kernel's frequency can hold,
    /// whatever steps follow it. A voice alone is not believed so much.
    pub(super) fn watch_rate(&mut self, now_ns: u64, selected: &Selected) {
        let is_ours = self.policy.corrector == Corrector::Kernel && selected.agreeing.0 >= 2;
        let Some(proven) = selected.proven.filter(|_| is_ours) else { return };
        let ppb = self.discipline.ran(now_ns, proven);
        self.queued.extend(ppb.map(|ppb| Action::WrongRate { ppb }));
    }

    /// The clock's error, for the kernel: where that is new, or was last
    /// reported some time ago. It is for whoever corrects the clock to report;
    /// beside another daemon only what our own step has reset.
    pub(super) fn report_error(
        &mut self,
        now_ns: u64,
        by: &Selected,
        is_new: bool,
    ) -> Option<Action> {
        let is_ours = match self.policy.corrector {
            Corrector::Kernel => {
                is_new || now_ns.saturating_sub(self.told_ns) >= REPORT_INTERVAL_NS
            }
            Corrector::Beside => matches!(self.phase, Phase::Corrected(_)),
            Corrector::Chronyd { .. } => false,
        };
        if !is_ours || by.fresh < self.needed().0 {
            return None;
        }
        let estimated_ns = by.offset.offset_ns.unsigned_abs();
        self.told_ns = now_ns;
        let max_ns = estimated_ns.saturating_add(by.offset.bound_at(now_ns));
        Some(Action::SetError(ClockError { max_ns, estimated_ns }))
    }

    /// The clock was right and is not measured any more: its probable error,
    /// for the kernel.
    pub(super) fn hold_over(&mut self, now_ns: u64) -> Option<Action> {
        let is_ours = self.policy.corrector == Corrector::Kernel;
        let is_right = is_ours && matches!(self.phase, Phase::Settled);
        let Known::Within { offset, is_free_running } = self.known(now_ns) else { return None };
        // Once it could have been measured again.
        let is_due = now_ns.saturating_sub(self.told_ns) >= 2 * REPORT_INTERVAL_NS;
        let learnt_ppb = self.frequency().map(|learnt| learnt.uncertainty_ppb);
        // Servers teach none: then it grows as the largest error does.
        let uncertainty_ppb = learnt_ppb.or(is_free_running.then_some(UNKNOWN_PPB));
        let uncertainty_ppb = uncertainty_ppb.filter(|_| is_right && is_due)?;
        self.told_ns = now_ns.saturating_sub(REPORT_INTERVAL_NS);
        let elapsed_ns = now_ns.saturating_sub(offset.at_monotonic_ns) as f64;
        let drifted_ns = (elapsed_ns * uncertainty_ppb * 1e-9) as u64;
        let estimated_ns = offset.offset_ns.unsigned_abs().saturating_add(drifted_ns);
        Some(Action::SetFigures { max_ns: None, estimated_ns })
    }

    /// Something may have moved the clock: what the kernel was told of its error does
    /// not hold until it is measured, and if no source replies, the kernel must not
    /// call it synchronised, nor write it to the RTC.
    pub(super) fn forget_error(&mut self) {
        if self.policy.corrector == Corrector::Kernel && std::mem::take(&mut self.told_ns) != 0 {
            let (max_ns, estimated_ns) = (Some(UNKNOWN_NS), UNKNOWN_NS);
            self.queued.push_back(Action::SetFigures { max_ns, estimated_ns });
        }
    }
}
