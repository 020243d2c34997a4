//! What the keeper promises, on a model of the kernel's clock.

use crate::model::clock::Errno;
use crate::model::{MS, Machine, ModelClock, NOON_NS, S, Source};
use keeper::{Policy, SourceKind};
use proptest::prelude::*;
use pvclock::units::LeapSecond;
use test_size::size;

/// Something that happens to the machine.
#[derive(Debug, Clone)]
enum Happening {
    /// So many samples in which nothing happens.
    Calm(u64),
    /// A pause, ms, and whether anything in the machine shows it.
    Pause(u64, bool),
    /// Another process sets the clock by this much, ms.
    Set(i64),
    /// This source becomes unreachable, or reachable.
    Unreachable(usize, bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0u64..200).prop_map(Happening::Calm),
        (0u64..100_000, any::<bool>()).prop_map(|(ms, seen)| Happening::Pause(ms, seen)),
        (-100_000i64..100_000).prop_map(Happening::Set),
        (0usize..3, any::<bool>()).prop_map(|(index, gone)| Happening::Unreachable(index, gone)),
    ]
}

fn sources() -> impl Strategy<Value = Vec<Source>> {
    let local = |kind| (100u64..100_000).prop_map(move |bound| vec![Source::honest(kind, bound)]);
    let servers = prop::collection::vec(10_000u64..20_000_000, 2..4).prop_map(|bounds| {
        bounds.into_iter().map(|bound| Source::honest(SourceKind::Ntp, bound)).collect::<Vec<_>>()
    });
    let rtc = Just(vec![Source::honest(SourceKind::Rtc, S / 2)]);
    let with = |first: BoxedStrategy<Vec<Source>>, then: BoxedStrategy<Vec<Source>>| {
        (first, then).prop_map(|(first, then)| [first, then].concat()).boxed()
    };
    prop_oneof![
        local(SourceKind::VmClock),
        servers.clone(),
        with(local(SourceKind::Phc).boxed(), servers.clone().boxed()),
        with(servers.boxed(), rtc.boxed()),
    ]
}

fn happen(machine: &mut Machine, happening: &Happening) {
    match *happening {
        Happening::Calm(samples) => machine.samples(samples),
        Happening::Pause(ms, is_seen) => {
            let for_ns = ms * 1_000_000;
            machine.clock.pause(for_ns);
            let seen = is_seen.then(|| machine.seen(for_ns));
            machine.sample(seen.as_slice());
        }
        Happening::Set(by_ms) => machine.clock.realtime_ns += by_ms * MS,
        Happening::Unreachable(index, is_unreachable) => {
            if let Some(source) = machine.sources.get_mut(index) {
                source.is_unreachable = is_unreachable;
            }
        }
    }
}

/// Samples enough for all that can still be corrected: an undetected error
/// waits for the next poll or retry, a step for the rate limit, 100 ms are
/// slewed in 250 s against a drift of 100 ppm, and the next poll finds the
/// rest.
const TO_SETTLE: u64 = 2 * (64 + 64 + 30 + 250 + 64 + 64);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(size(100, 300)))]

    #[test]
    fn whatever_happens_the_clock_ends_within_the_bounds(
        sources in sources(),
        drift_ppm in -100i64..=100,
        seed: u64,
        happenings in prop::collection::vec(happening(), 0..20),
    ) {
        let policy = Policy::default();
        let mut machine = Machine::new(policy.clone(), &sources, drift_ppm, seed);
        let begun = machine.clock.monotonic_ns;
        for happening in &happenings {
            happen(&mut machine, happening);
        }
        for source in &mut machine.sources {
            source.is_unreachable = false;
        }
        machine.samples(TO_SETTLE);

        // The best source's bound, and twice as much again where that hides an
        // error: corrected by less than twice its bound the clock might end
        // worse than it was; or the tolerance; and the drift until the next poll.
        let kind = sources.iter().map(|source| source.kind).min().unwrap();
        let bound = sources.iter().filter(|s| s.kind == kind).map(|s| s.bound_ns).min().unwrap();
        let waits_s = (policy.poll_ns + policy.min_interval_ns) / S;
        let allowed = bound + (2 * bound).max(policy.tolerance_ns)
            + drift_ppm.unsigned_abs() * waits_s * 1000;
        let error = machine.clock.error_ns();
        prop_assert!(error.unsigned_abs() <= allowed, "{error} ns, allowed {allowed}");

        let elapsed = machine.clock.monotonic_ns - begun;
        let earned = elapsed / policy.min_interval_ns;
        let steps = machine.clock.steps.len() as u64;
        // In any stretch of time.
        for (first, (begin_ns, _)) in machine.clock.steps.iter().enumerate() {
            for (last, (end_ns, _)) in machine.clock.steps.iter().enumerate().skip(first) {
                let most = u64::from(policy.burst) + (end_ns - begin_ns) / policy.min_interval_ns;
                prop_assert!((last - first + 1) as u64 <= most, "{:?}", machine.clock.steps);
            }
        }
        prop_assert!(machine.clock.slews <= 1 + steps + earned, "{} slews", machine.clock.slews);
        for (_, by_ns) in &machine.clock.steps {
            prop_assert!(by_ns.unsigned_abs() > policy.step_threshold_ns, "stepped by {by_ns} ns");
        }
    }

    #[test]
    fn it_never_steps_backward_where_it_may_not(
        sources in sources(),
        drift_ppm in -100i64..=100,
        seed: u64,
        happenings in prop::collection::vec(happening(), 0..20),
    ) {
        let policy = Policy { never_backward: true, ..Policy::default() };
        let mut machine = Machine::new(policy, &sources, drift_ppm, seed);
        for happening in &happenings {
            // What another process does is not the keeper's.
            happen(&mut machine, happening);
            let mut last = machine.clock.realtime_ns;
            for _ in 0..20 {
                machine.sample(&[]);
                prop_assert!(machine.clock.realtime_ns > last);
                last = machine.clock.realtime_ns;
            }
        }
        prop_assert!(machine.clock.steps.iter().all(|(_, by_ns)| *by_ns > 0));
    }

    /// The timer stops with the machine, so a sample follows the resume within
    /// an interval; that one sample is enough.
    #[test]
    fn a_pause_is_corrected_in_the_first_sample_after_it(
        pause_ms in 200u64..1_000_000_000,
        local in any::<bool>(),
        calm in 2u64..500,
        seed: u64,
    ) {
        // A pause that the local source shows, or that a disruption does.
        let kind = if local { SourceKind::VmClock } else { SourceKind::Ntp };
        let bound_ns = 5_000_000;
        let mut machine = Machine::new(Policy::default(), &[Source::honest(kind, bound_ns)], 0, seed);
        machine.samples(calm);
        machine.clock.pause(pause_ms * 1_000_000);
        let seen = (!local).then(|| machine.seen(pause_ms * 1_000_000));
        machine.sample(seen.as_slice());
        let error = machine.clock.error_ns().unsigned_abs();
        prop_assert!(error <= bound_ns, "{error} ns");
        prop_assert_eq!(machine.clock.steps.len(), 1);
    }

    #[test]
    fn a_source_that_is_decades_off_corrects_nothing(
        kind in prop_oneof![
            Just(SourceKind::VmClock), Just(SourceKind::Phc), Just(SourceKind::Ntp),
        ],
        years in prop_oneof![-50i64..-1, 2i64..50],
        seed: u64,
    ) {
        let mut source = Source::honest(kind, 1_000_000);
        let mut machine = Machine::new(Policy::default(), &[source], 0, seed);
        // At the start a host is trusted: the clock may show 1970.
        machine.samples(10);
        source.lie_ns = years * 365 * 86_400 * S as i64;
        machine.sources[0] = source;
        machine.samples(500);
        prop_assert_eq!(machine.clock.steps.len(), 0);
        prop_assert!(machine.clock.error_ns().abs() <= 2_000_000);
    }

    #[test]
    fn one_falseticker_among_three_servers_corrects_nothing(
        lie_ms in prop_oneof![-10_000_000i64..-200, 200i64..10_000_000],
        which in 0usize..3,
        seed: u64,
    ) {
        let mut sources = [Source::honest(SourceKind::Ntp, 10_000_000); 3];
        sources[which].lie_ns = lie_ms * MS;
        let mut machine = Machine::new(Policy::default(), &sources, 0, seed);
        machine.samples(500);
        prop_assert!(machine.clock.steps.is_empty());
        prop_assert!(machine.clock.error_ns().unsigned_abs() <= 20_000_000);
    }
}

#[test]
fn the_rtc_does_not_take_over_in_an_outage() {
    let mut rtc = Source::honest(SourceKind::Rtc, S / 2);
    rtc.lie_ns = 3000 * MS;
    let server = Source::honest(SourceKind::Ntp, 10_000_000);
    let mut machine = Machine::new(Policy::default(), &[server, server, rtc], 0, 1);
    machine.samples(10);
    machine.sources[0].is_unreachable = true;
    machine.sources[1].is_unreachable = true;
    machine.samples(1000);
    assert!(machine.clock.steps.is_empty(), "{:?}", machine.clock.steps);
}

#[test]
fn the_hosts_clock_does_not_wait_for_an_unreachable_server() {
    let mut server = Source::honest(SourceKind::Ntp, 10_000_000);
    server.is_unreachable = true;
    let page = Source::honest(SourceKind::VmClock, 1000);
    let mut machine = Machine::new(Policy::default(), &[server, page], 0, 1);
    machine.samples(10);
    machine.clock.pause(60 * S);
    machine.sample(&[]);
    assert!(machine.clock.error_ns().abs() <= 1000, "{}", machine.clock.error_ns());
}

/// A guest agent does so after a resume, just before keep would.
#[test]
fn a_set_between_measuring_and_correcting_is_not_made_twice() {
    for never_backward in [false, true] {
        for (pause_ns, kind) in [
            (60 * S, SourceKind::VmClock),
            (60 * S, SourceKind::Ntp),
            (50_000_000, SourceKind::VmClock),
        ] {
            let policy = Policy { never_backward, ..Policy::default() };
            let mut machine = Machine::new(policy, &[Source::honest(kind, 1000)], 0, 1);
            machine.samples(10);
            machine.clock.pause(pause_ns);
            machine.set_before_correction_ns = Some(pause_ns as i64);
            let seen = machine.seen(pause_ns);
            machine.sample(&[seen]);
            machine.samples(10);
            assert_eq!(machine.set_before_correction_ns, None);
            assert_eq!(machine.attempts, 0);
            assert!(machine.clock.error_ns().abs() <= 1000, "{}", machine.clock.error_ns());
        }
    }
}

/// In a set clock a leap second would come on another day.
#[test]
fn a_leap_second_is_told_to_a_right_clock_alone() {
    let server =
        Source { leap: Some(LeapSecond::Inserted), ..Source::honest(SourceKind::Ntp, 5_000_000) };
    let mut told = 0;
    for seed in 1..100 {
        let mut machine = Machine::new(Policy::default(), &[server; 3], 0, seed);
        machine.clock.truth_ns = NOON_NS;
        machine.clock.realtime_ns = NOON_NS;
        machine.others.is_reported = true;
        machine.others.set_one_in = 4;
        machine.samples(400);
        machine.others.set_one_in = 0;
        let off_ns = machine.clock.error_ns();
        machine.others.set(&mut machine.clock, -off_ns);
        machine.samples(600);
        let last = machine.clock.leaps.last().map(|(leap, _)| *leap);
        assert_eq!(last, Some(server.leap), "seed {seed}");
        let mut of_wrong = machine.clock.leaps.iter().filter(|(_, off_ns)| off_ns.abs() > 11 * MS);
        assert!(
            !of_wrong.any(|(leap, _)| leap.is_some()),
            "seed {seed}: {:?}",
            machine.clock.leaps
        );
        told += machine.clock.leaps.len();
    }
    assert!(told > 150, "{told} told: others set the clock too seldom");
}

#[test]
fn without_permission_it_is_not_tried_in_each_sample() {
    for pause_ms in [50, 5000] {
        let source = Source::honest(SourceKind::VmClock, 1000);
        let mut machine = Machine::new(Policy::default(), &[source], 0, 1);
        machine.clock.may_set = false;
        machine.samples(2);
        machine.clock.pause(pause_ms * 1_000_000);
        machine.samples(240);
        assert!((1..=3 + 4).contains(&machine.attempts), "{}", machine.attempts);
        machine.clock.may_set = true;
        machine.samples(400);
        assert!(machine.clock.error_ns().abs() <= MS, "{}", machine.clock.error_ns());
    }
}

/// The model is as strict as the kernel; the tests above would not notice.
#[test]
fn the_model_refuses_what_the_kernel_refuses() {
    let mut clock = ModelClock::new(0);
    let before = clock.realtime_ns;
    assert_eq!(clock.set_offset(0, -1), Err(Errno::Einval));
    assert_eq!(clock.set_offset(0, 1_000_000), Err(Errno::Einval));
    assert_eq!(clock.step(i64::MIN), Err(Errno::Einval));
    assert_eq!(clock.step(-before), Err(Errno::Einval));
    assert_eq!(clock.realtime_ns, before);
    clock.step(-1000).unwrap();
    assert_eq!(clock.realtime_ns, before - 1000);
    clock.slew(3 * MS).unwrap();
    clock.advance(2 * S);
    // It begins with the next second, 1 µs later, and is counted by milliseconds.
    assert_eq!(clock.slew_left_ns, 2 * MS + 500);
    clock.step(1).unwrap();
    assert_eq!(clock.slew_left_ns, 0);
    clock.may_set = false;
    assert_eq!((clock.step(1), clock.slew(1)), (Err(Errno::Eperm), Err(Errno::Eperm)));
}
