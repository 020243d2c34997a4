use super::sources::SPARED_REQUESTS;
use super::*;
use crate::Adjustment;

fn within(bench: &Bench) -> (i64, u64, bool) {
    match bench.keeper.error_bound(bench.now_ns) {
        KeptBound::Within { offset, is_free_running, .. } => {
            (offset.offset_ns, offset.bound_ns, is_free_running)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_known_follows_the_sources_and_what_disturbs_them() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    bench.sample(&[]);
    assert_eq!(within(&bench), (0, 1001, false));
    // Small enough to be slewed. Nothing accounts for it, so it is known again once the clock has
    // not run off for a while.
    bench.move_by(50 * MS);
    for _ in 0..2 {
        bench.sample(&[]);
        assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    }
    bench.sample(&[]);
    assert_eq!(within(&bench), (50 * MS, 1001, false));

    // A pause: until the step, which is exact; it is verified by the next measurement.
    bench.move_by(10_000 * MS);
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    step_of(&bench.run());
    assert_eq!(within(&bench), (0, 1001, false));
    bench.sample(&[]);
    assert_eq!(within(&bench).1, 1001);

    // Its sources have gone.
    bench.offsets = vec![None];
    bench.now_ns += bench.keeper.policy.poll_ns + 11 * S;
    bench.sample(&[]);
    assert!(within(&bench).2);

    // An administrator's date.
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::ClockSet, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
}

/// A host that is heard once: what it showed after the pause holds, though the pause is
/// classified some samples later; one that is first seen after that is another.
#[test]
fn a_late_verdict_takes_nothing_measured_since_back() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.sample(&[]);
    bench.move_by(10_000 * MS);
    let seen_ns = bench.now_ns;
    bench.now_ns += MS as u64;
    bench.keeper.suspect(bench.now_ns, CorrectionCause::HostResumed);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    step_of(&bench.run());
    bench.now_ns += 2 * S;
    bench.offsets = vec![None];
    bench.sample(&[disruption(Kind::Pause, seen_ns, 1e10)]);
    assert_eq!(within(&bench).0, 0);
    bench.sample(&[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
}

/// Another daemon may have stepped as well.
#[test]
fn beside_another_daemon_a_step_is_verified_first() {
    let policy = Policy { corrector: Corrector::Beside, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.sample(&[]);
    bench.move_by(10_000 * MS);
    bench.keeper.sample(bench.now_ns, &[disruption(Kind::Pause, bench.now_ns, 1e10)]);
    assert!(matches!(bench.run()[..], [Action::Step(_), Action::Restart]));
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    bench.sample(&[]);
    assert_eq!(within(&bench), (0, 1001, false));
}

#[test]
fn too_few_sources_or_the_rtc_are_no_knowledge() {
    let silent = (SourceKind::Ntp, None);
    let mut bench = Bench::new(Policy::default(), &[PAGE, silent, silent]);
    bench.sample(&[]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    let mut bench = Bench::new(Policy::default(), &[(SourceKind::Rtc, Some((0, 1000)))]);
    bench.sample(&[]);
    bench.sample(&[]);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
}

/// A set of some microseconds, which the next samples classify: until then it is none.
#[test]
fn no_frequency_is_learnt_while_evidence_is_gathered() {
    for is_gathering in [false, true] {
        let mut bench = Bench::new(Policy::default(), &[PAGE]);
        bench.sample(&[]);
        for _ in 0..4 {
            bench.keeper.gathering(is_gathering, None);
            bench.move_by(20_000);
            bench.sample(&[]);
        }
        assert_eq!(bench.keeper.frequency().is_some(), !is_gathering);
    }
}

/// The marker that clients compare is published with it: of a restore, before that is classified.
#[test]
fn what_was_measured_before_an_absence_bounds_nothing_while_evidence_is_gathered() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.sample(&[]);
    let before = bench.keeper.error_bound(bench.now_ns);
    bench.keeper.gathering(true, Some(bench.now_ns));
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    // It is classified as nothing that moved the clock.
    bench.keeper.gathering(false, None);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), before);
    // The host shows the time before the evidence is classified.
    bench.keeper.gathering(true, Some(bench.now_ns));
    bench.sample(&[]);
    assert!(matches!(bench.keeper.error_bound(bench.now_ns), KeptBound::Within { .. }));
}

/// By how much it may be off at most, ns.
fn most_ns(bench: &Bench) -> u64 {
    let (offset_ns, bound_ns, _) = within(bench);
    offset_ns.unsigned_abs() + bound_ns
}

/// It is 10 ms behind, and goes on for 79.75 ms.
#[test]
fn the_bound_covers_a_correction_that_ends_elsewhere() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.move_by(80 * MS);
    assert!(matches!(bench.sample(&[])[..], [Action::Slew(_)]));
    bench.move_by(-70 * MS);
    assert_eq!(bench.sample(&[]), [], "it is kept");
    assert_eq!(within(&bench).0, 10 * MS);
    assert!(most_ns(&bench) >= 69_750_000, "{}", most_ns(&bench));
}

/// The clock is right, and a slew of 0.6 ms goes on: half a second later the kernel may not have
/// begun. The discipline may have forgotten it, for example after a failed adjustment.
#[test]
fn the_bound_covers_a_slew_that_has_yet_to_begin() {
    for forgets in [false, true] {
        let mut bench = Bench::new(Policy::default(), &[PAGE]);
        bench.sample(&[]);
        if forgets {
            bench.keeper.clock.slew(-600_000, bench.now_ns);
            bench.keeper.clock.discipline.reset();
        } else {
            let by = Adjustment { frequency_ppb: None, slew_ns: Some(-600_000) };
            bench.keeper.clock.discipline.note_adjustment(bench.now_ns, by);
        }
        bench.sample(&[]);
        assert!(most_ns(&bench) >= 601_001, "{}", most_ns(&bench));
    }
}

/// A gate whose first measurement is too wide: the next poll would be a minute later.
#[test]
fn servers_are_asked_each_second_while_somebody_waits_for_a_tighter_bound() {
    let late = (SourceKind::Ntp, Some((0, 20_000_000)));
    let mut bench = Bench::new(Policy::default(), &[late, late]);
    let mut polls = 0;
    for sample in 0..20 {
        bench.keeper.want_bound(10_000_000, bench.now_ns);
        if sample == 8 {
            bench.offsets = vec![Some((0, 5_000_000)); 2];
        }
        bench.sample(&[]);
        polls += bench.polled.len() / 2;
    }
    assert_eq!(polls, 5, "at once, and each second until it is tight enough");
}

/// Any user may ask for a bound that no server allows, for as long as they like.
#[test]
fn who_asks_for_a_tighter_bound_leaves_requests_for_a_disruption() {
    let late = (SourceKind::Ntp, Some((0, 20_000_000)));
    for servers in 1..=5 {
        let mut bench = Bench::new(Policy::default(), &vec![late; servers]);
        let mut polls = 0;
        for _ in 0..2 * 120 {
            bench.keeper.ask_for_bound(10_000_000, bench.now_ns);
            bench.sample(&[]);
            polls += bench.polled.len() / servers;
            let left = bench.keeper.sources.requests.tokens(bench.now_ns);
            assert!(left >= servers as u32 * SPARED_REQUESTS, "{left} for {servers} servers");
        }
        assert!((10..30).contains(&polls), "at once, then every eighth of a poll: {polls}");
        bench.move_by(5000 * MS);
        let pause = disruption(Kind::Pause, bench.now_ns, 5e9);
        assert_eq!(step_of(&bench.sample(&[pause])).by_ns, 5000 * MS);
    }
}

/// One of three servers is unreachable. It is polled with the others where it is due half a poll
/// later.
#[test]
fn who_asks_for_a_tighter_bound_has_no_server_polled_that_is_given_up() {
    let late = (SourceKind::Ntp, Some((0, 20_000_000)));
    let mut bench = Bench::new(Policy::default(), &[late, late, (SourceKind::Ntp, None)]);
    (0..2 * 120).for_each(|_| drop(bench.sample(&[])));
    let mut polls = [0; 3];
    for _ in 0..2 * 320 {
        bench.keeper.ask_for_bound(10_000_000, bench.now_ns);
        bench.sample(&[]);
        bench.polled.iter().for_each(|server| polls[*server] += 1);
    }
    assert!(polls[0] >= 40 && polls[2] <= 10, "{polls:?}");
}

/// As a machine boots: its network is there after 40 s, and a server that does not reply is polled
/// less and less often.
#[test]
fn servers_that_reply_late_are_not_waited_for_while_somebody_asks() {
    let mut bench = Bench::new(Policy::default(), &[(SourceKind::Ntp, None); 2]);
    let mut synchronised_s = None;
    for sample in 0..2 * 60 {
        if sample == 2 * 40 {
            bench.offsets = vec![Some((0, 5_000_000)); 2];
        }
        bench.keeper.ask_for_bound(10_000_000, bench.now_ns);
        bench.sample(&[]);
        if bench.keeper.view(bench.now_ns).clock == KeeperClockState::Synchronised {
            synchronised_s = synchronised_s.or(Some(sample / 2));
        }
    }
    assert!(synchronised_s.is_some_and(|s| s <= 49), "{synchronised_s:?}");
}

const RTC: (SourceKind, Option<(i64, u64)>) = (SourceKind::Rtc, Some((0, S / 2)));

fn two_servers_and_an_rtc() -> Bench {
    let mut bench = Bench::new(Policy::default(), &[SERVER, SERVER, RTC]);
    (0..4).for_each(|_| drop(bench.sample(&[])));
    bench
}

/// A pause that the RTC alone shows accounts for nothing: 1.5 s after the last measurement, a doubt
/// of 3 s. The kernel has no error meanwhile, and the next poll would be a minute later.
#[test]
fn servers_are_asked_again_once_that_can_end_a_doubt() {
    let mut bench = two_servers_and_an_rtc();
    bench.move_by(5000 * MS);
    assert_eq!(step_of(&bench.sample(&[])).by_ns, 5000 * MS);
    let stepped_ns = bench.now_ns;
    assert_eq!(bench.sample(&[]), [], "the step is verified");
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    let reported = bench.reported.len();
    let mut of_servers = 0;
    while bench.keeper.error_bound(bench.now_ns) == KeptBound::Unknown {
        assert!(bench.now_ns < stepped_ns + 5 * S, "it is still in doubt");
        assert_eq!(bench.sample(&[]), []);
        of_servers += bench.polled.iter().filter(|index| **index < 2).count();
    }
    assert_eq!(of_servers, 2, "each once");
    assert_eq!(bench.reported.len(), reported + 1, "the kernel is told its error");
}

/// Beside another daemon the kernel's error, which our step has reset, is put back once, though
/// the doubt is over only after the clock was found right.
#[test]
fn beside_another_daemon_a_doubt_does_not_keep_the_error() {
    let policy = Policy { corrector: Corrector::Beside, ..Policy::default() };
    let mut bench = Bench::new(policy, &[SERVER, SERVER, RTC]);
    (0..4).for_each(|_| drop(bench.sample(&[])));
    bench.move_by(5000 * MS);
    assert!(matches!(bench.sample(&[])[..], [Action::Step(_), Action::Restart]));
    let reported = bench.reported.len();
    (0..2).for_each(|_| drop(bench.sample(&[])));
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    assert_eq!(bench.reported.len(), reported, "in doubt");
    (0..400).for_each(|_| drop(bench.sample(&[])));
    assert_eq!(bench.reported.len(), reported + 1);
}

/// Nor is it put back where another process has set the clock since: what that reset is not ours.
#[test]
fn beside_another_daemon_a_set_by_another_ends_what_is_owed() {
    let policy = Policy { corrector: Corrector::Beside, ..Policy::default() };
    let mut bench = Bench::new(policy, &[SERVER, SERVER, RTC]);
    (0..4).for_each(|_| drop(bench.sample(&[])));
    bench.move_by(5000 * MS);
    assert!(matches!(bench.sample(&[])[..], [Action::Step(_), Action::Restart]));
    let reported = bench.reported.len();
    bench.sample(&[]);
    bench.sample(&[disruption(Kind::ClockSet, bench.now_ns + 1, 1e9)]);
    (0..400).for_each(|_| drop(bench.sample(&[])));
    assert_eq!(bench.reported.len(), reported);
}

/// An RTC's seconds agree with a liar: it may be stepped or slewed by the two, and no bound is
/// shown, to programs or to the kernel.
#[test]
fn an_rtc_has_no_vote_for_a_bound() {
    let mut bench = two_servers_and_an_rtc();
    bench.move_by(60_000 * MS);
    bench.offsets[0] = None;
    bench.offsets[1] = Some((60_400 * MS, 5_000_000));
    let by = step_of(&bench.sample(&[]));
    assert_eq!((by.agreeing, by.showing_time), ((2, 2), 1));
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);

    let mut bench = two_servers_and_an_rtc();
    let reported = bench.reported.len();
    bench.offsets = vec![None, Some((60 * MS, 5_000_000)), Some((1050 * MS, S / 2))];
    assert!(matches!(bench.sample(&[])[..], [Action::Slew(_)]));
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Disrupted);
    assert_eq!(bench.reported.len(), reported, "the kernel is told no error");
    assert_eq!(bench.figures, [(Some(16 * S), 16 * S)], "but that none is known");
    let clock = bench.keeper.view(bench.now_ns).clock;
    assert_ne!(clock, crate::KeeperClockState::Synchronised, "nor is anybody who asks");

    // Two servers show it, whatever the RTC does.
    let mut bench = two_servers_and_an_rtc();
    bench.move_by(60_000 * MS);
    let pause = disruption(Kind::Pause, bench.now_ns + 1, 6e10);
    assert_eq!(step_of(&bench.sample(&[pause])).showing_time, 2);
    assert_eq!(within(&bench).0, 0);
}

/// chronyd slews what it is off by, with a tick of another length: it is left to that.
#[test]
fn a_clock_that_is_steered_fast_has_no_bound_and_is_not_disrupted() {
    let policy = Policy { corrector: Corrector::Beside, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.sample(&[]);
    bench.keeper.forget_bound(bench.now_ns);
    assert_eq!(bench.keeper.error_bound(bench.now_ns), KeptBound::Unknown);
    bench.move_by(50 * MS);
    assert_eq!(bench.sample(&[]), []);
}
