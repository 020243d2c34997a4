//! The status of a daemon, as its socket and its metrics show it.

use std::time::Instant;

use keeper::{NextStep, Refusal, SourceState};
use linux::adjtimex;
use linux::clock::LinuxClock;

use super::Daemon;
use crate::gate::ClockGate;
use crate::kept_clock::monotonic_ns;
use crate::status::{
    ClockReport, DaemonStatus, KernelStatus, NextAction, NextStatus, SourceStatus,
};
use crate::words;

/// What a daemon knows now.
pub(super) fn status(daemon: &Daemon) -> DaemonStatus {
    let now_ns = monotonic_ns();
    let view = daemon.keeper.view(now_ns);
    let ahead_ns = daemon.clock.ahead_ns();
    let sources = daemon.sources.iter().zip(&view.sources).map(|(source, view)| {
        let mut status = SourceStatus::new(&source.name, source.kind, view, now_ns, ahead_ns);
        if let (SourceState::NotMeasured, Some(why)) = (view.state, source.unreachable()) {
            (status.state, status.why) = (SourceState::Unreachable, Some(why.to_owned()));
        }
        status
    });
    let sources: Vec<_> = sources.collect();
    let mut counts = daemon.summary.clone();
    counts.ran_s = Instant::now().duration_since(daemon.begun).as_secs_f64();
    DaemonStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        dry_run: daemon.settings.dry_run,
        at_unix_ns: LinuxClock::Realtime.read_ns(),
        running_s: counts.ran_s,
        would_have_moved_ns: ahead_ns,
        clock: ClockReport::new(
            &view,
            &sources,
            adjtimex::read().ok().map(kernel),
            ahead_ns,
            limit_ns(daemon),
            now_ns,
        ),
        sources,
        // With chronyd's socket or makestep this process takes no place beside it.
        beside: daemon.others.current().filter(|_| daemon.is_beside()).cloned(),
        chronyd_error: daemon.chronyd.trouble().map(str::to_owned),
        gate: daemon.gate.as_ref().map(ClockGate::status),
        next: next(view.next),
        recent: daemon.recents.lines(),
        counts,
        disrupted_age_s: daemon.recents.disrupted_age_s(now_ns),
    }
}

/// Beyond this error no clock is called synchronised. A dry run leaves the clock where its step
/// would have begun.
fn limit_ns(daemon: &Daemon) -> u64 {
    let distance_ns = daemon.keeper.policy().max_distance_ns;
    if daemon.settings.dry_run {
        distance_ns.min(daemon.settings.policy.step_threshold_ns)
    } else {
        distance_ns
    }
}

fn kernel(discipline: adjtimex::KernelDiscipline) -> KernelStatus {
    KernelStatus {
        synchronised: discipline.is_synchronised(),
        max_error_ns: discipline.max_error_us.saturating_mul(1000),
        estimated_error_ns: discipline.estimated_error_us.saturating_mul(1000),
        frequency_ppm: discipline.frequency_ppb() / 1e3,
    }
}

fn next(next: NextStep) -> NextStatus {
    let of = |action, by_ns: Option<i64>, why: Option<Refusal>| NextStatus {
        action,
        by_ns,
        why: why.map(words::refusal),
    };
    match next {
        NextStep::Nothing => of(NextAction::Nothing, None, None),
        NextStep::Wait => of(NextAction::Wait, None, None),
        NextStep::Step(by_ns) => of(NextAction::Step, Some(by_ns), None),
        NextStep::Slew(by_ns) => of(NextAction::Slew, Some(by_ns), None),
        NextStep::Slewing(left_ns) => of(NextAction::Slewing, Some(left_ns), None),
        NextStep::Makestep(by_ns) => of(NextAction::Makestep, Some(by_ns), None),
        NextStep::Refuse(by_ns, why) => of(NextAction::Refuse, Some(by_ns), Some(why)),
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
