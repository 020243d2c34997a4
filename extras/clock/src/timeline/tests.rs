//! A machine whose TSC and system clock the test controls, and a program
//! on it that reads its clock.

mod world;

use proptest::prelude::*;

use crate::timeline::steering::{Distrust, SteeringDisruption};
use world::{LIMITS, Program, World};

const GHZ: i128 = 1_000_000_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// What the clock may be off beyond what was read.
const MICROSECOND: u64 = 1_000;

/// A program that has read for a second.
fn settled(tsc_hz: i128, seed: u64) -> Program {
    let mut program = Program::new(World::new(tsc_hz, seed));
    program.run(SECOND);
    program
}

#[test]
fn it_reads_the_system_until_the_tsc_is_measured_and_the_tsc_from_then_on() {
    let mut program = Program::new(World::new(2 * GHZ, 1));
    let first = program.read();
    assert!(!first.by_tsc);
    assert_eq!(first.away_ns(), 0);
    program.run(30 * MS);
    assert!(program.read().by_tsc);
    let hz = program.maintenance.steering.rate().unwrap().hz();
    // 10 ppm, for a baseline of 10 ms between samples of some 50 ns.
    assert!(hz.abs_diff(2_000_000_000) <= 20_000, "{hz} Hz");
}

#[test]
fn a_steady_system_is_followed_to_a_tenth_of_a_microsecond_for_an_hour() {
    let mut program = settled(2_445_428_123, 2);
    let worst = program.run(3_600 * SECOND);
    assert!(worst.away_ns() <= 100, "{worst:?}");
    assert_eq!(program.disruptions(), 0);
}

#[test]
fn a_change_of_the_systems_rate_is_followed() {
    for (seed, ppb) in [(1, 500_000), (2, -500_000), (3, 100_000), (4, 1_000)] {
        let mut program = settled(3 * GHZ, seed);
        program.world.system_ppb = ppb;
        // Seen within two segments, so off by the change times that.
        let most = ppb.unsigned_abs() as u64 * 2 * LIMITS.segment_ns / 1_000_000_000;
        let worst = program.run(SECOND);
        assert!(worst.away_ns() <= most + 100, "{ppb} ppb: {worst:?}");
        let later = program.run(SECOND);
        assert!(later.away_ns() <= 100, "{ppb} ppb: {later:?}");
        assert_eq!(program.disruptions(), 0);
    }
}

#[test]
fn segments_join_without_a_step_and_slew_within_the_limit() {
    let mut program = settled(3 * GHZ, 5);
    for ppb in [500_000, -500_000, 20_000] {
        program.world.system_ppb = ppb;
        for _ in 0..20_000 {
            program.world.pass(15_000);
            let view = program.read().view;
            assert!(view.newest.base_ns - view.older.end_ns() <= 1 || view.older.cycles == 0);
            let hz = i128::from(view.newest.rate.hz());
            // The system's ± 500 ppm, and the slew's.
            assert!((hz - 3 * GHZ).abs() <= 3 * GHZ * 1_010 / 1_000_000, "{hz} Hz");
        }
    }
}

#[test]
fn a_kept_clock_leaves_readers_nothing_to_do() {
    let mut program = settled(3 * GHZ, 17);
    program.maintained = true;
    program.run(40 * MS);
    let before = program.maintained_by_readers;
    let worst = program.run(10 * SECOND);
    assert!(worst.by_tsc && worst.away_ns() <= 100, "{worst:?}");
    assert_eq!(program.maintained_by_readers, before);
}

/// Fifty segments by one rate, measured in 20 ms to some ppm: a second
/// of that is microseconds, and then the system is the better clock.
#[test]
fn without_samples_of_the_system_it_continues_for_a_second() {
    let mut program = settled(3 * GHZ, 18);
    program.world.blind = true;
    let worst = program.run(900 * MS);
    assert!(worst.by_tsc && worst.away_ns() <= 5 * MICROSECOND, "{worst:?}");
    program.run(200 * MS);
    let read = program.run(SECOND);
    assert!(!read.by_tsc && read.away_ns() <= 5 * MICROSECOND, "{read:?}");
    program.world.blind = false;
    program.run(40 * MS);
    let later = program.run(SECOND);
    assert!(later.by_tsc && later.away_ns() <= MICROSECOND, "{later:?}");
    assert_eq!(program.disruptions(), 0);
}

#[test]
fn a_program_that_reads_seldom_gets_the_systems_time() {
    let mut program = settled(3 * GHZ, 6);
    for ppb in [40_000, -70_000, 0] {
        program.world.system_ppb = ppb;
        for _ in 0..50 {
            program.world.pass(3 * SECOND);
            let read = program.read();
            assert!(read.by_tsc && read.away_ns() <= 100, "{read:?}");
        }
    }
    assert_eq!(program.disruptions(), 0);
}

#[test]
fn a_tsc_that_went_back_is_noticed_at_the_next_read() {
    let mut program = settled(3 * GHZ, 7);
    program.world.shift_tsc(-40 * GHZ);
    let read = program.read();
    assert!(!read.by_tsc);
    // At most it stands still at the end of its segment, 20 ms or two ahead.
    assert!(read.away_ns() <= 2 * LIMITS.segment_ns);
    assert_eq!(program.maintenance.steering.last_disruption, Some(SteeringDisruption::WentBack));
    program.run(200 * MS);
    let later = program.run(SECOND);
    assert!(later.by_tsc && later.away_ns() <= MICROSECOND, "{later:?}");
    assert_eq!(program.disruptions(), 1);
}

#[test]
fn a_tsc_that_jumped_ahead_is_noticed_at_the_next_read() {
    let mut program = settled(3 * GHZ, 8);
    program.world.shift_tsc(90 * GHZ);
    let read = program.read();
    assert!(!read.by_tsc);
    let jumped = program.maintenance.steering.last_disruption;
    assert!(
        matches!(jumped, Some(SteeringDisruption::Jumped { by_ns: ..-29_000_000_000 })),
        "{jumped:?}"
    );
    program.run(200 * MS);
    let later = program.run(SECOND);
    assert!(later.by_tsc && later.away_ns() <= MICROSECOND, "{later:?}");
}

/// The TSC stands while the system's clock goes on, as it does for a guest on
/// kvm-clock that was paused.
#[test]
fn a_pause_is_made_up_for_at_once() {
    let mut program = settled(3 * GHZ, 9);
    program.world.set_tsc_hz(1);
    program.world.pass(60 * SECOND);
    program.world.set_tsc_hz(3 * GHZ);
    program.run(40 * MS);
    let later = program.run(SECOND);
    assert!(later.by_tsc && later.away_ns() <= MICROSECOND, "{later:?}");
    assert_eq!(program.disruptions(), 1);
}

#[test]
fn a_migration_to_another_frequency_is_survived() {
    for (seed, hz) in [(10, 2 * GHZ), (11, 4 * GHZ), (12, 3_003_000_000)] {
        let mut program = settled(3 * GHZ, seed);
        program.world.set_tsc_hz(hz);
        program.run(200 * MS);
        let later = program.run(SECOND);
        assert!(later.by_tsc && later.away_ns() <= MICROSECOND, "{hz} Hz: {later:?}");
    }
}

/// TSC and system clock are restored alike, so nothing disagrees; only the
/// host can announce that the time of day is old.
#[test]
fn a_restore_that_the_host_announces_ends_the_daemons_word() {
    let mut program = settled(3 * GHZ, 13);
    assert!(program.read().view.error_ns.is_some());
    program.world.identity = 2;
    program.run(30 * MS);
    assert_eq!(program.maintenance.steering.last_disruption, Some(SteeringDisruption::Announced));
    assert_eq!(program.read().view.error_ns, None);
    let later = program.run(SECOND);
    assert!(later.by_tsc && later.away_ns() <= MICROSECOND, "{later:?}");
}

#[test]
fn a_tsc_that_disagrees_again_and_again_is_left_alone() {
    let mut program = settled(3 * GHZ, 14);
    for _ in 0..20 {
        program.world.shift_tsc(-GHZ);
        program.run(50 * MS);
    }
    assert_eq!(program.maintenance.steering.distrust(), Some(Distrust::Disagrees));
    let read = program.run(SECOND);
    assert!(!read.by_tsc && read.away_ns() == 0, "{read:?}");
    program.run(62 * SECOND);
    assert!(program.read().by_tsc);
}

#[test]
fn a_machine_that_distrusts_its_tsc_reads_the_system() {
    let mut program = settled(3 * GHZ, 15);
    program.world.distrust = Some(Distrust::Clocksource);
    program.run(60 * MS);
    let read = program.run(SECOND);
    assert!(!read.by_tsc && read.away_ns() == 0, "{read:?}");
    program.world.distrust = None;
    program.run(60 * MS);
    assert!(program.read().by_tsc);
}

#[test]
fn the_time_of_day_follows_a_step() {
    let mut program = settled(3 * GHZ, 16);
    let offset = |program: &mut Program| program.read().view.realtime_offset_ns;
    assert!(offset(&mut program).abs_diff(program.world.realtime_offset_ns) <= 25);
    program.world.realtime_offset_ns -= 3_600_000_000_000;
    program.run(40 * MS);
    assert!(offset(&mut program).abs_diff(program.world.realtime_offset_ns) <= 25);
    assert_eq!(program.maintenance.realtime.steps, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens to the machine, time does not go back and its error
    /// contains true time (each read checks), and a second after the last event
    /// it is right again.
    #[test]
    fn whatever_happens_time_goes_forward_and_ends_up_right(
        seed in any::<u64>(),
        tsc_hz in GHZ / 2..6 * GHZ,
        events in prop::collection::vec((0u8..7, 0u64..300, -500_000i128..500_000), 1..6),
    ) {
        let mut program = settled(tsc_hz, seed);
        program.world.interrupted = 20;
        program.world.host_bounds = true;
        for (event, wait_ms, value) in events {
            match event {
                0 | 1 => program.world.system_ppb = value,
                2 => program.world.set_tsc_hz((tsc_hz + tsc_hz * value / 600_000).max(GHZ / 10)),
                // Back beyond the segments: within them it is no other TSC.
                3 => program.world.shift_tsc(-tsc_hz / 10 - value.abs() * 10_000),
                4 => program.world.shift_tsc(value.abs() * 10_000),
                5 => program.world.pass(value.unsigned_abs() as u64 * 100_000),
                _ => program.world.identity += 1,
            }
            program.run(wait_ms * MS);
        }
        program.world.interrupted = 0;
        // A TSC found wrong too often is not used for a minute.
        program.run(62 * SECOND);
        program.world.tsc_moved = false;
        let worst = program.run(SECOND);
        prop_assert!(worst.away_ns() <= MICROSECOND, "{worst:?}");
        prop_assert!(program.read().by_tsc);
    }
}
