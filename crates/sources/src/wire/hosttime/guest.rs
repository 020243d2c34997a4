//! The guest's side: what to ask, and what to make of what comes.
//!
//! | state | a notice | an answer to the request | nothing for [`TIMEOUT_NS`] |
//! | --- | --- | --- | --- |
//! | idle | asks, at most every [`MIN_INTERVAL_NS`] | refused | |
//! | asked | noted: asks once more afterwards | asks again, or after [`ROUNDS`] done | refused, idle |
//!
//! An exchange that was disturbed (a slow round, a clock that was set, answers that contradict each
//! other) begins anew, [`RETRIES`] times for a notice. A restore disturbs its own exchange: the
//! guest may correct its clock by another source meanwhile, and the host gives no second notice.
//!
//! Nothing that comes does anything but one of these, so a flood costs its
//! reading. An exchange gives one offset, or none.

use pvclock::units::{ClockPair, OffsetBound};

use crate::wire::hosttime::frame::{HostTimeFrame, Reason, TimeAnswer};
use crate::wire::hosttime::measured::{MeasuredOffset, Refused};

/// Requests of one exchange: the fastest counts.
pub const ROUNDS: u32 = 4;

/// How often an exchange that was disturbed begins anew after a notice.
pub const RETRIES: u32 = 3;

/// How long an answer is waited for, ns.
pub const TIMEOUT_NS: u64 = 1_000_000_000;

/// Exchanges begin at most this often, ns.
pub const MIN_INTERVAL_NS: u64 = 250_000_000;

/// What a frame meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The host has something to tell: [`GuestExchange::next`] asks.
    Notice(Reason),
    /// One answer of several.
    Answer,
    /// The exchange is over: UTC by the host minus CLOCK_REALTIME.
    Offset(OffsetBound),
}

/// A guest's part in the exchanges on one channel.
#[derive(Debug, Default)]
pub struct GuestExchange {
    is_wanted: bool,
    /// What is left of [`RETRIES`] since the last notice.
    retries_left: u32,
    /// When the last exchange began, CLOCK_MONOTONIC, ns.
    begun_ns: Option<u64>,
    /// The request that is not answered yet: its nonce, and when it was sent.
    asked: Option<(u64, ClockPair)>,
    answered: u32,
    best: Option<MeasuredOffset>,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC when the exchange began, ns.
    ahead_ns: i128,
}

/// By how much CLOCK_REALTIME is ahead.
fn ahead_ns(of: ClockPair) -> i128 {
    i128::from(of.realtime_ns) - i128::from(of.monotonic_ns)
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC are read one after the other: by more
/// than this the first was set.
const SET_NS: i128 = 10_000_000;

impl GuestExchange {
    /// A frame came, at `now`.
    ///
    /// # Errors
    /// Why it is not used; the exchange that it belongs to is over then.
    pub fn receive(&mut self, frame: &HostTimeFrame, now: ClockPair) -> Result<Heard, Refused> {
        match frame {
            HostTimeFrame::Notice(reason) => {
                (self.is_wanted, self.retries_left) = (true, RETRIES);
                Ok(Heard::Notice(*reason))
            }
            HostTimeFrame::Request { .. } => Err(Refused::NotAHost),
            HostTimeFrame::Answer(answer) => {
                let (_, sent) = self
                    .asked
                    .filter(|(nonce, sent)| {
                        (*nonce, sent.realtime_ns) == (answer.nonce, answer.request_sent_ns)
                    })
                    // It may be a stranger's: ours is still waited for.
                    .ok_or(Refused::NotAsked { nonce: answer.nonce })?;
                self.asked = None;
                self.answered(answer, sent, now).inspect_err(|why| self.end_refused(why))
            }
        }
    }

    /// The exchange is over without an offset.
    fn end_refused(&mut self, why: &Refused) {
        self.answered = 0;
        if why.is_disturbance() && self.retries_left > 0 {
            (self.is_wanted, self.retries_left) = (true, self.retries_left - 1);
        }
    }

    fn answered(
        &mut self,
        answer: &TimeAnswer,
        sent: ClockPair,
        now: ClockPair,
    ) -> Result<Heard, Refused> {
        let set_ns = (ahead_ns(now) - self.ahead_ns).unsigned_abs();
        if set_ns > SET_NS.unsigned_abs() {
            return Err(Refused::Contradiction {
                by_ns: u64::try_from(set_ns).unwrap_or(u64::MAX),
            });
        }
        let measured = MeasuredOffset::from_answer(answer, sent, now)?;
        let best = match self.best.take() {
            Some(best) => best.or(measured)?,
            None => measured,
        };
        self.best = Some(best);
        self.answered += 1;
        if self.answered < ROUNDS {
            return Ok(Heard::Answer);
        }
        self.answered = 0;
        let (offset_ns, bound_ns) = best.offset(ahead_ns(now))?;
        Ok(Heard::Offset(OffsetBound { offset_ns, bound_ns, at_monotonic_ns: best.at_ns }))
    }

    /// The request to send now, if one is due; `now` is read just before it is
    /// sent, and the nonce is random.
    ///
    /// # Errors
    /// [`Refused::NoAnswer`], once for each exchange that ends so.
    pub fn next(
        &mut self,
        now: ClockPair,
        nonce: impl FnOnce() -> u64,
    ) -> Result<Option<HostTimeFrame>, Refused> {
        if let Some((_, sent)) = self.asked {
            if now.monotonic_ns.saturating_sub(sent.monotonic_ns) <= TIMEOUT_NS {
                return Ok(None);
            }
            (self.asked, self.answered) = (None, 0);
            return Err(Refused::NoAnswer { limit_ns: TIMEOUT_NS });
        }
        if self.answered == 0 {
            let is_early = self.begun_ns.is_some_and(|begun_ns| {
                now.monotonic_ns.saturating_sub(begun_ns) < MIN_INTERVAL_NS
            });
            if !self.is_wanted || is_early {
                return Ok(None);
            }
            self.is_wanted = false;
            (self.begun_ns, self.best) = (Some(now.monotonic_ns), None);
            self.ahead_ns = ahead_ns(now);
        }
        let nonce = nonce();
        self.asked = Some((nonce, now));
        Ok(Some(HostTimeFrame::Request { nonce, sent_ns: now.realtime_ns }))
    }
}

#[cfg(test)]
mod tests;
