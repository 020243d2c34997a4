use super::*;

const FORTY_YEARS: i64 = 40 * YEAR_MS * MS;
/// It shows 1987 or so, and the program was made 30 years later.
const MISSING: DateGuard = DateGuard::Missing { behind_ns: (30 * YEAR_MS * MS) as u64 };
const SILENT: (SourceKind, Option<(i64, u64)>) = (SourceKind::Ntp, None);

/// What the host's word does to a machine that has started, with two servers
/// that cannot be reached yet.
fn by_the_host(is_unset: bool, offset_ns: i64) -> Vec<Action> {
    let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
    if is_unset {
        bench.keeper.clock.date = MISSING;
    }
    assert_eq!(bench.sample(&[]), []);
    bench.push(0, offset_ns, 1_000_000);
    bench.run()
}

#[test]
fn a_machine_without_a_date_takes_the_hosts_first_word() {
    assert_eq!(step_of(&by_the_host(true, FORTY_YEARS)).by_ns, FORTY_YEARS);
    // A date is never before the one that cannot be.
    assert!(matches!(by_the_host(true, -FORTY_YEARS)[..], [Action::Refuse(..)]));
}

#[test]
fn a_machine_with_a_date_does_not() {
    for offset_ns in [FORTY_YEARS, 60_000 * MS] {
        let done = by_the_host(false, offset_ns);
        let [Action::Refuse(_, Refusal::TooFewAgree { needed: 2, configured: 3 })] = done[..]
        else {
            panic!("{done:?}");
        };
    }
}

#[test]
fn only_the_first_word_is_a_date_and_no_server_s_is() {
    let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
    bench.keeper.clock.date = MISSING;
    bench.sample(&[]);
    bench.push(0, FORTY_YEARS, 1_000_000);
    step_of(&bench.run());
    bench.now_ns += S;
    bench.push(0, 60_000 * MS, 1_000_000);
    assert!(matches!(bench.run()[..], [Action::Refuse(_, Refusal::TooFewAgree { .. })]));

    let server = (SourceKind::Ntp, Some((FORTY_YEARS, 1_000_000)));
    let mut bench = Bench::new(Policy::default(), &[server, SILENT, SILENT]);
    bench.keeper.clock.date = MISSING;
    assert!(matches!(bench.sample(&[])[..], [Action::Refuse(..)]));
}

/// No program is made after its time: of a clock that shows 1987, in a program of 2017,
/// any date from 2017 to 2047 is nearer to the truth.
#[test]
fn a_date_that_may_be_farther_off_is_left_to_others() {
    let sixty = 60 * YEAR_MS * MS;
    assert_eq!(step_of(&by_the_host(true, sixty)).by_ns, sixty);
    let [Action::Refuse(_, Refusal::TooFewAgree { .. })] = by_the_host(true, sixty + 1)[..] else {
        panic!("farther off than it was, if it is 2017");
    };
}

#[test]
fn a_pause_before_the_first_word_changes_nothing() {
    for kind in [Kind::Pause, Kind::SnapshotRestored] {
        let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
        bench.keeper.clock.date = MISSING;
        bench.sample(&[]);
        let pause = disruption(kind, bench.now_ns, 60e9);
        bench.sample(&[pause]);
        bench.push(0, FORTY_YEARS, 1_000_000);
        assert_eq!(step_of(&bench.run()).by_ns, FORTY_YEARS, "{kind:?}");
    }
}

#[test]
fn what_another_process_gave_a_date_has_one() {
    let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
    bench.keeper.clock.date = MISSING;
    bench.sample(&[]);
    let set = disruption(Kind::ClockSet, bench.now_ns, 1e18);
    bench.sample(&[set]);
    bench.push(0, FORTY_YEARS, 1_000_000);
    assert!(matches!(bench.run()[..], [Action::Refuse(..)]));
}

/// The host lied by twenty years, and the servers are reached at last.
#[test]
fn two_servers_take_back_the_date_that_the_host_gave() {
    for seen in [None, Some(Kind::Pause)] {
        let mut bench = Bench::new(Policy::default(), &[HOST, SILENT, SILENT]);
        bench.keeper.clock.date = MISSING;
        bench.sample(&[]);
        bench.push(0, FORTY_YEARS, 1_000_000);
        step_of(&bench.run());
        let pause = seen.map(|kind| disruption(kind, bench.now_ns, 1e9));
        bench.sample(pause.as_slice());
        bench.offsets[1..].fill(Some((-FORTY_YEARS / 2, 5_000_000)));
        let done: Vec<Action> = (0..200).flat_map(|_| bench.sample(&[])).collect();
        let steps = done.iter().filter(|it| matches!(it, Action::Step(_))).count();
        assert_eq!((steps, bench.settled), (1, 1), "{seen:?}: {done:?}");
        // And then it has one.
        bench.move_by(-FORTY_YEARS / 2);
        let done: Vec<Action> = (0..200).flat_map(|_| bench.sample(&[])).collect();
        assert!(!done.iter().any(|it| matches!(it, Action::Step(_))), "{done:?}");
    }
}
