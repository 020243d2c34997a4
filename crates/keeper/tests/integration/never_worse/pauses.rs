//! Pauses as crate `disruptions` tells of them (docs/guide/watch.md): late, of a length
//! that is known well, to a second by the RTC, or not at all, and of kinds that are not
//! told apart.

use disruptions::{Disruption, Evidence, Kind, Kinds, Size};
use keeper::SourceKind;

use super::fleet::Fleet;
use super::random::Random;
use crate::model::{INTERVAL_NS, MS, Machine, S};

/// What the kernel adds for a suspend is the RTC's, in whole seconds, ns.
const SLEPT_WITHIN_NS: i64 = S as i64;

/// The least that an RTC's seconds show of a pause.
const SEEN_BY_RTC_NS: i64 = 2 * SLEPT_WITHIN_NS;

/// The longest until the RTC is read again.
const READ_EACH_NS: u64 = 30 * S;

/// The most that a verdict comes after the first sample that shows it.
const SAMPLES_LATER: u64 = 4;

/// The machine stands for so long. What is told of it, if anything, comes with the next
/// sample or some later.
pub(crate) fn pause(machine: &mut Machine, fleet: &Fleet, random: &mut Random, for_ns: u64) {
    let is_told = !random.one_in(3);
    let is_suspend = is_told && random.one_in(6);
    let before_ns = machine.clock.error_ns();
    machine.clock.pause(for_ns);
    if is_suspend {
        let off_ns = random.below(2 * SLEPT_WITHIN_NS.unsigned_abs()) as i64 - SLEPT_WITHIN_NS;
        let off_ns = off_ns.min(0).max(-for_ns.cast_signed());
        machine.clock.realtime_ns += for_ns.cast_signed() + off_ns;
    }
    let behind_ns = before_ns - machine.clock.error_ns();
    if is_told {
        let kinds = if is_suspend { Kind::Suspend.into() } else { kinds(random) };
        let told = told(machine, fleet, random, kinds, behind_ns);
        let later_ns = INTERVAL_NS * random.below(SAMPLES_LATER);
        let at_ns = machine.clock.monotonic_ns + INTERVAL_NS + later_ns;
        machine.others.gathered.push((at_ns, told));
    }
    machine.samples(1);
    // It was corrected by then, or was not.
    if behind_ns >= SEEN_BY_RTC_NS && has_rtc(fleet) && random.one_in(4) {
        shown_by_rtc(machine, random, behind_ns);
    }
}

/// The host that lies has its RTC run away as in a pause, and its other faces with it.
pub(crate) fn run_away(machine: &mut Machine, fleet: &Fleet, random: &mut Random) {
    let by_ns = SEEN_BY_RTC_NS + (random.below(1 << 37)) as i64;
    let is_rtc = |index: usize| fleet.sources[index].kind == SourceKind::Rtc;
    if fleet.lying().any(is_rtc) {
        let error_ns = machine.clock.error_ns();
        let sources = &mut machine.sources;
        fleet.lying().for_each(|index| sources[index].lie_ns = error_ns + by_ns);
        shown_by_rtc(machine, random, by_ns);
    }
}

fn has_rtc(fleet: &Fleet) -> bool {
    let is_rtc =
        |index: usize| fleet.sources[index].kind == SourceKind::Rtc && fleet.is_right(index);
    (0..fleet.sources.len()).any(is_rtc)
}

/// As it is read each 0.7 to 30 s, the RTC shows a pause for itself.
fn shown_by_rtc(machine: &mut Machine, random: &mut Random, behind_ns: i64) {
    machine.samples(random.below(READ_EACH_NS / INTERVAL_NS));
    let size = Size { ns: behind_ns as f64, bound_ns: SLEPT_WITHIN_NS as f64 };
    let at_ns = machine.clock.monotonic_ns + MS.unsigned_abs();
    machine.sample(&[by_rtc(at_ns, size)]);
}

fn by_rtc(at_monotonic_ns: u64, size: Size) -> Disruption {
    let [gained_s, bound_s] = [size.ns, size.bound_ns].map(|ns| ns / S as f64);
    Disruption {
        kinds: Kinds::any_of(&[Kind::Pause, Kind::SnapshotRestored, Kind::Migrated, Kind::RtcSet]),
        at_monotonic_ns,
        size: Some(size),
        behind: Some(size),
        evidence: vec![Evidence::Rtc { gained_s, bound_s }],
    }
}

fn kinds(random: &mut Random) -> Kinds {
    match random.below(4) {
        0 => Kinds::any_of(&[Kind::SnapshotRestored, Kind::Migrated]),
        1 => Kinds::any_of(&[Kind::Pause, Kind::SnapshotRestored, Kind::Migrated]),
        _ => Kind::Pause.into(),
    }
}

/// What is told of one that left the clock behind by so much.
fn told(
    machine: &Machine,
    fleet: &Fleet,
    random: &mut Random,
    kinds: Kinds,
    behind_ns: i64,
) -> Disruption {
    let is_by_rtc = has_rtc(fleet) && behind_ns >= SEEN_BY_RTC_NS;
    let bound_ns = match random.below(4) {
        0 => Some(0),
        1 => Some(1_000 << random.below(14)),
        2 if is_by_rtc => Some(S),
        _ => None,
    };
    let behind = bound_ns.map(|bound_ns| {
        let off_ns = random.below(2 * bound_ns + 1) as i64 - bound_ns.cast_signed();
        Size { ns: (behind_ns + off_ns) as f64, bound_ns: bound_ns as f64 }
    });
    let at_monotonic_ns = machine.clock.monotonic_ns + MS.unsigned_abs();
    let of_rtc = behind.filter(|_| bound_ns == Some(S) && kinds.contains(Kind::Pause));
    if let Some(size) = of_rtc {
        return by_rtc(at_monotonic_ns, size);
    }
    let size = behind.filter(|_| !kinds.contains(Kind::Suspend));
    Disruption { kinds, at_monotonic_ns, size, behind, evidence: Vec::new() }
}
