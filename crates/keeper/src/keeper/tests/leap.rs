use pvclock::units::LeapSecond::{self, Deleted, Inserted};

use super::*;
use crate::Announced;

/// Of 30 June 2026.
const NOON_NS: u64 = 1_782_820_800 * S;
const HALF_A_DAY_NS: u64 = 43_200 * S;

/// Three servers.
fn bench(corrector: Corrector) -> Bench {
    Bench::new(Policy { corrector, ..Policy::default() }, &[SERVER; 3])
}

/// What the kernel is told a poll after this was said, at this time of day.
fn told(bench: &mut Bench, said: [Option<LeapSecond>; 3], unix_ns: u64) -> Vec<Option<LeapSecond>> {
    for (index, leap) in said.into_iter().enumerate() {
        let told = Announced { leap, ..Announced::default() };
        bench.keeper.announced(index, told, bench.now_ns, unix_ns);
    }
    bench.now_ns += 65 * S;
    set_by(&bench.sample(&[]))
}

fn set_by(done: &[Action]) -> Vec<Option<LeapSecond>> {
    let set = |action: &Action| match action {
        Action::SetLeap(leap) => Some(*leap),
        _ => None,
    };
    done.iter().filter_map(set).collect()
}

#[test]
fn what_most_announce_on_its_day_is_armed_and_disarmed_after_it() {
    for leap in [Inserted, Deleted] {
        let mut bench = bench(Corrector::Kernel);
        let said = [Some(leap), None, Some(leap)];
        assert_eq!(told(&mut bench, said, NOON_NS), [Some(leap)]);
        assert_eq!(told(&mut bench, said, NOON_NS + S), []);
        assert_eq!(told(&mut bench, said, NOON_NS + HALF_A_DAY_NS + S), [None]);
    }
}

#[test]
fn what_few_announce_or_on_another_day_or_beside_a_daemon_is_not_armed() {
    let both = [Some(Inserted), Some(Inserted), Some(Deleted)];
    for (said, unix_ns, corrector) in [
        ([Some(Inserted), None, None], NOON_NS, Corrector::Kernel),
        ([Some(Inserted), Some(Deleted), None], NOON_NS, Corrector::Kernel),
        (both, NOON_NS - 2 * HALF_A_DAY_NS, Corrector::Kernel),
        (both, NOON_NS, Corrector::Beside),
    ] {
        assert_eq!(told(&mut bench(corrector), said, unix_ns), [], "{said:?} {unix_ns}");
    }
}

#[test]
fn whether_a_step_left_the_second_armed_is_not_known_and_the_kernel_is_told_again() {
    for said_after in [Some(Inserted), None] {
        let mut bench = bench(Corrector::Kernel);
        let said = [Some(Inserted); 3];
        told(&mut bench, said, NOON_NS);
        bench.move_by(10 * S as i64);
        let pause = disruption(Kind::Pause, bench.now_ns, 10e9);
        assert_eq!(set_by(&bench.sample(&[pause])), []);
        let said = [said_after; 3];
        assert_eq!(told(&mut bench, said, NOON_NS + S), [said_after]);
        assert_eq!(told(&mut bench, said, NOON_NS + 2 * S), []);
    }
}

#[test]
fn a_date_that_another_sets_disarms_the_kernel_and_it_is_armed_anew() {
    let mut bench = bench(Corrector::Kernel);
    let said = [Some(Inserted); 3];
    told(&mut bench, said, NOON_NS);
    let set = disruption(Kind::ClockSet, bench.now_ns, 0.0);
    assert_eq!(set_by(&bench.sample(&[set])), [None]);
    assert_eq!(told(&mut bench, said, NOON_NS + S), [Some(Inserted)]);
}

/// Theirs passes a little before ours, or after it.
#[test]
fn nothing_is_measured_while_it_passes() {
    for (at_ns, steps) in
        [(HALF_A_DAY_NS - S, 0), (HALF_A_DAY_NS + 2 * S, 0), (HALF_A_DAY_NS / 2, 1)]
    {
        let mut bench = bench(Corrector::Kernel);
        let began_ns = bench.now_ns;
        told(&mut bench, [Some(Inserted); 3], NOON_NS);
        bench.move_by(-(S as i64));
        bench.now_ns = began_ns + at_ns;
        let done = bench.sample(&[]);
        let made = done.iter().filter(|action| matches!(action, Action::Step(_))).count();
        assert_eq!(made, steps, "{at_ns}: {done:?}");
    }
}

/// What a keeper that was killed had told, or a daemon that has ended.
#[test]
fn what_is_found_is_cleared_once_servers_do_not_announce_it() {
    for (corrector, expected) in [(Corrector::Kernel, &[None][..]), (Corrector::Beside, &[])] {
        let mut found = bench(corrector);
        found.keeper.adopt_leap(Some(Inserted));
        assert_eq!(told(&mut found, [None; 3], NOON_NS), expected);
    }
    let mut silent = bench(Corrector::Kernel);
    silent.offsets = vec![None; 3];
    silent.keeper.adopt_leap(Some(Inserted));
    assert_eq!(told(&mut silent, [None; 3], NOON_NS), []);
    let mut announced = bench(Corrector::Kernel);
    announced.keeper.adopt_leap(Some(Inserted));
    assert_eq!(told(&mut announced, [Some(Inserted); 3], NOON_NS), []);
}

#[test]
fn another_daemons_leap_second_is_left_to_it() {
    let mut bench = bench(Corrector::Kernel);
    assert_eq!(told(&mut bench, [Some(Inserted); 3], NOON_NS), [Some(Inserted)]);
    bench.keeper.set_corrector(Corrector::Beside);
    assert_eq!(told(&mut bench, [None; 3], NOON_NS + S), []);
    bench.move_by(10 * S as i64);
    let pause = disruption(Kind::Pause, bench.now_ns, 10e9);
    assert_eq!(set_by(&bench.sample(&[pause])), []);
}

#[test]
fn what_the_kernel_could_not_be_told_is_told_again() {
    let mut bench = bench(Corrector::Kernel);
    bench.succeeds = false;
    let said = [Some(Inserted); 3];
    for _ in 0..3 {
        assert_eq!(told(&mut bench, said, NOON_NS), [Some(Inserted)]);
    }
    bench.succeeds = true;
    assert_eq!(told(&mut bench, said, NOON_NS), [Some(Inserted)]);
    assert_eq!(told(&mut bench, said, NOON_NS), []);
}

/// The page is the host's voice, and has to agree with as many others as in a correction.
#[test]
fn a_page_announces_as_a_voice_among_others() {
    let some = Some(Inserted);
    for (servers, said, expected) in [
        (0, [some, None, None], &[some][..]),
        (0, [None; 3], &[]),
        // One against one.
        (1, [some, None, None], &[]),
        (1, [some, some, None], &[some]),
        // A page that says nothing may not fill in the field.
        (1, [None, some, None], &[some]),
        (2, [some, None, None], &[]),
        (2, [some, some, None], &[some]),
        (2, [some, Some(Deleted), None], &[]),
    ] {
        let sources = [&[PAGE][..], &[SERVER; 2][..servers]].concat();
        let mut bench = Bench::new(Policy::default(), &sources);
        assert_eq!(told(&mut bench, said, NOON_NS), expected, "{servers} {said:?}");
    }
}

#[test]
fn a_page_that_announced_one_takes_it_back() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    // From the first of the month on.
    let (said, days) = ([Some(Deleted), None, None], 2 * HALF_A_DAY_NS);
    assert_eq!(told(&mut bench, said, NOON_NS - 20 * days), []);
    assert_eq!(told(&mut bench, said, NOON_NS), [Some(Deleted)]);
    let pause = disruption(Kind::Pause, bench.now_ns, 10e9);
    bench.move_by(10 * S as i64);
    assert_eq!(set_by(&bench.sample(&[pause])), []);
    assert_eq!(told(&mut bench, said, NOON_NS + S), [Some(Deleted)], "after a step, again");
    assert_eq!(told(&mut bench, [None; 3], NOON_NS + 2 * S), [None]);
    assert_eq!(told(&mut bench, [None; 3], NOON_NS + 3 * S), []);
    // What a page never announced, it does not clear.
    let mut found = Bench::new(Policy::default(), &[PAGE]);
    found.keeper.adopt_leap(Some(Inserted));
    assert_eq!(told(&mut found, [None; 3], NOON_NS), []);
}
