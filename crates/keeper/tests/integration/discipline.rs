//! What disciplining the clock achieves, on a model of the kernel's: in calm, in
//! an hour without a source, and when the oscillator changes.

use crate::model::{MS, Machine, S, Source};
use disruptions::{Disruption, Kind};
use keeper::{CorrectionCause, KeeperClockState, Policy, SourceKind};
use proptest::prelude::*;

const US: u64 = 1000;

/// How long learning may take, samples: half a minute.
const LEARNT: u64 = 60;

const HOUR: u64 = 7200;

fn page(bound_ns: u64, drift_ppm: i64, seed: u64) -> Machine {
    let page = [Source::honest(SourceKind::VmClock, bound_ns)];
    Machine::new(Policy::default(), &page, drift_ppm, seed)
}

/// The largest error in so many samples, ns.
fn worst(machine: &mut Machine, samples: u64) -> u64 {
    let one = |_| {
        machine.sample(&[]);
        machine.clock.error_ns().unsigned_abs()
    };
    (0..samples).map(one).max().unwrap_or(0)
}

/// An hour without a source: the error at its end, and what was known of it.
fn hold_over(machine: &mut Machine) -> (u64, u64) {
    let learnt = machine.keeper.frequency().expect("learnt");
    let bound_ns = machine.sources[0].bound_ns;
    machine.sources[0].is_unreachable = true;
    let estimates = machine.clock.estimates.len();
    let error_ns = worst(machine, HOUR);
    let told = machine.clock.estimates.len() - estimates;
    assert!(told >= 215, "{told}: each 16 s");
    for (estimated_ns, error_ns) in &machine.clock.estimates[estimates..] {
        assert!(*error_ns <= estimated_ns + 10 * US + bound_ns, "{error_ns} of {estimated_ns}");
    }
    (error_ns, (learnt.uncertainty_ppb * 3600.0) as u64 + 10 * US + bound_ns)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_calm_it_is_within_ten_microseconds_and_the_bound_and_an_hour_is_held(
        drift_ppm in -200i64..=200,
        bound_ns in 100u64..20_000,
        seed: u64,
    ) {
        let mut machine = page(bound_ns, drift_ppm, seed);
        machine.samples(LEARNT);
        let error_ns = worst(&mut machine, HOUR);
        prop_assert!(error_ns <= 10 * US + bound_ns, "{error_ns} ns in calm");
        let (error_ns, known_ns) = hold_over(&mut machine);
        prop_assert!(error_ns <= known_ns, "{error_ns} of {known_ns} ns in an hour");
        prop_assert!(known_ns < 3_000_000, "{known_ns} ns is no knowledge");
    }

    /// A degree and back in half an hour, at a tenth of a ppm a degree.
    #[test]
    fn a_drifting_temperature_is_followed(seed: u64, drift_ppm in -200i64..=200) {
        let mut machine = page(US, drift_ppm, seed);
        machine.samples(LEARNT);
        let mut largest_ns = 0;
        for sample in 0..2 * HOUR {
            let degrees = (sample as f64 / 3600.0 * std::f64::consts::TAU).sin();
            machine.clock.drift_ppb = drift_ppm as f64 * 1e3 + 100.0 * degrees;
            machine.sample(&[]);
            largest_ns = largest_ns.max(machine.clock.error_ns().unsigned_abs());
        }
        prop_assert!(largest_ns <= 11 * US, "{largest_ns} ns");
        let known = machine.keeper.frequency().unwrap();
        let off = machine.clock.rate_error_ppb();
        prop_assert!(off.abs() <= known.uncertainty_ppb, "{off} ppb, {known:?}");
    }
}

#[test]
fn a_pause_keeps_the_frequency_and_another_host_does_not() {
    let seen =
        |machine: &Machine, kind: Kind| Disruption { kinds: kind.into(), ..machine.seen(10 * S) };
    for (kind, keeps) in [
        (Kind::Pause, true),
        (Kind::Suspend, true),
        (Kind::SnapshotRestored, true),
        (Kind::Migrated, false),
        (Kind::SourceSwitched, false),
    ] {
        let mut machine = page(US, 80, 1);
        machine.samples(200);
        let set_ppb = machine.clock.frequency_ppb;
        assert!((set_ppb + 80_000.0).abs() < 100.0, "{set_ppb}");
        machine.clock.pause(10 * S);
        machine.sources[0].is_unreachable = true;
        machine.sample(&[seen(&machine, kind)]);
        assert_eq!(machine.clock.frequency_ppb == set_ppb, keeps, "{kind:?}");
        let is_known = matches!(kind, Kind::Pause | Kind::Suspend);
        assert_eq!(machine.keeper.frequency().is_some(), is_known, "{kind:?}");
        // The other oscillator is learnt as well.
        if !keeps {
            machine.clock.drift_ppb = -30_000.0;
        }
        machine.sources[0].is_unreachable = false;
        machine.samples(LEARNT);
        assert!(worst(&mut machine, HOUR) <= 11 * US, "{kind:?}");
    }
}

/// Three servers whose noise fills their bounds of 5 ms.
fn servers(count: usize, drift_ppm: i64) -> Machine {
    let servers = vec![Source::honest(SourceKind::Ntp, 5000 * US); count];
    Machine::new(Policy::default(), &servers, drift_ppm, 1)
}

#[test]
fn servers_discipline_to_a_part_of_their_noise() {
    for drift_ppm in [-150, 0, 50] {
        let mut machine = servers(3, drift_ppm);
        machine.samples(2 * HOUR);
        let error_ppb = machine.clock.rate_error_ppb();
        assert!(error_ppb.abs() < 3000.0, "{error_ppb}");
        let error_ns = worst(&mut machine, HOUR);
        assert!(error_ns < 3000 * US, "{error_ns}");
        // It is not known how well, and not stored.
        assert_eq!(machine.keeper.frequency(), None);
    }
}

/// It runs off by more than their bounds between two polls, so it is slewed at each, from
/// the second on: it is learnt in a hurry, sooner where the noise that fills them is less.
#[test]
fn a_crystal_that_runs_off_beyond_the_servers_bounds_is_learnt_within_a_few_polls() {
    for (bound_us, most_s) in
        [(50, 115), (300, 115), (1000, 265), (2500, 460), (3500, 390), (5000, 325)]
    {
        for drift_ppm in [-400, -112, 0, 112, 200] {
            let source = Source::honest(SourceKind::Ntp, bound_us * US);
            let mut machine = Machine::new(Policy::default(), &[source; 3], drift_ppm, 1);
            let mut learnt_s = 0;
            for sample in 1..=HOUR {
                machine.sample(&[]);
                if machine.clock.rate_error_ppb().abs() > 10_000.0 {
                    learnt_s = sample / 2;
                }
            }
            let of = format!("{drift_ppm} ppm by {bound_us} us: {learnt_s} s");
            assert!(learnt_s <= most_s, "{of}");
            assert!(machine.clock.slews <= 6, "{of}: {} slews", machine.clock.slews);
            // An hour's polls, and the hurried ones once, or twice.
            let polls = machine.requests / 3;
            assert!(polls <= HOUR / 128 + 2 * 16, "{of}: {polls}");
        }
    }
}

/// 0.5 and 2.299 % slow, and 6 % fast: told once, and stepped on, each poll; once it is
/// over the clock is as right as before, and the next is told again.
#[test]
fn a_rate_that_no_oscillator_has_is_told_and_stepped() {
    for drift_ppm in [-4_975, -22_473, 60_000] {
        let mut machine = servers(3, 0);
        machine.samples(200);
        for time in 1..=2 {
            machine.clock.drift_ppb = drift_ppm as f64 * 1e3;
            let steps = machine.clock.steps.len() as u64;
            machine.samples(HOUR);
            let off_ppb = machine.told_ppb.last().unwrap()
                - (1e9 / (1e9 + drift_ppm as f64 * 1e3) - 1.0) * 1e9;
            assert!(off_ppb.abs() < 1e5, "{drift_ppm}: {:?}", machine.told_ppb);
            assert_eq!(machine.told_ppb.len(), time, "{drift_ppm}: {:?}", machine.told_ppb);
            let steps = machine.clock.steps.len() as u64 - steps;
            assert!((50..70).contains(&steps), "{drift_ppm}: {steps} in {} polls", HOUR / 128);
            let refusals = machine.refusals;
            machine.clock.drift_ppb = 0.0;
            machine.samples(HOUR);
            assert!(worst(&mut machine, HOUR) < 5000 * US, "{drift_ppm}");
            assert!(machine.refusals <= refusals + 1, "{drift_ppm}");
        }
    }
    // The word of a lone server is not enough.
    let mut alone = servers(1, -22_473);
    alone.samples(HOUR);
    assert!(alone.told_ppb.is_empty());
}

/// 7 % fast: a bound grows by 500 ppm, so none is published once that is seen, until it is over.
#[test]
fn a_clock_that_runs_off_beyond_its_bound_publishes_none() {
    let page = Source::honest(SourceKind::VmClock, 20_000);
    let server = Source::honest(SourceKind::Ntp, 5_000 * US);
    for sources in [vec![page], vec![server; 3], vec![server; 2]] {
        let mut machine = Machine::new(Policy::default(), &sources, 0, 1);
        machine.samples(400);
        let bounds = machine.bounds;
        machine.clock.drift_ppb = 70e6;
        // The first poll shows it.
        machine.samples(130);
        machine.beyond_bound_ns = 0;
        // What the kernel still holds from before grows in the last entry.
        let held = machine.clock.unknown_ns.len() - 1;
        machine.clock.unknown_ns[held] = 0;
        for at in 0..HOUR {
            // A gate that waits has the clock measured, and accounts for nothing.
            if at % 300 == 100 {
                machine.keeper.suspect(machine.clock.monotonic_ns, CorrectionCause::GateWaits);
            }
            machine.sample(&[]);
            let state = machine.keeper.view(machine.clock.monotonic_ns).clock;
            assert_eq!(state, KeeperClockState::Unsynchronised, "{sources:?}");
        }
        assert_eq!(machine.beyond_bound_ns, 0, "{sources:?}");
        machine.clock.drift_ppb = 0.0;
        machine.samples(HOUR);
        // By how much the kernel's largest error was too small, in either hour.
        let unknown_ns = machine.clock.unknown_ns[held..].iter().max();
        assert_eq!(unknown_ns, Some(&0), "{sources:?}");
        let state = machine.keeper.view(machine.clock.monotonic_ns).clock;
        assert_eq!(state, KeeperClockState::Synchronised, "{sources:?}");
        assert!(bounds > 300 && machine.bounds > bounds + HOUR * 9 / 10, "{sources:?}");
        assert_eq!(machine.beyond_bound_ns, 0, "{sources:?}");
    }
}

/// Seen and corrected, they are no rate.
#[test]
fn repeated_pauses_are_no_rate() {
    let mut machine = servers(3, 0);
    machine.samples(200);
    for _ in 0..8 {
        machine.clock.pause(S * 3 / 10);
        machine.sample(&[machine.seen(S * 3 / 10)]);
        machine.samples(120);
    }
    assert!(worst(&mut machine, HOUR) < 5000 * US);
    assert!(machine.told_ppb.is_empty());
    assert!(machine.clock.frequency_ppb.abs() < 80_000.0, "{}", machine.clock.frequency_ppb);
}

#[test]
fn a_liar_does_not_steer() {
    let policy = Policy::default();
    let servers = [Source::honest(SourceKind::Ntp, 300 * US); 2];
    let host = Source::honest(SourceKind::VmClock, US);
    let mut machine = Machine::new(policy, &[&[host][..], &servers].concat(), 50, 1);
    machine.samples(2 * HOUR);
    let learnt_ppb = machine.clock.rate_error_ppb();
    assert!(learnt_ppb.abs() < 1000.0, "{learnt_ppb}");
    // It begins to run fast, by a ppm.
    for _ in 0..2 * HOUR {
        machine.sources[0].lie_ns += 500;
        machine.sample(&[]);
        let error_ppb = machine.clock.rate_error_ppb();
        assert!(error_ppb.abs() < 1000.0, "{error_ppb}");
    }
    assert!(machine.clock.error_ns().abs() < 17 * MS / 10, "{}", machine.clock.error_ns());
}

#[test]
fn what_was_learnt_before_a_boot_is_used() {
    let mut machine = page(US, 80, 1);
    machine.samples(2000);
    let stored = machine.keeper.frequency();
    let mut booted = page(US, 80, 2);
    booted.keeper.start_at(0.0, stored);
    booted.sources[0].is_unreachable = true;
    booted.samples(1);
    assert_eq!(booted.clock.frequency_ppb.round(), stored.unwrap().ppb.round());
    // Of another boot's oscillator less is claimed, and of another daemon's
    // frequency nothing.
    assert!(booted.keeper.frequency().unwrap().uncertainty_ppb > 10_000.0);
    let mut steered = page(US, 80, 2);
    steered.keeper.start_at(-20_000.0, stored);
    steered.samples(1);
    assert_eq!((steered.keeper.frequency(), steered.clock.frequencies.len()), (None, 0));
}
