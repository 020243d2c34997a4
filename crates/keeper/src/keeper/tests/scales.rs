use super::*;
use crate::source::AnnouncedScale::{self, Smeared, Unknown, Utc};
use crate::{Announced, KeeperClockState, SourceState};

/// Noon of 31 December 2026.
const NOON_NS: u64 = 1_798_718_400 * S;
const HOUR_NS: u64 = 3600 * S;

/// A source, and what it shows.
type Shown = (SourceKind, Option<(i64, u64)>);

const OFF: Shown = (SourceKind::Ntp, Some((400 * MS, 5_000_000)));

/// Sources and their scales, at that time of day, after a sample.
fn bench(of: &[(Shown, AnnouncedScale)], unix_ns: u64) -> (Bench, Vec<Action>) {
    let sources: Vec<_> = of.iter().map(|(source, _)| *source).collect();
    let mut bench = Bench::new(Policy::default(), &sources);
    for (index, (_, scale)) in of.iter().enumerate() {
        let told = Announced { leap: None, scale: *scale };
        bench.keeper.announced(index, told, bench.now_ns, unix_ns);
    }
    let done = bench.sample(&[]);
    (bench, done)
}

fn states(bench: &Bench) -> Vec<SourceState> {
    bench.keeper.view(bench.now_ns).sources.iter().map(|source| source.state).collect()
}

#[test]
fn near_a_leap_second_one_scale_counts() {
    use SourceState::{Combined, OtherScale, Selected};
    let near = NOON_NS + 6 * HOUR_NS;
    for (of, steps_by, expected) in [
        // As many of each: UTC.
        (vec![(PAGE, Utc), (OFF, Smeared)], 0, vec![Selected, OtherScale]),
        (vec![(SERVER, Utc), (OFF, Smeared)], 0, vec![Selected, OtherScale]),
        // More of one.
        (
            vec![(PAGE, Utc), (OFF, Smeared), (OFF, Smeared)],
            400 * MS,
            vec![OtherScale, Selected, Combined],
        ),
        (
            vec![(OFF, Smeared), (SERVER, Utc), (SERVER, Utc)],
            0,
            vec![OtherScale, Selected, Combined],
        ),
        // The host is one, by as many faces.
        (
            vec![(PAGE, Utc), (PAGE, Utc), (OFF, Smeared), (OFF, Smeared)],
            400 * MS,
            vec![OtherScale, OtherScale, Selected, Combined],
        ),
    ] {
        let (mut bench, done) = bench(&of, near);
        let by_ns = done.iter().map(|it| if let Action::Step(by) = it { by.by_ns } else { 0 });
        assert_eq!(by_ns.sum::<i64>(), steps_by, "{of:?} {done:?}");
        assert!(!done.iter().any(|it| matches!(it, Action::Refuse(..))), "{done:?}");
        assert_eq!(states(&bench), expected, "{of:?}");
        assert_eq!(bench.sample(&[]), [], "and stays");
        assert_eq!(bench.keeper.view(bench.now_ns).clock, KeeperClockState::Synchronised);
    }
}

/// Nor does the majority's silence bring the other scale in.
#[test]
fn a_scale_that_does_not_reply_is_not_replaced_by_the_other() {
    let (mut bench, _) = bench(&[(SERVER, Utc), (OFF, Smeared)], NOON_NS);
    bench.offsets[0] = None;
    for _ in 0..1000 {
        assert_eq!(bench.sample(&[]), []);
    }
}

#[test]
fn on_other_days_and_of_unknown_scale_all_count() {
    for (scales, unix_ns, left_out) in [
        ([Utc, Smeared], NOON_NS - S, false),
        ([Utc, Smeared], NOON_NS, true),
        ([Utc, Smeared], NOON_NS + 24 * HOUR_NS - S, true),
        ([Utc, Smeared], NOON_NS + 24 * HOUR_NS, false),
        ([Utc, Unknown], NOON_NS, false),
        ([Smeared, Smeared], NOON_NS, false),
    ] {
        let (bench, _) = bench(&[(SERVER, scales[0]), (SERVER, scales[1])], unix_ns);
        let is_left_out = states(&bench).contains(&SourceState::OtherScale);
        assert_eq!(is_left_out, left_out, "{scales:?} {unix_ns}");
    }
}
