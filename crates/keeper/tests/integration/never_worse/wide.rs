//! More of what may be: every kind of source, machines without a date, other daemons,
//! clocks that are never set back, and a process that sets the clock between any two of
//! the keeper's actions. Who lies knows the truth, and the clock's error.

use keeper::{Corrector, Keeper, Policy, SourceKind};

use super::fleet::Fleet;
use super::random::Random;
use super::{History, lie, pauses};
use crate::model::{Machine, S};

/// A year, ns.
const YEAR_NS: i64 = 31_557_600 * S as i64;

/// The machine starts without a date: its clock shows this.
fn without_date(machine: &mut Machine, policy: &Policy, unix_ns: i64) {
    machine.clock.realtime_ns = unix_ns;
    let kinds: Vec<SourceKind> = machine.sources.iter().map(|source| source.kind).collect();
    machine.keeper =
        Keeper::new(policy.clone(), &kinds).with_unset_clock(machine.clock.behind_ns());
}

/// A daemon starts to discipline the clock, or ends.
fn follow(machine: &mut Machine, is_beside: bool) {
    let corrector = if is_beside { Corrector::Beside } else { Corrector::Kernel };
    if machine.keeper.set_corrector(corrector) && !is_beside {
        machine.keeper.start_at(machine.clock.frequency_ppb, None);
        machine.keeper.adopt_leap(None);
    }
    machine.others.is_beside = is_beside;
}

/// A policy of a history.
fn policy(random: &mut Random) -> Policy {
    let poll_ns = if random.one_in(2) { 64 * S } else { S << (2 + random.below(4)) };
    let corrector = if random.one_in(8) { Corrector::Beside } else { Corrector::Kernel };
    let never_backward = random.one_in(4);
    Policy { poll_ns, corrector, never_backward, ..Policy::default() }
}

/// What a liar says: anything; that the clock is right; or that it was, before it lost
/// this much.
fn tell(machine: &mut Machine, fleet: &Fleet, random: &mut Random, lost_ns: u64) {
    let by_ns = match random.below(4) {
        0 => random.lie_ns(),
        1 => machine.clock.error_ns(),
        _ => machine.clock.error_ns() + lost_ns as i64,
    };
    lie(machine, fleet, by_ns);
}

/// The network is down, or up again; it has the servers and the cards in it.
fn network(machine: &mut Machine, is_down: bool) {
    let is_out = |kind| matches!(kind, SourceKind::Ntp | SourceKind::NetworkCard);
    let sources = machine.sources.iter_mut().filter(|one| is_out(one.kind));
    sources.for_each(|source| source.is_unreachable = is_down);
}

/// One thing that happens.
fn happen(machine: &mut Machine, fleet: &Fleet, random: &mut Random) {
    // By how much the clock was off before, an RTC alone cannot show.
    let has_time = fleet.sources.iter().any(|source| source.kind != SourceKind::Rtc);
    match random.below(14) {
        8 | 9 if !has_time => {}
        0 => machine.samples(random.below(150)),
        1 => machine.samples(random.below(1500)),
        2..=4 => {
            let for_ns = (1_000_000 << random.below(26)) + random.below(1000) * 1_000_000;
            // Who lies knows what comes.
            if random.one_in(2) {
                let lies = |machine: &mut Machine, by_ns| lie(machine, fleet, by_ns);
                match random.below(4) {
                    0 => lies(machine, random.lie_ns()),
                    1 => lies(machine, machine.clock.error_ns() - for_ns as i64),
                    _ => lies(machine, machine.clock.error_ns()),
                }
            }
            pauses::pause(machine, fleet, random, for_ns);
            // Or says, once it is corrected, that it is not.
            if random.one_in(4) {
                tell(machine, fleet, random, for_ns);
                machine.samples(1);
            }
        }
        5 => tell(machine, fleet, random, 0),
        6 => {
            let index = random.below(machine.sources.len() as u64) as usize;
            machine.sources[index].is_unreachable ^= true;
        }
        7 => network(machine, random.one_in(2)),
        8 => machine.others.set_one_in = if random.one_in(2) { 0 } else { 3 + random.below(40) },
        9 => {
            let by_ns = if random.one_in(4) { -machine.clock.error_ns() } else { random.lie_ns() };
            machine.others.set(&mut machine.clock, by_ns);
        }
        10 => follow(machine, random.one_in(2)),
        // To and fro.
        11 => {
            let (lies, apart) = ([random.lie_ns(), random.lie_ns()], 1 + random.below(140));
            for at in 0..2 + random.below(8) as usize {
                let by_ns = machine.clock.error_ns() + lies[at % 2];
                lie(machine, fleet, by_ns);
                machine.samples(apart);
            }
        }
        12 => pauses::run_away(machine, fleet, random),
        _ => {
            machine.told_each = 1 + random.below(40);
            machine.gives_notice = random.one_in(2);
        }
    }
}

/// Makes a history.
pub(crate) fn run(number: u64) -> History {
    make(number, false)
}

/// Makes a history; `is_dateless` of a machine that starts without a date.
fn make(number: u64, is_dateless: bool) -> History {
    let random = &mut Random::new(!number.rotate_left(32));
    let fleet = Fleet::of_all_kinds(random);
    let policy = policy(random);
    let drift_ppm = if random.one_in(2) { random.below(401) as i64 - 200 } else { 0 };
    let mut machine = Machine::new(policy.clone(), &fleet.sources, drift_ppm, number);
    machine.others.is_reported = true;
    machine.others.is_beside = policy.corrector == Corrector::Beside;
    let has_time = fleet.sources.iter().any(|source| source.kind != SourceKind::Rtc);
    let by_ns = random.lie_ns();
    lie(&mut machine, &fleet, by_ns);
    match if is_dateless { 0 } else { random.below(8) } {
        // Without a date: of 1970, of 1980, or of a few years ago.
        0 if has_time => {
            let unix_ns = [machine.clock.monotonic_ns as i64, 10 * YEAR_NS, 53 * YEAR_NS];
            without_date(&mut machine, &policy, unix_ns[random.below(3) as usize]);
            if random.one_in(2) {
                let years = random.below(100) as i64 - 20;
                lie(&mut machine, &fleet, years * YEAR_NS);
            }
        }
        1 | 2 if has_time => machine.clock.realtime_ns += random.lie_ns() / 1_000_000 * 1_000_000,
        _ => {}
    }
    // Before the network is up.
    network(&mut machine, random.one_in(2));
    machine.samples(random.below(4));
    for _ in 0..random.below(10) {
        happen(&mut machine, &fleet, random);
        machine.samples(2);
    }
    History { machine, fleet, policy }
}

/// Whether enough show the time, and none of what may not be undone has happened.
fn is_to_settle(History { machine, fleet, policy, .. }: &History) -> bool {
    let shows_time = |index: &usize| machine.sources[*index].kind != SourceKind::Rtc;
    let honest = fleet.voices.iter().skip(fleet.liars);
    let showing = honest.filter(|voice| voice.iter().any(shows_time)).count();
    let needed = (fleet.voices.len() - 1) / 2 + 1;
    showing >= needed && needed >= 2 && machine.others.sets == 0 && !policy.never_backward
}

/// Once all are reached, the clock is right, whatever was believed before. Nothing is said
/// of one that may not be.
pub(crate) fn ends(number: u64) -> Option<Result<(), String>> {
    let mut history = make(number, number.is_multiple_of(2));
    let machine = &mut history.machine;
    machine.others.set_one_in = 0;
    follow(machine, false);
    machine.sources.iter_mut().for_each(|source| source.is_unreachable = false);
    (machine.told_each, machine.gives_notice) = (1, false);
    if !is_to_settle(&history) {
        return None;
    }
    let History { machine, fleet, policy, .. } = &mut history;
    machine.samples(1200);
    let run_off_ns = machine.clock.drift_ppb.abs() as u64 * (policy.poll_ns / S);
    let most_ns = fleet.bound_ns() * 3 / 2 + policy.tolerance_ns + run_off_ns;
    let error_ns = machine.clock.error_ns();
    let is_right = error_ns.unsigned_abs() <= most_ns;
    Some(is_right.then_some(()).ok_or(format!("{error_ns} ns off at the end, {fleet:?}")))
}
