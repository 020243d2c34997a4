//! A server that is alone and lies moves the clock by no more than a second, and what
//! an oscillator of 500 ppm may be off by; one that is alone and honest keeps it right.
//!
//! It lies as `never_worse` has a minority lie, here as the only source, in the way that
//! walks the clock farthest: it always shows it to be off by as much as was believed
//! before.

use crate::model::{MS, Machine, S, Source};
use keeper::{Policy, SourceKind};

/// What one server moves at once.
const AT_ONCE_NS: u64 = S;

/// What it may add to that a second, ns: by steps and slews 500 ppm, and as much by the
/// frequency.
const A_SECOND_NS: u64 = 1_000_000;

fn machine(drift_ppm: i64, seed: u64) -> Machine {
    with_bound(2_000_000, drift_ppm, seed)
}

fn with_bound(bound_ns: u64, drift_ppm: i64, seed: u64) -> Machine {
    let server = Source::honest(SourceKind::Ntp, bound_ns);
    Machine::new(Policy::default(), &[server], drift_ppm, seed)
}

/// Shows the clock to be behind by `by_ms`, wherever it is, for so many samples.
fn walk(machine: &mut Machine, by_ms: i64, samples: u64) {
    for _ in 0..samples {
        machine.sources[0].lie_ns = machine.clock.error_ns() + by_ms * MS;
        machine.sample(&[]);
    }
}

#[test]
fn a_lone_liar_does_not_walk_the_clock() {
    for by_ms in [-990_i64, -300, -40, 40, 101, 150, 500, 990] {
        let mut machine = machine(0, by_ms.unsigned_abs());
        machine.samples(10);
        for hours in 1..=6 {
            let last_ns = machine.clock.error_ns();
            walk(&mut machine, by_ms, 7200);
            let error_ns = machine.clock.error_ns();
            let allowed_ns = AT_ONCE_NS + hours * 3600 * A_SECOND_NS;
            assert!(error_ns.unsigned_abs() <= allowed_ns, "{by_ms} ms: {error_ns} ns, {hours} h");
            // Nor in any hour.
            let allowed_ns = AT_ONCE_NS + 3600 * A_SECOND_NS;
            assert!(error_ns.abs_diff(last_ns) <= allowed_ns, "{by_ms} ms: {error_ns} ns");
        }
    }
}

/// What disruptions account for is moved; no more than else is moved beside it, though
/// the server shows a right clock before each.
#[test]
fn pauses_are_no_licence() {
    let mut machine = machine(0, 7);
    machine.samples(10);
    for _ in 0..40 {
        machine.sources[0].lie_ns = machine.clock.error_ns();
        machine.clock.pause(5 * S);
        let seen = machine.seen(5 * S);
        machine.sample(&[seen]);
        walk(&mut machine, 900, 200);
        walk(&mut machine, 0, 200);
    }
    assert!(machine.clock.steps.iter().filter(|(_, by_ns)| *by_ns > 4_900 * MS).count() == 40);
    let allowed_ns = AT_ONCE_NS + 40 * 201 * A_SECOND_NS;
    let error_ns = machine.clock.error_ns();
    assert!(error_ns.unsigned_abs() <= allowed_ns, "{error_ns} ns, allowed {allowed_ns}");
}

/// A server's bound is its own word: 7.4 s ± 0.83 s agrees with a pause of 5 s as far as
/// both allow for what was left before, and is 2.4 s beyond it.
#[test]
fn a_wide_bound_is_no_licence() {
    for (lie_ms, seed) in [(700, 1), (1_500, 2), (-700, 3), (-1_500, 4)] {
        let mut machine = with_bound(830_000_000, 0, seed);
        machine.samples(10);
        for pauses in 1..=12 {
            let last_ns = machine.clock.error_ns();
            machine.sources[0].lie_ns = last_ns + lie_ms * MS;
            machine.clock.pause(5 * S);
            let seen = machine.seen(5 * S);
            machine.sample(&[seen]);
            machine.samples(200);
            // Pauses that are not corrected leave whole multiples of their length.
            let half_ns = 2_500 * MS;
            let walked_ns = (machine.clock.error_ns() + half_ns).rem_euclid(2 * half_ns) - half_ns;
            let allowed_ns = AT_ONCE_NS + pauses * 101 * A_SECOND_NS;
            assert!(walked_ns.unsigned_abs() <= allowed_ns, "{lie_ms} ms: {walked_ns} ns");
        }
    }
}

#[test]
fn an_honest_server_of_a_wide_bound_corrects_pauses() {
    for seed in 1..=8 {
        let mut machine = with_bound(830_000_000, 0, seed);
        machine.samples(10);
        for _ in 0..8 {
            machine.clock.pause(5 * S);
            let seen = machine.seen(5 * S);
            machine.sample(&[seen]);
            machine.samples(2 * 3600);
            assert!(machine.clock.error_ns().abs() <= 1_660 * MS, "{}", machine.clock.error_ns());
        }
    }
}

#[test]
fn an_honest_server_alone_keeps_any_oscillator_right() {
    for drift_ppm in [-480_i64, -200, -50, 0, 50, 200, 480] {
        let mut machine = machine(drift_ppm, drift_ppm.unsigned_abs());
        machine.clock.realtime_ns += 400 * MS;
        machine.samples(7200);
        for hour in 1..12 {
            machine.samples(7200);
            let error_ns = machine.clock.error_ns();
            assert!(error_ns.abs() <= 8 * MS, "{drift_ppm} ppm: {error_ns} ns in hour {hour}");
        }
        // Pauses that the machine's clocks show are another reason.
        for _ in 0..20 {
            machine.clock.pause(30 * S);
            let seen = machine.seen(30 * S);
            machine.sample(&[seen]);
            machine.samples(100);
            assert!(machine.clock.error_ns().abs() <= 30 * MS, "{drift_ppm} ppm");
        }
        assert_eq!(machine.refusals, 0, "{drift_ppm} ppm");
    }
}

/// What nothing in the machine shows, it corrects in time.
#[test]
fn what_is_refused_is_corrected_as_time_passes() {
    let mut machine = machine(0, 3);
    machine.samples(1000);
    machine.clock.pause(900 * 1_000_000);
    machine.samples(400);
    assert_eq!((machine.refusals, machine.clock.error_ns().abs() <= 8 * MS), (0, true));
    machine.clock.pause(900 * 1_000_000);
    machine.samples(400);
    // Once.
    assert_eq!((machine.refusals, machine.clock.error_ns().abs() >= 890 * MS), (1, true));
    machine.samples(2 * 3600);
    assert!(machine.clock.error_ns().abs() <= 8 * MS, "{}", machine.clock.error_ns());
}

/// What something else confirms is no walk.
#[test]
fn a_second_voice_that_agrees_ends_the_count() {
    let server = Source::honest(SourceKind::Ntp, 2_000_000);
    for other in [SourceKind::Ntp, SourceKind::VmClock] {
        let other = Source::honest(other, 1_000_000);
        let mut machine = Machine::new(Policy::default(), &[server, other], 0, 5);
        machine.samples(10);
        for _ in 0..5 {
            machine.sources[1].is_unreachable = true;
            // What is known of the other is too old to count.
            machine.samples(300);
            machine.clock.pause(800 * 1_000_000);
            machine.samples(200);
            assert!(machine.clock.error_ns().abs() <= 8 * MS, "{}", machine.clock.error_ns());
            machine.sources[1].is_unreachable = false;
            machine.samples(300);
        }
        assert_eq!(machine.refusals, 0);
    }
}
