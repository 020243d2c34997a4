//! A guest restored from a snapshot, which has servers alone: no host's clock, no RTC.
//! What shows the restore decides how soon it is right (docs/guide/keep.md, "Restored, with
//! servers alone").

use crate::model::{INTERVAL_NS, MS, Machine, S, Source};
use disruptions::{Disruption, Kind};
use keeper::{Policy, SourceKind};

/// How long it was away.
const AWAY_NS: u64 = 60 * S;

/// One that knows its servers; each seed restores it elsewhere between two polls.
fn machine(seed: u64) -> Machine {
    let server = Source::honest(SourceKind::Ntp, 2_000_000);
    let mut machine = Machine::new(Policy::default(), &[server, server], 20, seed);
    machine.samples(1200 + 13 * seed);
    assert!(machine.clock.error_ns().abs() <= 8 * MS, "{}", machine.clock.error_ns());
    machine
}

/// How long its time of day was wrong after that, ns.
fn wrong_ns(machine: &mut Machine) -> u64 {
    for sample in 0..1000 {
        if machine.clock.error_ns().abs() <= 8 * MS {
            return sample * INTERVAL_NS;
        }
        machine.sample(&[]);
    }
    panic!("{} ns off after 1000 samples", machine.clock.error_ns());
}

/// As by a VMClock page, VMGENID, or the kernel's log.
#[test]
fn one_that_is_shown_is_corrected_by_the_first_replies() {
    for seed in 0..20 {
        let mut machine = machine(seed);
        machine.clock.pause(AWAY_NS);
        // That it was, and not for how long: both counters were set back.
        let kinds = Kind::SnapshotRestored.into();
        let seen = Disruption { kinds, size: None, behind: None, ..machine.seen(AWAY_NS) };
        machine.sample(&[seen]);
        let wrong_ns = wrong_ns(&mut machine);
        assert!(wrong_ns <= S, "{wrong_ns} ns, seed {seed}");
    }
}

/// As to a service that may not read the log: no sooner than at the next poll for most, and
/// no later for any.
#[test]
fn one_that_nothing_shows_is_corrected_at_the_next_poll() {
    let poll_ns = Policy::default().poll_ns;
    let mut longest_ns = 0;
    for seed in 0..20 {
        let mut machine = machine(seed);
        machine.clock.pause(AWAY_NS);
        let wrong_ns = wrong_ns(&mut machine);
        assert!(wrong_ns <= poll_ns + 2 * S, "{wrong_ns} ns, seed {seed}");
        longest_ns = longest_ns.max(wrong_ns);
    }
    assert!(longest_ns >= poll_ns / 2, "{longest_ns} ns: what is told of it is too bad");
}
