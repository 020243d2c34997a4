//! `parachron tell --watch`: when guests are told.
//!
//! | what is seen | who is told | why |
//! | --- | --- | --- |
//! | the start | all | `--reason` |
//! | this host was suspended | all, ± 1 s more | resumed |
//! | then: its time daemon states an error anew | all | resumed |
//! | `--every` has passed | all | periodic |
//! | one was not reached 5 s ago | it | cold boot |

use std::process::ExitCode;
use std::time::{Duration, Instant};

use linux::clock::Clock;
use linux::wait::{Signals, Wait, Wake};
use tell::{Address, HostState};

use super::line::Line;
use super::options::{Args, LOOK, Why};
use crate::error::{CliError, cannot_wait};

/// How often it tries a guest that was not reached, and a host without the time.
const RETRY: Duration = Duration::from_secs(5);
/// BOOTTIME and MONOTONIC are read one after the other.
const SUSPENDED_NS: u64 = 10_000_000;

/// What was done so far.
pub(super) struct Watch<'a> {
    args: &'a Args,
    all: Vec<&'a Address>,
    missing: Vec<&'a Address>,
    suspended_ns: u64,
    /// The host's stated error when it was suspended, while its daemon has not
    /// stated another.
    doubted: Option<Duration>,
    /// Why all are told next, and when.
    reason: Why,
    next: Instant,
    retry: Instant,
}

impl<'a> Watch<'a> {
    pub(super) fn new(args: &'a Args) -> Self {
        let (next, retry) = (Instant::now(), Instant::now());
        let all: Vec<_> = args.guests.iter().collect();
        let (missing, suspended_ns, doubted) = (Vec::new(), suspended_ns(), None);
        Self { args, all, missing, suspended_ns, doubted, reason: args.reason, next, retry }
    }

    pub(super) fn run(mut self) -> Result<ExitCode, CliError> {
        let wait = Wait::new(Signals::ending().map_err(cannot_wait)?).for_reader();
        loop {
            match self.args.host() {
                Ok(host) => self.look(host)?,
                // It may come to know the time.
                Err(why) if Instant::now() >= self.next => {
                    why.print();
                    self.next = Instant::now() + RETRY;
                }
                Err(_) => {}
            }
            if wait.until(Instant::now() + LOOK).map_err(cannot_wait)? != Wake::Deadline {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    fn look(&mut self, host: HostState) -> Result<(), CliError> {
        let now = Instant::now();
        let suspended_ns = suspended_ns();
        if suspended_ns.abs_diff(self.suspended_ns) > SUSPENDED_NS {
            self.suspended_ns = suspended_ns;
            // Somebody who vouches for the clock does so afterwards as well.
            self.doubted = self.args.error.is_none().then(|| host.error());
            (self.reason, self.next) = (Why::Resumed, now);
        } else if self.doubted.is_some_and(|doubted| host.error() < doubted) {
            // By itself it only grows.
            self.doubted = None;
            (self.reason, self.next) = (Why::Resumed, now);
        }
        let host = if self.doubted.is_some() { host.after_suspend() } else { host };
        if now >= self.next {
            let told = self.args.tell(&self.all, self.reason, host);
            self.args.print(&told)?;
            self.missing = not_told(&told);
            (self.next, self.retry) = (now + self.args.every, now + RETRY);
            self.reason = Why::Periodic;
        } else if now >= self.retry && !self.missing.is_empty() {
            let told = self.args.tell(&self.missing, Why::ColdBoot, host);
            self.args.print(told.iter().filter(|(_, line)| line.is_told()))?;
            self.missing = not_told(&told);
            self.retry = now + RETRY;
        }
        Ok(())
    }
}

fn not_told<'a>(told: &[(&'a Address, Line)]) -> Vec<&'a Address> {
    told.iter().filter(|(_, line)| !line.is_told()).map(|(guest, _)| *guest).collect()
}

/// How long this machine was suspended since it booted.
fn suspended_ns() -> u64 {
    let monotonic_ns = Clock::Monotonic.read_ns().unwrap_or_default();
    Clock::Boottime.read_ns().unwrap_or_default().saturating_sub(monotonic_ns)
}
