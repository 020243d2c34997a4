use super::*;

const S: u64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// 3 s into a slew of 5 ms 1.5 ms are made: what follows ends the rest.
fn slewing() -> Discipline {
    let mut discipline = Discipline::default();
    discipline.note_adjustment(S, Adjustment { frequency_ppb: None, slew_ns: Some(5 * MS) });
    assert_eq!(discipline.uncorrected(4 * S).0, 1.5e6);
    discipline
}

#[test]
fn what_a_slew_left_as_another_replaced_it_was_not_made() {
    let mut discipline = slewing();
    discipline.note_slew(Slewing { by_ns: -MS, since_ns: 4 * S });
    assert_eq!(discipline.uncorrected(5 * S).0, 1e6);
    assert_eq!(discipline.uncorrected(60 * S).0, 0.5e6);
    // How much it had left is known to half a millisecond: no frequency is in that.
    assert_eq!(discipline.adjust(60 * S, S), None);
}

#[test]
fn what_a_slew_left_as_a_step_ended_it_was_not_made() {
    let mut discipline = slewing();
    discipline.note_step(4 * S, 100 * MS);
    assert_eq!(discipline.uncorrected(60 * S).0 + discipline.stepped_ns, 101.5e6);
}

/// Ten seconds of slew that begin with the kernel's next second may have half a second to go
/// where they would end: what was measured before shows no frequency beside what follows.
#[test]
fn a_slew_that_may_not_have_ended_is_known_to_half_a_millisecond() {
    let exact = |by_ns: f64| Interval { low: by_ns - 1e3, high: by_ns + 1e3 };
    for (replaced_ns, is_over) in [(15 * S + S / 2, false), (18 * S, true)] {
        let mut discipline = Discipline::default();
        for at in 1..5 {
            discipline.take_offset(at * S, exact(0.0), exact(0.0), None);
        }
        discipline.note_slew(Slewing { by_ns: 5 * MS, since_ns: 5 * S });
        discipline.note_slew(Slewing { by_ns: -MS, since_ns: replaced_ns });
        discipline.take_offset(30 * S, exact(-4e6), exact(-4e6), None);
        assert_eq!(discipline.frequency().is_some(), is_over, "replaced at {replaced_ns} ns");
    }
}

/// A clock that is off by too much is slewed by all of it: what would be slewed beside
/// it is no adjustment, and the next may follow at once.
#[test]
fn an_adjustment_that_is_not_wanted_takes_no_turn() {
    let mut discipline = Discipline::default();
    for at in 0..10 {
        let offset = Interval { low: 1.9e6, high: 2.1e6 };
        discipline.take_offset(at * S, offset, offset, None);
    }
    let at = Interval { low: 1.9e6, high: 2.1e6 };
    discipline.take_offset(10 * S, at, at, None);
    assert_eq!(discipline.adjust_frequency(10 * S, 64 * S), None);
    discipline.take_offset(11 * S, at, at, None);
    assert_eq!(discipline.adjust(11 * S, 64 * S).and_then(|it| it.slew_ns), Some(2 * MS));
}

/// By how much a frequency moved the clock in `shown_ns` that it showed.
fn by_frequency(ppb: f64, shown_ns: f64) -> f64 {
    shown_ns * ppb / (1e9 + ppb)
}

/// At -83 ppm 3.3 µs would be in 40 ms, beside sources of 3 µs: also of a clock that was
/// steered before this program started.
#[test]
fn what_a_slew_moves_has_no_frequency_in_it() {
    for by_ns in [40 * MS, -40 * MS] {
        let mut discipline = Discipline::default();
        discipline.start(-83_000.0, None);
        discipline.note_slew(Slewing { by_ns, since_ns: S });
        let by = by_ns as f64;
        for (at_s, made) in [(1, 0.0), (41, by / 2.0), (200, by)] {
            let expected = made + by_frequency(-83_000.0, (at_s * S) as f64 - made);
            let (found, _) = discipline.uncorrected(at_s * S);
            assert!((found - expected).abs() < 1.0, "{by_ns} at {at_s} s: {found}, {expected}");
        }
    }
}

/// By servers the frequency is set beside a slew.
#[test]
fn nor_has_what_is_left_of_it_as_the_frequency_changes() {
    let change = Adjustment { frequency_ppb: Some(100_000.0), slew_ns: None };
    for by_ns in [40 * MS, -40 * MS] {
        let by = by_ns as f64;
        let mut discipline = Discipline::default();
        discipline.start(-83_000.0, None);
        discipline.note_slew(Slewing { by_ns, since_ns: S });
        discipline.note_adjustment(41 * S, change);
        let first = by_frequency(-83_000.0, 41e9 - by / 2.0);
        let expected = by + first + by_frequency(100_000.0, 159e9 - by / 2.0);
        let (found, _) = discipline.uncorrected(200 * S);
        assert!((found - expected).abs() < 1.0, "{by_ns}: {found}, {expected}");
        // A set ends it a second later, with 19.5 ms left.
        discipline.end_slew(42 * S);
        let made = by * 20.5 / 40.0;
        let expected = made + first + by_frequency(100_000.0, 159e9 - by * 0.5 / 40.0);
        let (found, _) = discipline.uncorrected(200 * S);
        assert!((found - expected).abs() < 1.0, "{by_ns}, ended: {found}, {expected}");
    }
}

/// The bound was noted at the old rate, and grows by its error until it is noted again.
#[test]
fn the_rate_before_a_change_counts_until_the_bound_is_noted() {
    let mut discipline = Discipline::default();
    for at in 0..20 {
        let ns = at as f64 * 50_000.0;
        let offset = Interval { low: ns - 10.0, high: ns + 10.0 };
        discipline.take_offset(at * S, offset, offset, None);
    }
    discipline.note_bound();
    let change = Adjustment { frequency_ppb: Some(50_000.0), slew_ns: None };
    discipline.note_adjustment(19 * S, change);
    assert!(discipline.rate_error_ppb().is_some_and(|ppb| ppb >= 50_000.0));
    discipline.note_bound();
    assert!(discipline.rate_error_ppb().is_some_and(|ppb| ppb < 100.0));
}
