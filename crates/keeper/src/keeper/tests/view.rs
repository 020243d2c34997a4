//! What those who ask are told, and what new settings leave as it was.

use super::*;
use SourceState::{Candidate, Combined, Falseticker, NotMeasured, Selected, TimeAway};

const RTC: (SourceKind, Option<(i64, u64)>) = (SourceKind::Rtc, Some((0, 500_000_000)));

fn states(bench: &Bench) -> Vec<SourceState> {
    bench.keeper.view(bench.now_ns).sources.iter().map(|source| source.state).collect()
}

fn server(offset_ms: i64) -> (SourceKind, Option<(i64, u64)>) {
    (SourceKind::Ntp, Some((offset_ms * MS, 5_000_000)))
}

#[test]
fn a_falseticker_is_named_and_the_clock_is_in_holdover_without_sources() {
    let mut bench =
        Bench::new(Policy::default(), &[PAGE, RTC, HOST, server(1), server(9_000), server(0)]);
    assert_eq!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Unsynchronised);
    bench.sample(&[]);
    bench.sample(&[]);
    assert_eq!(states(&bench), [Selected, TimeAway, NotMeasured, Combined, Falseticker, Combined]);
    let view = bench.keeper.view(bench.now_ns);
    assert_eq!((view.clock, view.next), (KeeperClockState::Synchronised, NextStep::Nothing));
    bench.offsets.fill(None);
    bench.now_ns += 3600 * S;
    bench.sample(&[]);
    let view = bench.keeper.view(bench.now_ns);
    assert_eq!((view.clock, view.next), (KeeperClockState::Holdover, NextStep::Wait));
    assert_eq!(view.selected, None);
}

/// The page stays and tells no time (`clock_status` unreliable): what it showed last is no reading
/// of now.
#[test]
fn a_local_source_that_fails_shows_nothing_ten_seconds_later() {
    for (source, shown_s) in [(PAGE, 10), (server(0), 130)] {
        let mut bench = Bench::new(Policy::default(), &[source]);
        for _ in 0..4 {
            bench.sample(&[]);
        }
        assert_eq!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Synchronised);
        let failed_ns = bench.now_ns;
        bench.offsets.fill(None);
        for _ in 0..2 * 150 {
            bench.sample(&[]);
            let (view, after_s) =
                (bench.keeper.view(bench.now_ns), (bench.now_ns - failed_ns) as f64 / S as f64);
            let is_shown = view.clock == KeeperClockState::Synchronised;
            if (after_s - f64::from(shown_s)).abs() > 5.0 {
                assert_eq!(is_shown, after_s < f64::from(shown_s), "{source:?}, {after_s} s");
            }
            let is_known = matches!(view.known, KeptBound::Within { .. });
            assert!(is_shown || view.clock == KeeperClockState::Holdover && is_known, "{view:?}");
        }
    }
}

/// No keeper knows better than most of its sources: the clock follows them, the others are named,
/// and a date more than a year away is refused whoever shows it.
#[test]
fn a_majority_of_liars_is_followed_to_a_year_and_no_farther() {
    let year = 400 * 86_400_000;
    let mut bench = Bench::new(Policy::default(), &[server(2_000), server(2_000), server(0)]);
    assert_eq!(step_of(&bench.sample(&[])).by_ns, 2_000 * MS);
    bench.sample(&[]);
    assert_eq!(states(&bench)[2], Falseticker);
    for by_ms in [year, -year] {
        let mut bench = Bench::new(Policy::default(), &[server(0), server(0), server(0)]);
        (0..4).for_each(|_| drop(bench.sample(&[])));
        bench.offsets = vec![server(by_ms).1, server(by_ms).1, server(0).1];
        for _ in 0..2 * 300 {
            let done = bench.sample(&[]);
            let is_refused = |action: &Action| matches!(action, Action::Refuse(..));
            assert!(done.iter().all(is_refused), "{done:?}");
        }
        assert_ne!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Synchronised);
    }
}

#[test]
fn what_would_be_done_is_what_is_done() {
    let no_majority = &[server(0), server(9_000)][..];
    for (sources, next, state) in [
        (&[server(9_000), server(9_000)][..], NextStep::Step(9_000 * MS), Combined),
        (&[server(-40), server(-40)], NextStep::Slew(-40 * MS), Combined),
        (&[server(0)], NextStep::Nothing, Selected),
        (no_majority, NextStep::Refuse(0, Refusal::Contradiction), Candidate),
    ] {
        let mut bench = Bench::new(Policy::default(), sources);
        bench.succeeds = false;
        // As far as measuring: what follows from it is not carried out.
        bench.now_ns += S;
        bench.keeper.sample(bench.now_ns, &[]);
        while let Some(Action::Measure(which)) = bench.keeper.next(bench.now_ns) {
            for index in which {
                let (offset_ns, bound_ns) = sources[index].1.unwrap();
                bench.push(index, offset_ns, bound_ns);
            }
        }
        let view = bench.keeper.view(bench.now_ns);
        assert!(states(&bench).contains(&state), "{view:?}");
        assert_eq!(view.next, next);
    }
}

/// What a keeper shows before it acts, and what it then does.
fn shown_and_done(bench: &mut Bench) -> (NextStep, Vec<Action>) {
    bench.now_ns += S / 2;
    bench.keeper.sample(bench.now_ns, &[]);
    while let Some(Action::Measure(which)) = bench.keeper.next(bench.now_ns) {
        for index in which {
            let (offset_ns, bound_ns) = bench.offsets[index].unwrap();
            bench.push(index, offset_ns, bound_ns);
        }
    }
    (bench.keeper.view(bench.now_ns).next, bench.sample(&[]))
}

#[test]
fn a_clock_too_far_ahead_to_be_slewed_is_shown_as_refused() {
    let policy = Policy { never_backward: true, ..Policy::default() };
    let mut bench = Bench::new(policy, &[server(-60_000), server(-60_000)]);
    let (next, _) = shown_and_done(&mut bench);
    let why = Refusal::TooFarAhead { takes_s: 120_000 };
    assert_eq!(next, NextStep::Refuse(-60_000 * MS, why));
}

#[test]
fn a_step_beyond_the_rate_limit_is_shown_as_refused() {
    let policy = Policy { burst: 1, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.offsets[0] = Some((9 * S as i64, 1000));
    step_of(&bench.sample(&[]));
    bench.offsets[0] = Some((9 * S as i64, 1000));
    let done = bench.sample(&[]);
    let [Action::Refuse(_, Refusal::RateLimited { wait_ns })] = done[..] else {
        panic!("{done:?}")
    };
    assert_eq!(wait_ns, 29_500_000_000);
    let next = bench.keeper.view(bench.now_ns + S).next;
    let why = Refusal::RateLimited { wait_ns: 28_500_000_000 };
    assert_eq!(next, NextStep::Refuse(9 * S as i64, why));
}

#[test]
fn an_offset_that_one_reply_shows_is_shown_as_unconfirmed() {
    let mut bench = Bench::new(Policy::default(), &[server(500)]);
    bench.now_ns += S;
    bench.keeper.sample(bench.now_ns, &[]);
    assert_eq!(bench.keeper.next(bench.now_ns), Some(Action::Measure(vec![0])));
    bench.push(0, 500 * MS, 5_000_000);
    let next = bench.keeper.view(bench.now_ns).next;
    assert_eq!(next, NextStep::Refuse(500 * MS, Refusal::Unconfirmed));
}

#[test]
fn new_settings_leave_what_was_learnt_of_the_other_sources() {
    let mut bench = Bench::new(Policy::default(), &[RTC, server(1), server(2)]);
    bench.sample(&[]);
    bench.sample(&[]);
    let before = bench.keeper.view(bench.now_ns);
    assert_eq!(before.clock, KeeperClockState::Synchronised);
    // The first server goes, another comes, and the order changes.
    let policy = Policy { tolerance_ns: 2_000_000, ..Policy::default() };
    let kinds = [(SourceKind::Ntp, Some(2)), (SourceKind::Rtc, Some(0)), (SourceKind::Ntp, None)];
    bench.keeper.reconfigure(policy, &kinds);
    bench.offsets = vec![server(2).1, RTC.1, server(1).1];
    let after = bench.keeper.view(bench.now_ns);
    assert_eq!(states(&bench), [Selected, TimeAway, NotMeasured]);
    assert_eq!(after.sources[0].offset, before.sources[2].offset);
    // Two of three have to agree, until then by what was known of the clock.
    assert_eq!(after.clock, KeeperClockState::Holdover);
    // Only the new one is polled.
    bench.sample(&[]);
    assert_eq!(bench.polled, [1, 2]);
    assert_eq!(states(&bench), [Combined, TimeAway, Selected]);
    assert_eq!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Synchronised);
    // An index that is another kind's, or nobody's, is a new source.
    bench
        .keeper
        .reconfigure(Policy::default(), &[(SourceKind::Phc, Some(0)), (SourceKind::Ntp, Some(9))]);
    assert_eq!(states(&bench), [NotMeasured, NotMeasured]);
}
