//! The status of a daemon, for who asks.

use std::time::Instant;

use keeper::{Next, Refusal, SourceState};
use linux::adjtimex;
use linux::clock::Clock;
use linux::wait::Wait;

use super::{Daemon, Tokens};
use crate::board::StatusBoard;
use crate::error::DaemonError;
use crate::kept_clock::monotonic_ns;
use crate::status::{ClockStatus, KernelStatus, NextAction, NextStatus, SourceStatus, Status};
use crate::words;

impl Daemon {
    /// Has `wait` wake for the clock set, for the host and for who asks, as
    /// they are now.
    pub(super) fn wake_for(&self, wait: &mut Wait) -> Result<Tokens, DaemonError> {
        wait.forget_all();
        // First the clock set: it is reported before the host's messages.
        if let Some(clock_set) = self.sampler.clock_set() {
            wait.add(clock_set).map_err(DaemonError::Wait)?;
        }
        let host = self.sources.iter().find_map(|source| source.host()).map(|host| wait.add(host));
        let status = self.asked.as_ref().map(|socket| wait.add(socket));
        Ok(Tokens {
            host: host.transpose().map_err(DaemonError::Wait)?,
            status: status.transpose().map_err(DaemonError::Wait)?,
        })
    }

    /// Serves who asks.
    pub(super) fn answer(&mut self) {
        if let Some(mut socket) = self.asked.take() {
            // It has numbers and text alone: its JSON form always exists.
            socket.serve(|| serde_json::to_string(&self.status()).unwrap_or_default() + "\n");
            self.asked = Some(socket);
        }
    }

    /// Where other threads of this process read the status, as of the last sample.
    pub fn board(&mut self) -> StatusBoard {
        let status = self.status();
        self.board.get_or_insert_with(|| StatusBoard::new(status)).clone()
    }

    /// What is known now.
    pub fn status(&self) -> Status {
        let now_ns = monotonic_ns();
        let view = self.keeper.view(now_ns);
        let sources = self.sources.iter().zip(&view.sources).map(|(source, view)| {
            let mut status = SourceStatus::of(&source.name, source.kind, view, now_ns);
            if let (SourceState::NotMeasured, Some(why)) = (view.state, source.unreachable()) {
                (status.state, status.why) = (SourceState::Unreachable, Some(why.to_owned()));
            }
            status
        });
        let sources: Vec<_> = sources.collect();
        let mut counts = self.summary.clone();
        counts.ran_s = Instant::now().duration_since(self.begun).as_secs_f64();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            dry_run: self.settings.dry_run,
            at_unix_ns: Clock::Realtime.read_ns(),
            running_s: counts.ran_s,
            clock: ClockStatus::of(&view, &sources, adjtimex::read().ok().map(kernel)),
            sources,
            // With chronyd's socket or makestep this process takes no place beside it.
            beside: self.others.known().filter(|_| self.is_beside()).cloned(),
            next: next(view.next),
            recent: self.recents.all(),
            counts,
            disrupted_age_s: self.recents.disrupted_age_s(now_ns),
        }
    }
}

fn kernel(discipline: adjtimex::Discipline) -> KernelStatus {
    KernelStatus {
        synchronised: discipline.is_synchronised(),
        max_error_ns: discipline.max_error_us.saturating_mul(1000),
        estimated_error_ns: discipline.estimated_error_us.saturating_mul(1000),
        // In 2^-16 ppm.
        frequency_ppm: discipline.frequency as f64 / 65_536.0,
    }
}

fn next(next: Next) -> NextStatus {
    let of = |action, by_ns: Option<i64>, why: Option<Refusal>| NextStatus {
        action,
        by_ns,
        why: why.map(words::refusal),
    };
    match next {
        Next::Nothing => of(NextAction::Nothing, None, None),
        Next::Wait => of(NextAction::Wait, None, None),
        Next::Step(by_ns) => of(NextAction::Step, Some(by_ns), None),
        Next::Slew(by_ns) => of(NextAction::Slew, Some(by_ns), None),
        Next::Slewing(left_ns) => of(NextAction::Slewing, Some(left_ns), None),
        Next::Makestep(by_ns) => of(NextAction::Makestep, Some(by_ns), None),
        Next::Refuse(by_ns, why) => of(NextAction::Refuse, Some(by_ns), Some(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_daemons::OtherDaemons;
    use crate::settings::{DiscoveredSource, Settings};
    use keeper::Corrector;

    #[test]
    fn a_daemon_is_beside_only_where_this_one_leaves_the_discipline_to_it() {
        let folder = tempfile::tempdir().unwrap();
        for (feed, corrector, is_beside) in [
            (Some(folder.path().join("chrony.sock")), None, false),
            (None, Some(Corrector::Beside), true),
        ] {
            let mut settings = Settings::default();
            (settings.dry_run, settings.force) = (true, true);
            settings.chronyd.feed = feed;
            settings.sources.excluded = DiscoveredSource::ALL.to_vec();
            settings.sources.host_socket = Some(folder.path().join("host.sock"));
            let mut daemon = Daemon::new(settings).unwrap();
            daemon.others = OtherDaemons::chronyd(false);
            if let Some(corrector) = corrector {
                daemon.keeper.set_corrector(corrector);
            }
            assert_eq!(daemon.status().beside.is_some(), is_beside);
        }
    }
}
