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

use linux::wait::{Signals, WaitUntil, Wake};
use sources::tell::{Address, HostState};
use sources::wire::hosttime::Reason;

use super::line::Fate;
use super::options::{AT_ONCE, Args, LOOK};
use super::suspended::{Suspended, suspended_ns};
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
}
