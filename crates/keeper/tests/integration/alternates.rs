//! A source that goes to and fro: what others contradict moves nothing, and what nobody
//! does moves the clock no more often than steps are allowed.

use crate::model::{MS, Machine, S, Source};
use keeper::{Policy, SourceKind};

const KINDS: [SourceKind; 6] = [
    SourceKind::VmClock,
    SourceKind::Phc,
    SourceKind::NetworkCard,
    SourceKind::HostValue,
    SourceKind::Ntp,
    SourceKind::Rtc,
];

/// From a slew to an hour, ms.
const BY_MS: [i64; 5] = [20, 90, 900, 10_000, 3_600_000];

/// How long it shows the one and then the other, samples: each, a poll of ours, and of others.
const APART: [u64; 5] = [1, 2, 7, 64, 129];

/// The last source shows `by_ms` more and then the truth again, for so many samples.
fn alternate(machine: &mut Machine, by_ms: i64, apart: u64, samples: u64) {
    let last = machine.sources.len() - 1;
    for at in 0..samples {
        let is_away = (at / apart).is_multiple_of(2);
        machine.sources[last].lie_ns = if is_away { by_ms * MS } else { 0 };
        machine.sample(&[]);
    }
}

#[test]
fn what_two_servers_contradict_moves_nothing() {
    let server = Source::honest(SourceKind::Ntp, 2_000_000);
    for kind in KINDS {
        for (by_ms, apart) in BY_MS.into_iter().flat_map(|by| APART.map(|apart| (by, apart))) {
            for by_ms in [by_ms, -by_ms] {
                let bound_ns = if kind == SourceKind::Rtc { S / 2 } else { 1_000_000 };
                let sources = [server, server, Source::honest(kind, bound_ns)];
                let seed = by_ms.unsigned_abs() + apart;
                let mut machine = Machine::new(Policy::default(), &sources, 0, seed);
                machine.samples(4);
                alternate(&mut machine, by_ms, apart, 800);
                let what = format!("{kind:?} by {by_ms} ms each {apart}");
                assert_eq!(machine.clock.steps, [], "{what}");
                let error_ns = machine.clock.error_ns().abs();
                assert!(error_ns <= 5 * MS, "{what}: {error_ns} ns");
                let told = machine.clock.max_errors.iter();
                assert!(told.clone().all(|(told, is)| told + 5_000_000 >= *is), "{what}");
            }
        }
    }
}

#[test]
fn alone_it_is_followed_no_more_often_than_steps_are_allowed() {
    let policy = Policy::default();
    for kind in [SourceKind::VmClock, SourceKind::Phc, SourceKind::NetworkCard] {
        for apart in APART {
            let source = Source::honest(kind, 1_000_000);
            let mut machine = Machine::new(policy.clone(), &[source], 0, apart);
            machine.samples(4);
            alternate(&mut machine, 10_000, apart, 1200);
            let steps = machine.clock.steps.len() as u64;
            let most = u64::from(policy.burst) + 600 * S / policy.min_interval_ns;
            assert!((1..=most).contains(&steps), "{kind:?} each {apart}: {steps} steps");
            assert!(apart >= 60 || machine.refusals > 0, "{kind:?} each {apart}: not reported");
            // And once it stays, the clock is where it is, and pauses are corrected.
            machine.sources[0].lie_ns = 0;
            machine.samples(400);
            machine.clock.pause(20 * S);
            let seen = machine.seen(20 * S);
            machine.sample(&[seen]);
            let error_ns = machine.clock.error_ns().abs();
            assert!(error_ns <= 2 * MS, "{kind:?} each {apart}: {error_ns} ns");
        }
    }
}
