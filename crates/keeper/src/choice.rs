//! Which source to select.
//!
//! 1. The interval on which a majority of sources agrees is taken as true
//!    time; the others are falsetickers (Marzullo's algorithm, RFC 5905 section
//!    11.2.1).
//! 2. Of the survivors the best kind is selected; several of that kind are
//!    combined where their bounds overlap.
//! 3. Without a majority the best kind is selected: the host's page against one
//!    NTP server. Two servers that contradict each other select none.

use instruments::drift::agreement::{Agreement, agreement};
use instruments::steps::Interval;
use units::OffsetBound;

use crate::offset::Offset;
use crate::source::SourceKind;

/// A source that was measured since the last disruption.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) source: usize,
    pub(crate) kind: SourceKind,
    pub(crate) offset: OffsetBound,
    /// It was measured in this sample.
    pub(crate) is_fresh: bool,
}

/// What was selected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// No source was measured, or not in this sample.
    Nothing,
    /// The sources contradict each other; this is one of them.
    Contradiction(Selected),
    /// This one.
    Of(Selected),
}

/// The selected source, and the combined offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Selected {
    /// The one of the tightest bound.
    pub(crate) source: usize,
    pub(crate) kind: SourceKind,
    pub(crate) offset: OffsetBound,
    /// How many were measured in this sample.
    pub(crate) fresh: usize,
    /// How many agree, of how many.
    pub(crate) agreeing: (usize, usize),
}

/// Selects among the candidates at `now_ns`.
pub(crate) fn choose(candidates: &[Candidate], now_ns: u64) -> Choice {
    let majority = members(candidates, now_ns);
    let best = |among: &[Candidate]| among.iter().map(|one| one.kind).min();
    let agreed = majority.as_deref().unwrap_or(candidates);
    let Some(kind) = best(agreed) else { return Choice::Nothing };
    let of_kind: Vec<Candidate> = agreed.iter().filter(|one| one.kind == kind).copied().collect();
    // Without a majority of all, those of one kind may have one of their own.
    let agreed_of_kind = match majority {
        Some(_) => Some(of_kind.clone()),
        None => members(&of_kind, now_ns),
    };
    let total = candidates.len();
    match agreed_of_kind {
        Some(together) => {
            let agreeing = (majority.map_or(together.len(), |all| all.len()), total);
            selected(&together, agreeing, now_ns).map_or(Choice::Nothing, Choice::Of)
        }
        None => {
            selected(&of_kind, (1, total), now_ns).map_or(Choice::Nothing, Choice::Contradiction)
        }
    }
}

/// Those that belong to a majority; none where there is no majority.
fn members(candidates: &[Candidate], now_ns: u64) -> Option<Vec<Candidate>> {
    let bounds: Vec<Interval> =
        candidates.iter().map(|one| one.offset.interval_at(now_ns)).collect();
    match agreement(&bounds) {
        Agreement::None => None,
        Agreement::Majority(is_member) => {
            let pairs = candidates.iter().zip(is_member);
            Some(pairs.filter(|(_, is_member)| *is_member).map(|(one, _)| *one).collect())
        }
    }
}

/// The combined offset of those measured in this sample.
fn selected(together: &[Candidate], agreeing: (usize, usize), now_ns: u64) -> Option<Selected> {
    let fresh = || together.iter().filter(|one| one.is_fresh);
    let tightest = fresh().min_by_key(|one| one.offset.bound_at(now_ns))?;
    Some(Selected {
        source: tightest.source,
        kind: tightest.kind,
        offset: overlap(fresh().map(|one| one.offset), now_ns).unwrap_or(tightest.offset),
        fresh: fresh().count(),
        agreeing,
    })
}

/// Where the bounds overlap; none where they do not.
fn overlap(offsets: impl Iterator<Item = OffsetBound>, now_ns: u64) -> Option<OffsetBound> {
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    for one in offsets {
        let (offset, bound) = (i128::from(one.offset_ns), i128::from(one.bound_at(now_ns)));
        (low, high) = (low.max(offset - bound), high.min(offset + bound));
    }
    Some(OffsetBound {
        offset_ns: i64::try_from(low.midpoint(high)).ok()?,
        // The middle loses half a nanosecond.
        bound_ns: u64::try_from(high.checked_sub(low)?.div_euclid(2)).ok()?.saturating_add(1),
        at_monotonic_ns: now_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use SourceKind::{Ntp, Phc, Rtc, VmClock};

    const MS: i64 = 1_000_000;

    fn choice(of: &[(SourceKind, i64, u64)]) -> Choice {
        let candidate = |(source, &(kind, offset_ns, bound_ns))| Candidate {
            source,
            kind,
            offset: OffsetBound { offset_ns, bound_ns, at_monotonic_ns: 0 },
            is_fresh: true,
        };
        choose(&of.iter().enumerate().map(candidate).collect::<Vec<_>>(), 0)
    }

    fn source(choice: Choice) -> usize {
        let Choice::Of(selected) = choice else { panic!("{choice:?}") };
        selected.source
    }

    #[test]
    fn the_best_kind_of_those_that_agree() {
        let of = [(Rtc, 0, 500_000_000), (Ntp, 3 * MS, 5_000_000), (VmClock, MS, 1000)];
        assert_eq!(source(choice(&of)), 2);
        assert_eq!(source(choice(&of[..2])), 1);
        assert_eq!(source(choice(&of[..1])), 0);
        assert_eq!(choice(&[]), Choice::Nothing);
    }

    #[test]
    fn two_of_three_servers_outvote_a_falseticker() {
        let of = [(Ntp, 7_000 * MS, 1_000_000), (Ntp, 0, 4_000_000), (Ntp, 6 * MS, 4_000_000)];
        let Choice::Of(selected) = choice(&of) else { panic!() };
        assert_eq!((selected.agreeing, selected.fresh), ((2, 3), 2));
        // They overlap from 2 to 4 ms.
        assert_eq!((selected.offset.offset_ns, selected.offset.bound_ns), (3 * MS, 1_000_001));
    }

    #[test]
    fn a_majority_of_servers_outvotes_a_wrong_host() {
        let of = [(Phc, 9_000 * MS, 1000), (Ntp, 0, 1_000_000), (Ntp, 0, 2_000_000)];
        assert_eq!(source(choice(&of)), 1);
    }

    #[test]
    fn without_a_majority_the_better_kind_is_selected_or_none() {
        assert_eq!(source(choice(&[(Ntp, 9_000 * MS, 1000), (Phc, 0, 1000)])), 1);
        let two = choice(&[(Ntp, 9_000 * MS, 1000), (Ntp, 0, 2000)]);
        assert!(matches!(two, Choice::Contradiction(Selected { source: 0, .. })), "{two:?}");
        // The RTC does not decide between servers.
        let three = choice(&[(Ntp, 9_000 * MS, 1000), (Ntp, 0, 2000), (Rtc, 20_000 * MS, 1000)]);
        assert!(matches!(three, Choice::Contradiction(_)), "{three:?}");
    }

    #[test]
    fn a_better_source_without_a_fresh_sample_is_waited_for() {
        let offset = |offset_ns| OffsetBound { offset_ns, bound_ns: 1_000_000, at_monotonic_ns: 0 };
        let server = Candidate { source: 0, kind: Ntp, offset: offset(0), is_fresh: false };
        let rtc = Candidate { source: 1, kind: Rtc, offset: offset(0), is_fresh: true };
        assert_eq!(choose(&[server, rtc], 0), Choice::Nothing);
        let choice = choose(&[Candidate { is_fresh: true, ..server }, rtc], 0);
        assert_eq!(source(choice), 0);
    }

    #[test]
    fn the_largest_figures_do_not_overflow() {
        let of = [(Ntp, i64::MAX, u64::MAX), (Ntp, i64::MIN, u64::MAX), (Ntp, 0, 0)];
        let Choice::Of(selected) = choice(&of) else { panic!() };
        assert_eq!((selected.offset.offset_ns, selected.offset.bound_ns), (0, 1));
    }
}
