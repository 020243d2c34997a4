use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use instruments::drift::Span;

use super::super::clocks::Reader;
use super::*;

const S: u64 = 1_000_000_000;
const SINCE_1970: u64 = 1_795_000_000 * S;

/// A time that advances when a test lets it, and 20 ns with each read.
#[derive(Clone, Default)]
struct Time(Rc<Cell<u64>>);

impl Time {
    fn read(&self) -> u64 {
        self.0.set(self.0.get() + 20);
        self.0.get()
    }

    fn reader(&self, of: impl Fn(u64) -> u64 + 'static) -> Reader {
        let time = self.clone();
        Box::new(move || Some(Span::instant(of(time.read()))))
    }
}

/// A session of CLOCK_MONOTONIC, which is right, and CLOCK_REALTIME, against
/// a reference.
fn session(
    time: &Time,
    realtime: impl Fn(u64) -> u64 + 'static,
    reference: impl Fn(u64) -> Option<u64> + 'static,
) -> ComparisonSession {
    let clocks = ComparedClocks::from_readers(vec![
        (ClockName::Monotonic, time.reader(|now| 5 * S + now)),
        (ClockName::Realtime, time.reader(realtime)),
    ]);
    let its_time = time.clone();
    let reference = ComparisonReference::clock(
        "ntp 192.0.2.1",
        Duration::from_secs(1),
        Box::new(move || reference(its_time.read())),
    );
    ComparisonSession::new(clocks, vec![reference])
}

/// Compares once a second for a minute.
fn minute(session: &mut ComparisonSession, time: &Time) {
    for _ in 0..60 {
        time.0.set(time.0.get() + S);
        session.compare(0).unwrap();
    }
    session.finish();
}

#[test]
fn a_clock_set_back_is_noted_and_its_comparisons_are_kept() {
    let time = Time::default();
    let set_back = |now: u64| SINCE_1970 + now - if now > 30 * S { 3 * S } else { 0 };
    let mut session = session(&time, set_back, |now| Some(SINCE_1970 + now));
    minute(&mut session, &time);
    let outcome = session.outcome(Budget::default()).unwrap();
    let [Note::ClockStepped { clock: ClockName::Realtime, by_ns, at_s, or_reference: None }] =
        outcome.disturbances[..]
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(((by_ns / 1e7).round(), at_s.round()), (-300.0, 29.0));
    // The frequency is of the time around it.
    let ppm = |pair: &PairReport| pair.drift.frequency.unwrap().ppm;
    assert!(outcome.pairs.iter().all(|pair| ppm(pair).abs() < 0.01), "{outcome:?}");
    assert_eq!(outcome.pairs[1].drift.steps.len(), 1);
}

#[test]
fn a_reference_that_goes_back_before_the_start_is_noted() {
    let time = Time::default();
    let back = |now: u64| Some(SINCE_1970 + now - if now > 30 * S { 3600 * S } else { 0 });
    let mut session = session(&time, |now| SINCE_1970 + now, back);
    minute(&mut session, &time);
    let outcome = session.outcome(Budget::default()).unwrap();
    let Note::LeftOut { clock, reference, readings, why } = &outcome.disturbances[0] else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (*clock, reference.as_str(), *readings),
        (ClockName::Monotonic, "ntp 192.0.2.1", 29)
    );
    let Refused::BeforeStart { by_ns } = why else { panic!("{why:?}") };
    assert_eq!(by_ns / (60 * S), 59);
    assert!(outcome.pairs.iter().all(|pair| pair.drift.readings == 31), "{outcome:?}");
}

#[test]
fn a_reference_that_goes_away_for_a_while_leaves_a_gap() {
    let time = Time::default();
    let away = |now: u64| Some(SINCE_1970 + now).filter(|_| !(20 * S..40 * S).contains(&now));
    let mut session = session(&time, |now| SINCE_1970 + now + now / 20_000, away);
    minute(&mut session, &time);
    let outcome = session.outcome(Budget::default()).unwrap();
    assert!(outcome.disturbances.is_empty() && outcome.notes.is_empty(), "{outcome:?}");
    let [monotonic, realtime] = &outcome.pairs[..] else { panic!("{outcome:?}") };
    assert_eq!((monotonic.drift.readings, realtime.drift.readings), (40, 40));
    assert!((realtime.drift.frequency.unwrap().ppm - 50.0).abs() < 0.01, "{realtime:?}");
    assert_eq!(realtime.drift.steps, []);
}

#[test]
fn a_reference_that_stands_still_is_none() {
    let time = Time::default();
    let mut session = session(&time, |now| SINCE_1970 + now, |_| Some(SINCE_1970));
    minute(&mut session, &time);
    let error = session.outcome(Budget::default()).unwrap_err().to_string();
    assert!(
        error.contains("ntp 192.0.2.1 stood still while monotonic advanced by 59.0 s"),
        "{error}"
    );
}

#[test]
fn a_hosts_clock_gives_utc_by_its_drivers_name_and_a_card_of_the_same_name_does_not() {
    for is_hosts in [true, false] {
        let time = Time::default();
        let mut session = session(&time, |now| SINCE_1970 + now, |now| Some(SINCE_1970 + now));
        let its_time = time.clone();
        let read = Box::new(move || Some(SINCE_1970 + its_time.read()));
        let mut reference =
            ComparisonReference::clock("phc /dev/ptp0", Duration::from_secs(1), read);
        reference.gives_utc |= is_hosts;
        session.references = vec![reference];
        assert_eq!(session.has_offsets(), is_hosts);
        minute(&mut session, &time);
        let outcome = session.outcome(Budget::default()).unwrap();
        let realtime = outcome.pairs.iter().find(|pair| pair.clock == ClockName::Realtime).unwrap();
        assert_eq!(realtime.offset_is_error, is_hosts);
    }
}

mod outcome {
    use super::super::*;
    use crate::comparison::tests::pair_of;

    fn unchecked(pairs: &[(ClockName, &str, u64)], budget: Budget) -> Vec<Unchecked> {
        let pair = |(clock, reference, count): &(ClockName, &str, u64)| {
            pair_of(*clock, reference, *count, |_| 0).judged(budget).unwrap()
        };
        Unchecked::from_pairs(&pairs.iter().map(pair).collect::<Vec<_>>(), budget)
    }

    #[test]
    fn an_offset_from_no_time_of_day_is_not_checked() {
        let budget = Budget { max_offset_ns: Some(1e6), ..Budget::default() };
        let raw = [(ClockName::Realtime, "raw", 60), (ClockName::Monotonic, "raw", 60)];
        assert_eq!(unchecked(&raw, budget), [Unchecked::Offset]);
        assert_eq!(unchecked(&raw, Budget::default()), []);
        let one_of_two = [(ClockName::Realtime, "ntp 192.0.2.1", 60), raw[0]];
        assert_eq!(unchecked(&one_of_two, budget), []);
    }

    #[test]
    fn a_frequency_of_one_comparison_is_not_checked() {
        let budget = Budget { max_ppm: Some(1.0), ..Budget::default() };
        let once = (ClockName::Realtime, "raw", 1);
        let of_realtime = Unchecked::Frequency(vec![ClockName::Realtime]);
        assert_eq!(unchecked(&[once], budget), [of_realtime]);
        // Against another reference it was measured.
        assert_eq!(unchecked(&[once, (ClockName::Realtime, "ntp 192.0.2.1", 60)], budget), []);
    }
}
