//! Whom to believe.
//!
//! 1. What a majority of the sources can all be right about is taken as the
//!    truth, and whoever has no part in it as a falseticker (Marzullo's
//!    algorithm, RFC 5905 section 11.2.1).
//! 2. Of those, the best kind is gone by; several of one kind together, where
//!    their bounds overlap.
//! 3. Without a majority the best kind stands alone: the host's page against
//!    one NTP server. Two servers against each other leave it open.

use instruments::drift::agreement::{Agreement, agreement};
use instruments::steps::Interval;

use crate::source::{Reading, SourceKind};

/// A source that has said something since time was last disturbed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) source: usize,
    pub(crate) kind: SourceKind,
    pub(crate) reading: Reading,
    /// It said so just now.
    pub(crate) is_fresh: bool,
}

/// What is gone by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// Nobody has said anything, or not just now.
    Nothing,
    /// They contradict each other; one of them.
    Contradiction(Chosen),
    /// This.
    Of(Chosen),
}

/// Who was chosen, and what they say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chosen {
    /// The one of the tightest bound.
    pub(crate) source: usize,
    pub(crate) kind: SourceKind,
    pub(crate) reading: Reading,
    /// How many just said so.
    pub(crate) fresh: usize,
    /// How many agree, of how many.
    pub(crate) agreeing: (usize, usize),
}

/// Chooses among the candidates at `now_ns`.
pub(crate) fn choose(candidates: &[Candidate], now_ns: u64) -> Choice {
    let majority = members(candidates, now_ns);
    let best = |among: &[Candidate]| among.iter().map(|one| one.kind).min();
    let agreed = majority.as_deref().unwrap_or(candidates);
    let Some(kind) = best(agreed) else { return Choice::Nothing };
    let of_kind: Vec<Candidate> = agreed.iter().filter(|one| one.kind == kind).copied().collect();
    // Of one kind, without a majority of all: they may have one of their own.
    let agreed_of_kind = match majority {
        Some(_) => Some(of_kind.clone()),
        None => members(&of_kind, now_ns),
    };
    let total = candidates.len();
    match agreed_of_kind {
        Some(together) => {
            let agreeing = (majority.map_or(together.len(), |all| all.len()), total);
            chosen(&together, agreeing, now_ns).map_or(Choice::Nothing, Choice::Of)
        }
        None => chosen(&of_kind, (1, total), now_ns).map_or(Choice::Nothing, Choice::Contradiction),
    }
}

/// Those that belong to a majority; none where there is no majority.
fn members(candidates: &[Candidate], now_ns: u64) -> Option<Vec<Candidate>> {
    let bounds: Vec<Interval> =
        candidates.iter().map(|one| one.reading.interval_at(now_ns)).collect();
    match agreement(&bounds) {
        Agreement::None => None,
        Agreement::Majority(is_member) => {
            let pairs = candidates.iter().zip(is_member);
            Some(pairs.filter(|(_, is_member)| *is_member).map(|(one, _)| *one).collect())
        }
    }
}

/// What those that just spoke say together.
fn chosen(together: &[Candidate], agreeing: (usize, usize), now_ns: u64) -> Option<Chosen> {
    let fresh = || together.iter().filter(|one| one.is_fresh);
    let tightest = fresh().min_by_key(|one| one.reading.bound_at(now_ns))?;
    Some(Chosen {
        source: tightest.source,
        kind: tightest.kind,
        reading: overlap(fresh().map(|one| one.reading), now_ns).unwrap_or(tightest.reading),
        fresh: fresh().count(),
        agreeing,
    })
}

/// Where the bounds overlap; none where they do not.
fn overlap(readings: impl Iterator<Item = Reading>, now_ns: u64) -> Option<Reading> {
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    for reading in readings {
        let (offset, bound) = (i128::from(reading.offset_ns), i128::from(reading.bound_at(now_ns)));
        (low, high) = (low.max(offset - bound), high.min(offset + bound));
    }
    Some(Reading {
        offset_ns: i64::try_from(low.midpoint(high)).ok()?,
        // Half a nanosecond is cut from the middle.
        bound_ns: u64::try_from(high.checked_sub(low)?.div_euclid(2)).ok()?.saturating_add(1),
        at_ns: now_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use SourceKind::{Ntp, Phc, Rtc, VmClock};

    const MS: i64 = 1_000_000;

    fn told(said: &[(SourceKind, i64, u64)]) -> Choice {
        let candidate = |(source, &(kind, offset_ns, bound_ns))| Candidate {
            source,
            kind,
            reading: Reading { offset_ns, bound_ns, at_ns: 0 },
            is_fresh: true,
        };
        choose(&said.iter().enumerate().map(candidate).collect::<Vec<_>>(), 0)
    }

    fn source(choice: Choice) -> usize {
        let Choice::Of(chosen) = choice else { panic!("{choice:?}") };
        chosen.source
    }

    #[test]
    fn the_best_kind_of_those_that_agree() {
        let said = [(Rtc, 0, 500_000_000), (Ntp, 3 * MS, 5_000_000), (VmClock, MS, 1000)];
        assert_eq!(source(told(&said)), 2);
        assert_eq!(source(told(&said[..2])), 1);
        assert_eq!(source(told(&said[..1])), 0);
        assert_eq!(told(&[]), Choice::Nothing);
    }

    #[test]
    fn two_of_three_servers_outvote_a_falseticker() {
        let said = [(Ntp, 7_000 * MS, 1_000_000), (Ntp, 0, 4_000_000), (Ntp, 6 * MS, 4_000_000)];
        let Choice::Of(chosen) = told(&said) else { panic!() };
        assert_eq!((chosen.agreeing, chosen.fresh), ((2, 3), 2));
        // They overlap from 2 to 4 ms.
        assert_eq!((chosen.reading.offset_ns, chosen.reading.bound_ns), (3 * MS, 1_000_001));
    }

    #[test]
    fn servers_together_outvote_a_host_that_is_wrong() {
        let said = [(Phc, 9_000 * MS, 1000), (Ntp, 0, 1_000_000), (Ntp, 0, 2_000_000)];
        assert_eq!(source(told(&said)), 1);
    }

    #[test]
    fn without_a_majority_the_better_kind_counts_or_none() {
        assert_eq!(source(told(&[(Ntp, 9_000 * MS, 1000), (Phc, 0, 1000)])), 1);
        let two = told(&[(Ntp, 9_000 * MS, 1000), (Ntp, 0, 2000)]);
        assert!(matches!(two, Choice::Contradiction(Chosen { source: 0, .. })), "{two:?}");
        // The clock of the board does not decide between servers.
        let three = told(&[(Ntp, 9_000 * MS, 1000), (Ntp, 0, 2000), (Rtc, 20_000 * MS, 1000)]);
        assert!(matches!(three, Choice::Contradiction(_)), "{three:?}");
    }

    #[test]
    fn who_did_not_just_speak_is_waited_for() {
        let reading = |offset_ns| Reading { offset_ns, bound_ns: 1_000_000, at_ns: 0 };
        let server = Candidate { source: 0, kind: Ntp, reading: reading(0), is_fresh: false };
        let rtc = Candidate { source: 1, kind: Rtc, reading: reading(0), is_fresh: true };
        assert_eq!(choose(&[server, rtc], 0), Choice::Nothing);
        let told = choose(&[Candidate { is_fresh: true, ..server }, rtc], 0);
        assert_eq!(source(told), 0);
    }

    #[test]
    fn the_largest_figures_are_no_trouble() {
        let said = [(Ntp, i64::MAX, u64::MAX), (Ntp, i64::MIN, u64::MAX), (Ntp, 0, 0)];
        let Choice::Of(chosen) = told(&said) else { panic!() };
        assert_eq!((chosen.reading.offset_ns, chosen.reading.bound_ns), (0, 1));
    }
}
