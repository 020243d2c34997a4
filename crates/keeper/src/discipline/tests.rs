use super::*;

const S: u64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// 3 s into a slew of 5 ms 1.5 ms are made: what follows ends the rest.
fn slewing() -> Discipline {
    let mut discipline = Discipline::default();
    discipline.adjusted(S, Adjustment { frequency_ppb: None, slew_ns: Some(5 * MS) });
    assert_eq!(discipline.uncorrected(4 * S).0, 1.5e6);
    discipline
}

#[test]
fn what_a_slew_left_as_another_replaced_it_was_not_made() {
    let mut discipline = slewing();
    discipline.slewed(Slewing { by_ns: -MS, since_ns: 4 * S });
    assert_eq!(discipline.uncorrected(5 * S).0, 1e6);
    assert_eq!(discipline.uncorrected(60 * S).0, 0.5e6);
    // How much it had left is known to half a millisecond: no frequency is in that.
    assert_eq!(discipline.adjust(60 * S, S), None);
}

#[test]
fn what_a_slew_left_as_a_step_ended_it_was_not_made() {
    let mut discipline = slewing();
    discipline.stepped(4 * S, 100 * MS);
    assert_eq!(discipline.uncorrected(60 * S).0 + discipline.stepped_ns, 101.5e6);
}

/// A clock that is off by too much is slewed by all of it: what would be slewed beside
/// it is no adjustment, and the next may follow at once.
#[test]
fn an_adjustment_that_is_not_wanted_takes_no_turn() {
    let mut discipline = Discipline::default();
    for at in 0..10 {
        let offset = Interval { low: 1.9e6, high: 2.1e6 };
        discipline.measured(at * S, offset, offset, None);
    }
    let at = Interval { low: 1.9e6, high: 2.1e6 };
    discipline.measured(10 * S, at, at, None);
    assert_eq!(discipline.adjust_frequency(10 * S, 64 * S), None);
    discipline.measured(11 * S, at, at, None);
    assert_eq!(discipline.adjust(11 * S, 64 * S).and_then(|it| it.slew_ns), Some(2 * MS));
}
