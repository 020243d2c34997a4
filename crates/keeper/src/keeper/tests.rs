use disruptions::Size;

use super::*;
use crate::action::ClockError;
use crate::action::Correction;
use crate::policy::Corrector;

mod beside;
mod chronyd;
mod cold_boot;
mod error;
mod error_bound;
mod leap;
mod line;
mod rtc;
mod scales;
mod slews;
mod view;

const MS: i64 = 1_000_000;
const S: u64 = polled::SECOND_NS;
const YEAR_MS: i64 = 366 * 86_400_000;

/// A keeper, its time, and sources that always give the same offset.
struct Bench {
    keeper: Keeper,
    now_ns: u64,
    offsets: Vec<Option<(i64, u64)>>,
    polled: Vec<usize>,
    settled: usize,
    reported: Vec<ClockError>,
    /// The largest error, where it was given, and the probable one, ns.
    figures: Vec<(Option<u64>, u64)>,
    /// Whether corrections can be made.
    succeeds: bool,
}

impl Bench {
    fn new(policy: Policy, sources: &[(SourceKind, Option<(i64, u64)>)]) -> Self {
        let kinds: Vec<SourceKind> = sources.iter().map(|(kind, _)| *kind).collect();
        Self {
            keeper: Keeper::new(policy, &kinds),
            now_ns: 1000 * S,
            offsets: sources.iter().map(|(_, offset)| *offset).collect(),
            polled: Vec::new(),
            settled: 0,
            reported: Vec::new(),
            figures: Vec::new(),
            succeeds: true,
        }
    }

    /// A sample half a second later; what is done in it but measuring and
    /// settling, and all of that succeeds.
    fn sample(&mut self, seen: &[Disruption]) -> Vec<Action> {
        self.now_ns += S / 2;
        self.keeper.sample(self.now_ns, seen);
        self.run()
    }

    fn run(&mut self) -> Vec<Action> {
        let mut done = Vec::new();
        self.polled.clear();
        while let Some(action) = self.keeper.next(self.now_ns) {
            match action {
                Action::Measure(sources) => {
                    for index in sources {
                        self.polled.push(index);
                        let offset = self.offsets[index].map(|(offset_ns, bound_ns)| OffsetBound {
                            offset_ns,
                            bound_ns,
                            at_monotonic_ns: self.now_ns,
                        });
                        self.keeper.measured(index, self.now_ns, offset);
                    }
                }
                Action::Step(by) => {
                    self.keeper.corrected(self.now_ns, true);
                    for (offset_ns, _) in self.offsets.iter_mut().flatten() {
                        *offset_ns -= by.by_ns;
                    }
                    done.push(action);
                }
                Action::Synchronised(_) => self.settled += 1,
                Action::SetFigures { max_ns, estimated_ns } => {
                    self.figures.push((max_ns, estimated_ns));
                }
                Action::SetError(error) => self.reported.push(error),
                other => {
                    self.keeper.corrected(self.now_ns, self.succeeds);
                    done.push(other);
                }
            }
            assert!(self.polled.len() + done.len() < 100, "it never ends");
        }
        done
    }

    /// A source sends its offset by itself.
    fn push(&mut self, index: usize, offset_ns: i64, bound_ns: u64) {
        let offset = OffsetBound { offset_ns, bound_ns, at_monotonic_ns: self.now_ns };
        self.keeper.measured(index, self.now_ns, Some(offset));
    }

    fn move_by(&mut self, by_ns: i64) {
        for (offset_ns, _) in self.offsets.iter_mut().flatten() {
            *offset_ns += by_ns;
        }
    }
}

fn disruption(kind: Kind, at_monotonic_ns: u64, size_ns: f64) -> Disruption {
    let size = Some(Size { ns: size_ns, bound_ns: 0.0 });
    let behind = size.filter(|_| kind != Kind::ClockSet);
    Disruption { kinds: kind.into(), at_monotonic_ns, size, behind, evidence: Vec::new() }
}

fn step_of(done: &[Action]) -> Correction {
    let [Action::Step(by)] = done else { panic!("{done:?}") };
    *by
}

const SERVER: (SourceKind, Option<(i64, u64)>) = (SourceKind::Ntp, Some((0, 5_000_000)));
const HOST: (SourceKind, Option<(i64, u64)>) = (SourceKind::HostValue, None);
const PAGE: (SourceKind, Option<(i64, u64)>) = (SourceKind::VmClock, Some((0, 1000)));

#[test]
fn local_sources_are_polled_in_each_sample_and_servers_each_poll() {
    let mut bench = Bench::new(Policy::default(), &[PAGE, SERVER]);
    let mut of_server = 0;
    for _ in 0..2 * 192 {
        assert_eq!(bench.sample(&[]), []);
        assert_eq!(bench.polled.iter().filter(|index| **index == 0).count(), 1);
        of_server += bench.polled.iter().filter(|index| **index == 1).count();
    }
    assert_eq!(of_server, 3);
}

#[test]
fn an_unannounced_pause_is_detected_and_corrected_in_one_sample() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.sample(&[]);
    bench.sample(&[]);
    bench.move_by(2000 * MS);
    assert_eq!(bench.settled, 1, "at the start");
    let by = step_of(&bench.sample(&[]));
    assert_eq!(by.by_ns, 2000 * MS);
    assert_eq!(by.cause, Some(CorrectionCause::SourceMoved(SourceKind::VmClock)));
    assert_eq!(bench.settled, 1);
    assert_eq!(bench.sample(&[]), []);
    assert_eq!(bench.settled, 2, "after the step");
    bench.sample(&[]);
    assert_eq!(bench.settled, 2);
}

#[test]
fn a_server_is_polled_twice_at_once_after_a_disruption() {
    let mut bench = Bench::new(Policy::default(), &[SERVER]);
    bench.sample(&[]);
    bench.sample(&[]);
    bench.move_by(2000 * MS);
    assert_eq!(bench.sample(&[]), [], "nothing shows it before the next poll");
    let pause = disruption(Kind::Pause, bench.now_ns, 2e9);
    let by = step_of(&bench.sample(&[pause]));
    assert_eq!(by.by_ns, 2000 * MS);
    assert_eq!(by.cause, Some(CorrectionCause::Disruption(Kind::Pause.into())));
    assert_eq!(bench.polled, [0, 0]);
    assert_eq!(bench.sample(&[]), []);
    assert_eq!(bench.polled, [0], "once more, to see that it was right");
    assert_eq!(bench.sample(&[]), []);
    assert_eq!(bench.polled, [0; 0]);
}

/// In local time, and an hour off on top of that: only how far it moves counts.
#[test]
fn the_rtc_shows_a_pause_and_has_the_server_polled() {
    let rtc = (SourceKind::Rtc, Some((10_800_000 * MS, 500_000_000)));
    let mut bench = Bench::new(Policy::default(), &[SERVER, rtc]);
    for _ in 0..10 {
        assert_eq!(bench.sample(&[]), []);
    }
    bench.move_by(60_000 * MS);
    let by = step_of(&bench.sample(&[]));
    assert_eq!((by.source, by.by_ns, by.agreeing), (0, 60_000 * MS, (2, 2)));
    // The server is gone: better by the RTC than not at all.
    bench.sample(&[]);
    bench.sample(&[]);
    bench.move_by(60_000 * MS);
    bench.offsets[0] = None;
    assert_eq!(step_of(&bench.sample(&[])).source, 1);
}

#[test]
fn our_own_step_is_no_disruption() {
    let mut bench = Bench::new(Policy::default(), &[PAGE, SERVER]);
    let before_ns = bench.now_ns;
    bench.move_by(2000 * MS);
    step_of(&bench.sample(&[]));
    assert!(!bench.keeper.is_own_step(&disruption(Kind::ClockSet, before_ns, 2e9)));
    assert!(!bench.keeper.is_own_step(&disruption(Kind::ClockSet, bench.now_ns, -2e9)));
    let own = disruption(Kind::ClockSet, bench.now_ns, 2e9);
    assert!(!bench.keeper.is_own_step(&disruption(Kind::ClockSet, bench.now_ns, 3e9)));
    assert!(!bench.keeper.is_own_step(&disruption(Kind::Pause, bench.now_ns, 2e9)));
    assert!(bench.keeper.is_own_step(&own));
    assert!(!bench.keeper.is_own_step(&own), "the second of that size is another process's");
}

#[test]
fn small_offsets_are_slewed_once() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.move_by(40 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::Slew(by)] if by.by_ns == 40 * MS), "{done:?}");
    // 500 ppm of half a second, exactly as the kernel does it.
    for _ in 0..150 {
        bench.move_by(-250_000);
        assert_eq!(bench.sample(&[]), []);
    }
    // Another process undid it.
    bench.move_by(30 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::Slew(_)]), "{done:?}");
}

#[test]
fn a_clock_that_is_ahead_is_slowed_where_it_may_not_go_back() {
    let policy = Policy { never_backward: true, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(-2000 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::Slew(by)] if by.by_ns == -2000 * MS), "{done:?}");
    bench.move_by(4000 * MS);
    assert_eq!(step_of(&bench.sample(&[])).by_ns, 2000 * MS);
}

#[test]
fn steps_come_in_a_burst_and_then_one_per_interval() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    let mut steps = 0;
    let mut refused = 0;
    for _ in 0..20 {
        bench.move_by(2000 * MS);
        for action in bench.sample(&[]) {
            match action {
                Action::Step(_) => steps += 1,
                Action::Refuse(_, Refusal::RateLimited { wait_ns }) => {
                    refused += 1;
                    assert!(wait_ns <= 30 * S);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((steps, refused), (3, 1), "a refusal is reported once");
    for _ in 0..60 {
        steps += bench.sample(&[]).len();
    }
    assert_eq!(steps, 4);
}

#[test]
fn an_offset_beyond_the_largest_step_is_refused() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.sample(&[]);
    bench.move_by(-38 * YEAR_MS * MS);
    let done = bench.sample(&[]);
    let why = Refusal::BeyondLongestAbsence { most_ns: 366 * 86_400 * S };
    assert!(matches!(&done[..], [Action::Refuse(_, found)] if *found == why), "1988: {done:?}");
    assert_eq!(bench.sample(&[]), []);
}

/// Without an RTC.
#[test]
fn a_machine_that_starts_in_1970_is_corrected() {
    for (sources, is_corrected) in
        [(&[PAGE][..], true), (&[SERVER], false), (&[SERVER, SERVER], true)]
    {
        for by_ns in [56 * YEAR_MS * MS, -56 * YEAR_MS * MS] {
            let mut bench = Bench::new(Policy::default(), sources);
            bench.move_by(by_ns);
            let done = bench.sample(&[]);
            let is_step = matches!(done[..], [Action::Step(_)]);
            assert_eq!(is_step, is_corrected && by_ns > 0, "{done:?}");
            assert_eq!(done.len(), 1, "else it is refused");
        }
    }
}

#[test]
fn two_servers_that_contradict_each_other_correct_nothing() {
    let other = (SourceKind::Ntp, Some((5000 * MS, 5_000_000)));
    let mut bench = Bench::new(Policy::default(), &[SERVER, other]);
    let done = bench.sample(&[]);
    assert!(matches!(&done[..], [Action::Refuse(_, Refusal::Contradiction)]), "{done:?}");
}

#[test]
fn a_host_sends_its_time_by_itself() {
    let mut bench = Bench::new(Policy::default(), &[(SourceKind::HostValue, None)]);
    assert_eq!(bench.sample(&[]), []);
    assert_eq!(bench.polled, [0; 0]);
    let offset =
        OffsetBound { offset_ns: 3000 * MS, bound_ns: 1000, at_monotonic_ns: bench.now_ns };
    bench.keeper.measured(0, bench.now_ns, Some(offset));
    assert_eq!(step_of(&bench.run()).by_ns, 3000 * MS);
}

/// Else a wrong host and a right server would step the clock by turns.
#[test]
fn a_server_that_contradicts_the_host_undoes_nothing() {
    let mut bench = Bench::new(Policy::default(), &[(SourceKind::HostValue, None), SERVER]);
    bench.sample(&[]);
    bench.keeper.suspect(bench.now_ns, CorrectionCause::HostResumed);
    bench.offsets[1] = None;
    bench.push(0, 60_000 * MS, 1000);
    assert_eq!(step_of(&bench.run()).by_ns, 60_000 * MS);
    bench.offsets[1] = Some((-60_000 * MS, 5_000_000));
    for _ in 0..2 * 60 {
        for action in bench.sample(&[]) {
            assert!(matches!(action, Action::Refuse(_, Refusal::Contradiction)), "{action:?}");
        }
    }
}

#[test]
fn an_unreachable_server_is_polled_less_and_less_often() {
    let mut bench = Bench::new(Policy::default(), &[(SourceKind::Ntp, None)]);
    let mut at = Vec::new();
    for sample in 0..600 {
        bench.sample(&[]);
        at.extend(bench.polled.iter().map(|_| sample / 2));
    }
    assert_eq!(at, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255]);
}

#[test]
fn disruptions_in_a_row_do_not_flood_a_server() {
    let mut bench = Bench::new(Policy::default(), &[SERVER]);
    let mut polled = 0;
    for _ in 0..2 * 64 {
        let pause = disruption(Kind::Pause, bench.now_ns, 0.0);
        bench.sample(&[pause]);
        polled += bench.polled.len();
    }
    assert_eq!(polled, 10 + 7, "a burst of ten, and one per 8 s");
}

#[test]
fn a_large_slew_is_made_in_parts() {
    let policy = Policy { never_backward: true, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(-3000 * MS);
    let mut slews = 0;
    // 500 ppm: 3 s take 6000 s.
    for _ in 0..2 * 6000 {
        slews += bench.sample(&[]).len();
        bench.move_by(250_000);
    }
    assert!(bench.sample(&[]).is_empty());
    assert!((2..=3).contains(&slews), "{slews}");
}

/// A server's offset from before the pause shows that all is well.
#[test]
fn a_pushed_time_is_not_outvoted_by_old_offsets() {
    let sources = [(SourceKind::HostValue, None), SERVER, SERVER, SERVER];
    let mut bench = Bench::new(Policy::default(), &sources);
    bench.sample(&[]);
    bench.sample(&[]);
    bench.move_by(60_000 * MS);
    let offset =
        OffsetBound { offset_ns: 60_000 * MS, bound_ns: 1000, at_monotonic_ns: bench.now_ns };
    bench.keeper.measured(0, bench.now_ns, Some(offset));
    assert_eq!(step_of(&bench.run()).agreeing, (4, 4));
}

#[test]
fn a_slew_of_more_than_a_day_is_refused() {
    let max_step_ns = 366 * 86_400 * S;
    let policy = Policy { never_backward: true, max_step_ns, ..Policy::default() };
    let mut bench = Bench::new(policy, &[PAGE]);
    bench.move_by(-86_400_000 * MS);
    let done = bench.sample(&[]);
    let takes_s = 86_400 * 2000;
    assert!(
        matches!(done[..], [Action::Refuse(_, Refusal::TooFarAhead { takes_s: it })] if it == takes_s),
        "{done:?}"
    );
}

#[test]
fn a_needless_slew_ends() {
    let mut bench = Bench::new(Policy::default(), &[PAGE]);
    bench.move_by(80 * MS);
    bench.sample(&[]);
    bench.move_by(-80 * MS);
    let done = bench.sample(&[]);
    assert!(matches!(done[..], [Action::Slew(Correction { by_ns: 0, .. })]), "{done:?}");
    assert_eq!(bench.sample(&[]), []);
}
