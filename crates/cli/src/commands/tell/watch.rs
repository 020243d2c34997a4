//! `parachron tell --watch`: when guests are told.
//!
//! | what is seen | who is told | why |
//! | --- | --- | --- |
//! | the start | all | `--reason` |
//! | this host was suspended | all, ± 1 s more | resumed |
//! | then: its time daemon states an error anew | all | resumed |
//! | `--every` has passed | all | periodic |
//! | one was not reached 5 s ago | it | cold boot |
//! | one was reached and not told 5 s ago | it | as then |
//!
//! A turn tells one batch, by the host's clock as it is then.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use linux::clock::LinuxClock;
use linux::wait::{Signals, WaitUntil, Wake};
use pvclock::units::Bracket;
use sources::tell::{Address, HostState};
use sources::wire::hosttime::Reason;

use super::line::Fate;
use super::{AT_ONCE, Args, LOOK};
use crate::error::{CliError, cannot_wait};

/// How often it tries a guest that was not told, and a host without the time.
const RETRY: Duration = Duration::from_secs(5);

/// What was done so far.
pub(super) struct Watch<'a> {
    args: &'a Args,
    guests: Vec<WatchedGuest<'a>>,
    suspended: Suspended,
    /// Why all are told next, and when.
    reason: Reason,
    next: Instant,
    retry: Instant,
}

/// One of them.
struct WatchedGuest<'a> {
    address: &'a Address,
    /// Why it is told in the next batch that has room.
    due: Option<Reason>,
    /// Why it should have been told, and was not.
    missed: Option<Reason>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(args: &'a Args) -> Self {
        let (next, retry) = (Instant::now(), Instant::now());
        let guest = |address| WatchedGuest { address, due: None, missed: None };
        let guests = args.guests.iter().map(guest).collect();
        Self { args, guests, suspended: Suspended::default(), reason: args.reason, next, retry }
    }

    pub(super) fn run(mut self) -> Result<ExitCode, CliError> {
        let wait = WaitUntil::new(Signals::ending().map_err(cannot_wait)?).for_reader();
        loop {
            let now = Instant::now();
            let mut pause = LOOK;
            match self.args.host() {
                Ok(host) => {
                    self.look(now, host, suspended_ns());
                    self.tell(host)?;
                    if self.guests.iter().any(|guest| guest.due.is_some()) {
                        pause = Duration::ZERO;
                    }
                }
                // It may come to know the time.
                Err(why) if now >= self.next => {
                    why.print();
                    self.next = now + RETRY;
                }
                Err(_) => {}
            }
            if wait.until(Instant::now() + pause).map_err(cannot_wait)? != Wake::Deadline {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    /// Finds who has to be told.
    fn look(&mut self, now: Instant, host: HostState, suspended_ns: Option<u64>) {
        if self.suspended.look(suspended_ns, host.error(), self.args.error.is_some()) {
            (self.reason, self.next) = (Reason::Resumed, now);
        }
        if now >= self.next {
            for guest in &mut self.guests {
                guest.round(self.reason);
            }
            (self.reason, self.next) = (Reason::Periodic, now + self.args.every);
            self.retry = now + RETRY;
        } else if now >= self.retry {
            for guest in &mut self.guests {
                guest.retry();
            }
            self.retry = now + RETRY;
        }
    }

    /// Tells a batch.
    fn tell(&mut self, host: HostState) -> Result<(), CliError> {
        let host = if self.suspended.is_doubted() { host.after_suspend() } else { host };
        let due = self.guests.iter_mut().filter(|guest| guest.due.is_some());
        let mut batch: Vec<_> = due.take(AT_ONCE).collect();
        let whom: Vec<_> =
            batch.iter().filter_map(|guest| Some((guest.address, guest.due?))).collect();
        let lines = self.args.tell(&whom, host);
        for (guest, line) in batch.iter_mut().zip(&lines) {
            if guest.ended(line.fate()) {
                self.args.print(line)?;
            }
        }
        Ok(())
    }
}

impl WatchedGuest<'_> {
    /// All are told. What it missed is more than that some time has passed.
    fn round(&mut self, reason: Reason) {
        let missed = self.missed.take().or(self.due);
        self.due = missed.filter(|_| reason == Reason::Periodic).or(Some(reason));
    }

    fn retry(&mut self) {
        self.due = self.due.or(self.missed);
    }

    /// What came of it: whether that is news.
    fn ended(&mut self, fate: Fate) -> bool {
        let is_news = fate == Fate::Told || self.missed.is_none();
        let due = self.due.take();
        self.missed = match fate {
            Fate::Told => None,
            Fate::Unreachable => Some(Reason::ColdBoot),
            Fate::NotTold => due,
        };
        is_news
    }
}

// Whether this host was suspended, and whether its clock can be believed since.

/// A smaller difference may come from reading one clock after the other.
const SUSPENDED_NS: u64 = 10_000_000;
/// Readings of which the tightest counts.
const TRIES: u32 = 4;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Suspended {
    /// For how long this machine was suspended since it booted.
    for_ns: Option<u64>,
    /// The host's error, while its time daemon has not stated one since.
    doubted: Option<Duration>,
}

impl Suspended {
    /// Whether all guests have to be told, by `error`, which the host states, and
    /// `for_ns`. Who vouches for the clock does so after a suspension as well.
    pub(super) fn look(&mut self, for_ns: Option<u64>, error: Duration, is_vouched: bool) -> bool {
        let before_ns = self.for_ns;
        self.for_ns = for_ns.or(before_ns);
        let was_suspended = before_ns
            .zip(for_ns)
            .is_some_and(|(before_ns, for_ns)| for_ns.abs_diff(before_ns) > SUSPENDED_NS);
        // By itself the error only grows.
        let is_stated_anew = self.doubted.is_some_and(|doubted| error < doubted);
        self.doubted = if was_suspended {
            (!is_vouched).then_some(error)
        } else if is_stated_anew {
            None
        } else {
            self.doubted.map(|_| error)
        };
        was_suspended || is_stated_anew
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }
}

/// For how long this machine was suspended since it booted; none where this thread
/// lost its CPU in each try.
pub(super) fn suspended_ns() -> Option<u64> {
    tightest(|| {
        let before = LinuxClock::Monotonic.read_ns()?;
        let inner = LinuxClock::Boottime.read_ns()?;
        Some(Bracket { before, inner, after: LinuxClock::Monotonic.read_ns()? })
    })
}

fn tightest(take: impl FnMut() -> Option<Bracket>) -> Option<u64> {
    let at = Bracket::tightest(TRIES, SUSPENDED_NS / 20, take)?;
    (at.width()? <= SUSPENDED_NS / 2).then(|| at.inner.saturating_sub(at.before))
}

#[cfg(test)]
mod tests {
    use super::Fate::{NotTold, Told, Unreachable};
    use super::Reason::{ColdBoot, Periodic, Restored, Resumed};
    use super::*;

    /// Rounds, or retries where they have no reason, and what came of them: why the
    /// guest was told, and whether that was printed.
    fn told(rounds: &[(Option<Reason>, Fate)]) -> Vec<(Reason, bool)> {
        let address: Address = "vsock:3".parse().unwrap();
        let mut guest = WatchedGuest { address: &address, due: None, missed: None };
        let one = |(round, fate): &(Option<Reason>, Fate)| {
            match round {
                Some(reason) => guest.round(*reason),
                None => guest.retry(),
            }
            (guest.due.unwrap(), guest.ended(*fate))
        };
        rounds.iter().map(one).collect()
    }

    #[test]
    fn what_a_guest_missed_it_is_told_later() {
        let rounds = [(Some(Restored), NotTold), (None, NotTold), (None, Told)];
        assert_eq!(told(&rounds), [(Restored, true), (Restored, false), (Restored, true)]);
        let rounds = [(Some(Resumed), NotTold), (Some(Periodic), NotTold), (None, Told)];
        assert_eq!(told(&rounds), [(Resumed, true), (Resumed, true), (Resumed, true)]);
        let rounds = [(Some(Periodic), NotTold), (Some(Resumed), Told), (Some(Periodic), Told)];
        assert_eq!(told(&rounds), [(Periodic, true), (Resumed, true), (Periodic, true)]);
    }

    #[test]
    fn a_guest_that_was_not_reached_is_booted() {
        let rounds = [(Some(Resumed), Unreachable), (None, NotTold), (None, Told)];
        assert_eq!(told(&rounds), [(Resumed, true), (ColdBoot, false), (ColdBoot, true)]);
    }

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_thread_that_loses_its_cpu_was_not_suspended() {
        let lost = Bracket { before: 0, inner: HOUR_NS + 30_000_000, after: 30_000_100 };
        let quick = Bracket { before: 0, inner: HOUR_NS + 50, after: 100 };
        let mut some = [lost, lost, quick].into_iter();
        assert_eq!(tightest(|| some.next()), Some(HOUR_NS + 50));
        assert_eq!(tightest(|| Some(lost)), None);
        assert!(suspended_ns().is_some());
    }

    #[test]
    fn all_are_told_when_the_host_was_suspended_and_when_its_daemon_is_sure_again() {
        let mut host = Suspended::default();
        for (for_ns, error_ms, is_told, is_doubted) in [
            (Some(HOUR_NS), 2, false, false),
            (Some(HOUR_NS + 1_000_000), 1, false, false),
            (None, 3, false, false),
            (Some(2 * HOUR_NS), 3, true, true),
            (Some(2 * HOUR_NS), 4, false, true),
            (None, 50, false, true),
            // Less than at the last look, though not than before the suspension.
            (Some(2 * HOUR_NS), 40, true, false),
            (Some(2 * HOUR_NS), 30, false, false),
        ] {
            assert_eq!(host.look(for_ns, ms(error_ms), false), is_told, "{for_ns:?} {error_ms}");
            assert_eq!(host.is_doubted(), is_doubted, "{for_ns:?} {error_ms}");
        }
        assert!(host.look(Some(3 * HOUR_NS), ms(9), true));
        assert!(!host.is_doubted());
    }
}
