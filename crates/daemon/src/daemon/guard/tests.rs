//! Sets of the clock by others, and what is done by what was measured before.

use super::*;
use crate::Daemon;
use crate::settings::{DiscoveredSource, Settings};
use keeper::event::{CorrectionMethod, KeeperEvent};
use keeper::{Adjustment, ClockError, Correction, Refusal};
use pvclock::units::OffsetBound;

const MINUTE_NS: i64 = 60_000_000_000;
const BY: Correction = Correction {
    by_ns: MINUTE_NS,
    bound_ns: 1000,
    source: 0,
    agreeing: (1, 1),
    showing_time: 1,
    cause: None,
};

const OFFSET: OffsetBound =
    OffsetBound { offset_ns: MINUTE_NS, bound_ns: 1000, at_monotonic_ns: 0 };

/// A dry run, with a source that says nothing.
fn daemon(folder: &tempfile::TempDir) -> Daemon {
    daemon_with(folder, Settings::default())
}

fn daemon_with(folder: &tempfile::TempDir, mut settings: Settings) -> Daemon {
    (settings.dry_run, settings.force) = (true, true);
    settings.sources.excluded = DiscoveredSource::ALL.to_vec();
    settings.sources.host_socket = Some(folder.path().join("host.sock"));
    let mut daemon = Daemon::new(settings).unwrap();
    daemon.events.clear();
    daemon.guard.then = ObservedRealtimeOffset::now();
    daemon
}

/// As if the clock had been set by this much after the sample.
fn set(daemon: &mut Daemon, by_ns: i64) {
    daemon.guard.then = ObservedRealtimeOffset::now().map(|now| now.stepped(-by_ns));
}

#[test]
fn a_correction_is_not_made_on_top_of_anothers() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = daemon(&folder);
    for how in [CorrectionMethod::Step, CorrectionMethod::Slew] {
        for by_ns in [MINUTE_NS, -MINUTE_NS, 1_000_000] {
            set(&mut daemon, by_ns);
            daemon.correct(&BY, how);
            assert_eq!(daemon.clock.ahead_ns(), 0, "{how:?}");
            let told = daemon.events.pop();
            assert!(
                matches!(told, Some(KeeperEvent::Cancelled { by_ns: MINUTE_NS, .. })),
                "{told:?}"
            );
        }
    }
    // It was noticed, and what is measured since counts.
    daemon.correct(&BY, CorrectionMethod::Step);
    assert_eq!(daemon.clock.ahead_ns(), MINUTE_NS);
    assert!(matches!(daemon.events.pop(), Some(KeeperEvent::Corrected(_))));
}

/// chronyd was told to step what it was slewing: what was measured before counts, less that.
#[test]
fn what_chronyd_has_stepped_is_not_corrected_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = daemon(&folder);
    for by_ns in [-9498, 1_600_000_000] {
        set(&mut daemon, by_ns);
        let stepped_ns = daemon.guard.take_chronyds_step_ns();
        let is_it = stepped_ns.is_some_and(|stepped_ns| stepped_ns.abs_diff(by_ns) < 5_000);
        assert!(is_it, "{stepped_ns:?} for {by_ns}");
        assert!(!daemon.was_set(), "it is known");
        assert_eq!(daemon.guard.take_chronyds_step_ns(), Some(0));
    }
    daemon.guard.then = ObservedRealtimeOffset::now().map(|now| now.slept(MINUTE_NS));
    assert_eq!(daemon.guard.take_chronyds_step_ns(), None, "the machine slept");
    assert!(daemon.was_set(), "which is left to be told");
}

#[test]
fn nothing_rests_on_what_was_measured_before_the_clock_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = daemon(&folder);
    let error = ClockError { max_ns: 1000, estimated_ns: 1 };
    for action in [
        Action::SetError(error),
        Action::Discipline(Adjustment { frequency_ppb: Some(1.0), slew_ns: None }),
        Action::SetLeap(None),
        Action::Synchronised(BY),
        Action::SetFigures { max_ns: None, estimated_ns: 1 },
        Action::FeedChronyd(OFFSET),
    ] {
        assert!(!daemon.is_cancelled(&action), "{action:?}");
        set(&mut daemon, 20_000);
        assert!(daemon.is_cancelled(&action), "{action:?}");
        assert!(!daemon.is_cancelled(&action), "{action:?} once more");
    }
    // A measurement is made anew, and known to be.
    set(&mut daemon, MINUTE_NS);
    daemon.measure(&[0]);
    assert!(!daemon.is_cancelled(&Action::SetError(error)));
    // What rests on none is done.
    set(&mut daemon, MINUTE_NS);
    let unknown = Action::SetFigures { max_ns: Some(1), estimated_ns: 1 };
    for action in [Action::Restart, Action::Refuse(BY, Refusal::Unconfirmed), unknown] {
        assert!(!daemon.is_cancelled(&action), "{action:?}");
    }
}

/// The host's word, and what comes of it.
fn word(daemon: &mut Daemon, offset_ns: i64) -> Vec<KeeperEvent> {
    let at_monotonic_ns = monotonic_ns();
    daemon.report_offset(0, Some(OffsetBound { offset_ns, bound_ns: 1000, at_monotonic_ns }));
    let mut done = Vec::new();
    daemon.act(&mut |line| done.push(line.event));
    done.append(&mut daemon.events);
    done
}

/// `date -s`: the next sample knows of it before a source that is polled in it can
/// undo it, and long before the observer has classified it.
#[test]
fn a_date_set_between_two_samples_is_left_by_the_next() {
    for by_ns in [50_000_000, MINUTE_NS, -MINUTE_NS] {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = daemon(&folder);
        daemon.sample(&mut |_| ());
        let done = word(&mut daemon, 0);
        assert!(done.iter().any(|it| matches!(it, KeeperEvent::Synchronised(_))), "{done:?}");
        set(&mut daemon, by_ns);
        daemon.sample(&mut |_| ());
        let done: Vec<_> = (0..3).flat_map(|_| word(&mut daemon, -by_ns)).collect();
        let is_left = |it: &KeeperEvent| {
            matches!(it, KeeperEvent::Refused { why: Refusal::SetByAnother, .. })
        };
        assert!(!done.is_empty() && done.iter().all(is_left), "{by_ns}: {done:?}");
        assert_eq!(daemon.clock.ahead_ns(), 0);
    }
}

/// Nobody set a date: what it left is corrected.
#[test]
fn a_suspend_between_two_samples_is_no_date() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = daemon(&folder);
    daemon.sample(&mut |_| ());
    word(&mut daemon, 0);
    daemon.guard.then = ObservedRealtimeOffset::now().map(|now| now.slept(-MINUTE_NS));
    daemon.sample(&mut |_| ());
    let done = word(&mut daemon, MINUTE_NS);
    assert!(done.iter().any(|it| matches!(it, KeeperEvent::Corrected(_))), "{done:?}");
}

/// chronyd is sent no sample from before a set, whoever set the clock.
#[test]
fn chronyd_is_not_fed_what_was_measured_before_a_set() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.chronyd.feed = Some(folder.path().join("chrony.sock"));
    let mut daemon = daemon_with(&folder, settings);
    daemon.sample(&mut |_| ());
    let fed = daemon.summary.fed_chronyd;
    word(&mut daemon, 1_000_000_000);
    assert_eq!(daemon.summary.fed_chronyd, fed + 1);
    let at_monotonic_ns = monotonic_ns();
    daemon.report_offset(0, Some(OffsetBound { at_monotonic_ns, ..OFFSET }));
    set(&mut daemon, MINUTE_NS);
    daemon.act(&mut |_| ());
    assert_eq!(daemon.summary.fed_chronyd, fed + 1);
    // What is measured since is.
    word(&mut daemon, 1_000_000_000);
    assert_eq!(daemon.summary.fed_chronyd, fed + 2);
}
