//! Which voices agree, and which of their sources to select.
//!
//! 1. Sources of one voice count once: the host's page, its PTP clock and its
//!    RTC are one clock. The best of them speaks; where two that both show the
//!    time contradict each other, none does.
//! 2. The interval on which a majority of the voices agrees is taken as true
//!    time; the others are falsetickers (Marzullo's algorithm, RFC 5905 section
//!    11.2.1). Without a majority nothing is selected. An RTC, which shows how long the
//!    machine was away and no time, is not counted where it alone stands in the way of
//!    enough others.
//! 3. Of the survivors the best kind is selected, and the offset is where the
//!    bounds of all of them overlap: a falseticker with a wide bound among them
//!    cannot move it out of the others' bounds.

use pvclock::units::{Interval, OffsetBound, agreement};

use crate::offset::Offset;
use crate::source::{SourceKind, Voice};

/// A source that was measured since the last disruption.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) source: usize,
    pub(crate) kind: SourceKind,
    pub(crate) offset: OffsetBound,
    /// It was measured in this sample.
    pub(crate) is_fresh: bool,
}

impl Candidate {
    fn voice(&self) -> Voice {
        self.kind.voice(self.source)
    }
}

/// What was selected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// No source was measured, or not in this sample.
    Nothing,
    /// The voices contradict each other; this is one of them.
    Contradiction(Selected),
    /// This one.
    Of(Selected),
}

/// The selected source, and the combined offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Selected {
    /// The one of the best kind, and of those the one of the tightest bound.
    pub(crate) source: usize,
    pub(crate) kind: SourceKind,
    pub(crate) offset: OffsetBound,
    /// The most probable offset, ns: within all their bounds, and the nearer to one of
    /// them the tighter that is.
    pub(crate) likely_ns: f64,
    /// How many were measured in this sample.
    pub(crate) fresh: usize,
    /// How many of these show the time, which an RTC's whole seconds do not.
    pub(crate) showing_time: usize,
    /// How many voices agree, of how many with an offset.
    pub(crate) agreeing: (usize, usize),
    /// Where the offset certainly is, if enough to hold a right one were
    /// measured in this sample: the combined offset may be a falseticker's,
    /// anywhere in the bounds of the others.
    pub(crate) proven: Option<Interval<f64>>,
}

impl Selected {
    /// With a bound that holds before, during and after a slew to where several
    /// measurements have the clock, which may be beyond this one's middle.
    pub(crate) fn with_slew(mut self, slew_ns: Option<i64>) -> Self {
        let by_ns = self.offset.offset_ns;
        let left_ns = by_ns.saturating_sub(slew_ns.unwrap_or(0)).unsigned_abs();
        let beyond_ns = left_ns.saturating_sub(by_ns.unsigned_abs());
        self.offset.bound_ns = self.offset.bound_ns.saturating_add(beyond_ns);
        self
    }
}

/// Selects among the candidates at `now_ns`; of `needed` that agree one is
/// right.
pub(crate) fn choose(candidates: &[Candidate], needed: usize, now_ns: u64) -> Choice {
    let host = host(candidates, now_ns);
    let others = candidates.iter().filter(|candidate| candidate.voice() != Voice::Host);
    let choice = of_voices(host.iter().chain(others.clone()), needed, now_ns);
    let is_rtc = host.is_some_and(|host| host.kind == SourceKind::Rtc);
    if !is_rtc || !matches!(choice, Choice::Contradiction(_)) {
        return choice;
    }
    match of_voices(others, needed, now_ns) {
        Choice::Of(selected) if selected.agreeing.0.min(selected.fresh) >= needed.max(2) => {
            Choice::Of(selected)
        }
        _ => choice,
    }
}

/// What no candidate narrows.
const EVERYWHERE: Interval<f64> = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };

/// What most of these voices agree on.
fn of_voices<'c>(
    voices: impl Iterator<Item = &'c Candidate> + Clone,
    needed: usize,
    now_ns: u64,
) -> Choice {
    let bounds = |candidate: &Candidate| candidate.offset.interval_at(now_ns);
    // Mostly all overlap: nothing is to be listed then, nor sorted.
    let (count, all) = voices
        .clone()
        .fold((0, EVERYWHERE), |(count, all), voice| (count + 1, all.overlap(bounds(voice))));
    if count > 0 && !all.is_empty() {
        let selected = selected(voices, (count, count), needed, now_ns);
        return selected.map_or(Choice::Nothing, Choice::Of);
    }
    let mut ends: Vec<_> = voices.clone().flat_map(|voice| bounds(voice).ends()).collect();
    let majority = agreement(&mut ends, count / 2 + 1);
    let is_right = |voice: &&Candidate| majority.is_none_or(|most| bounds(voice).contains(most.at));
    let agreed = voices.filter(is_right);
    let agreeing = if majority.is_some() { agreed.clone().count() } else { 1 };
    let selected = selected(agreed, (agreeing, count), needed, now_ns);
    match selected {
        None => Choice::Nothing,
        Some(selected) if majority.is_some() => Choice::Of(selected),
        Some(selected) => Choice::Contradiction(selected),
    }
}

/// What speaks for the host, unless it contradicts itself.
fn host(candidates: &[Candidate], now_ns: u64) -> Option<Candidate> {
    let host = candidates.iter().filter(|candidate| candidate.voice() == Voice::Host);
    let best = host.clone().min_by_key(|candidate| candidate.kind)?;
    let shows_time = |candidate: &&Candidate| candidate.kind != SourceKind::Rtc;
    let overlaps = |other: &Candidate| best.offset.overlaps(&other.offset, now_ns);
    host.filter(shows_time).all(overlaps).then_some(*best)
}

/// The combined offset of those measured in this sample.
fn selected<'c>(
    together: impl Iterator<Item = &'c Candidate> + Clone,
    agreeing: (usize, usize),
    needed: usize,
    now_ns: u64,
) -> Option<Selected> {
    let kind = together.clone().map(|candidate| candidate.kind).min()?;
    let fresh = together.filter(|candidate| candidate.is_fresh);
    let of_kind = fresh.clone().filter(|candidate| candidate.kind == kind);
    let best = of_kind.min_by_key(|candidate| candidate.offset.bound_at(now_ns))?;
    let offset =
        overlap(fresh.clone().map(|candidate| candidate.offset), now_ns).unwrap_or(best.offset);
    Some(Selected {
        source: best.source,
        kind: best.kind,
        offset,
        likely_ns: likely_ns(fresh.clone(), offset.interval_at(now_ns), now_ns),
        fresh: fresh.clone().count(),
        showing_time: fresh
            .clone()
            .filter(|voice| voice.kind != SourceKind::Rtc)
            .count()
            .min(agreeing.0),
        agreeing,
        proven: proven(fresh, needed, now_ns),
    })
}

/// What the `needed` tightest of those measured in this sample span.
fn proven<'c>(
    fresh: impl Iterator<Item = &'c Candidate> + Clone,
    needed: usize,
    now_ns: u64,
) -> Option<Interval<f64>> {
    let span = |one: Interval<f64>, other: Interval<f64>| Interval {
        low: one.low.min(other.low),
        high: one.high.max(other.high),
    };
    let intervals = fresh.map(|candidate| candidate.offset.interval_at(now_ns));
    match intervals.clone().count() {
        count if count < needed => None,
        count if count == needed => intervals.reduce(span),
        _ => {
            let mut intervals: Vec<_> = intervals.collect();
            // Of two as tight the first.
            intervals.sort_by(|one, other| one.bound().total_cmp(&other.bound()));
            intervals.into_iter().take(needed).reduce(span)
        }
    }
}

/// Their mean, weighted by the squares of their bounds, where it is `within` all.
fn likely_ns<'c>(
    of: impl Iterator<Item = &'c Candidate>,
    within: Interval<f64>,
    now_ns: u64,
) -> f64 {
    let weighted = of.map(|candidate| {
        let weight = (candidate.offset.bound_at(now_ns).max(1) as f64).powi(-2);
        (weight, weight * candidate.offset.offset_ns as f64)
    });
    let (weight, sum) = weighted.fold((0.0, 0.0), |(n, all), (weight, by)| (n + weight, all + by));
    (sum / weight).clamp(within.low, within.high)
}

/// Where the bounds overlap; none where they do not.
fn overlap(offsets: impl Iterator<Item = OffsetBound>, now_ns: u64) -> Option<OffsetBound> {
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    for offset in offsets {
        let bound = i128::from(offset.bound_at(now_ns));
        let offset = i128::from(offset.offset_ns);
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
        choose(&all_fresh(of), 1, 0)
    }

    fn all_fresh(of: &[(SourceKind, i64, u64)]) -> Vec<Candidate> {
        let candidate = |(source, &(kind, offset_ns, bound_ns))| Candidate {
            source,
            kind,
            offset: OffsetBound { offset_ns, bound_ns, at_monotonic_ns: 0 },
            is_fresh: true,
        };
        of.iter().enumerate().map(candidate).collect()
    }

    fn source(choice: Choice) -> usize {
        let Choice::Of(selected) = choice else { panic!("{choice:?}") };
        selected.source
    }

    #[test]
    fn the_best_kind_of_those_that_agree() {
        let of = [(Ntp, 3 * MS, 5_000_000), (Rtc, 0, 500_000_000), (VmClock, MS, 1000)];
        assert_eq!(source(choice(&of)), 2);
        assert_eq!(source(choice(&of[..2])), 0);
        assert_eq!(source(choice(&of[1..2])), 0);
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
    fn a_wrong_host_is_outvoted_however_many_faces_it_shows() {
        let wrong = 9_000 * MS;
        let servers = [(Ntp, 0, 1_000_000), (Ntp, 0, 2_000_000)];
        for faces in [
            &[(VmClock, wrong, 1000)][..],
            &[(VmClock, wrong, 1000), (Phc, wrong, 1000)],
            &[(VmClock, wrong, 1000), (Phc, wrong, 1000), (Rtc, wrong, 500_000_000)],
        ] {
            let Choice::Of(selected) = choice(&[faces, &servers].concat()) else { panic!() };
            assert_eq!((selected.kind, selected.agreeing), (Ntp, (2, 3)));
        }
    }

    #[test]
    fn a_host_that_contradicts_itself_has_no_vote() {
        // Its PTP clock counts TAI.
        let host = [(VmClock, 0, 1000), (Phc, 37_000 * MS, 1000)];
        assert_eq!(choice(&host), Choice::Nothing);
        assert_eq!(source(choice(&[host[0], host[1], (Ntp, 0, 1000)])), 2);
        // The RTC shows how long the machine was away, to a second.
        assert_eq!(source(choice(&[(VmClock, 0, 1000), (Rtc, 2_000 * MS, 500_000_000)])), 0);
    }

    /// Of servers with offsets of a few values, some of which all overlap: as many agree as
    /// hold the low end that most hold.
    #[test]
    fn as_many_agree_as_counting_shows() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut together = 0;
        for _ in 0..5_000 {
            let of: Vec<_> =
                (0..1 + draw(5)).map(|_| (Ntp, draw(30).cast_signed(), draw(20))).collect();
            let holds = |at: i64| {
                let holds_it = |(_, offset, bound): &&(_, i64, u64)| offset.abs_diff(at) <= *bound;
                of.iter().filter(holds_it).count()
            };
            let most =
                of.iter().map(|(_, offset, bound)| holds(offset - bound.cast_signed())).max();
            let most = most.unwrap();
            let is_majority = of.len() == 1 || 2 * most > of.len();
            match choice(&of) {
                Choice::Of(selected) => {
                    assert!(is_majority, "{of:?}");
                    assert_eq!(selected.agreeing, (most, of.len()), "{of:?}");
                }
                Choice::Contradiction(_) => assert!(!is_majority, "{of:?}"),
                Choice::Nothing => panic!("{of:?}"),
            }
            together += usize::from(most == of.len());
        }
        assert!((1_000..4_500).contains(&together), "{together}");
    }

    #[test]
    fn without_a_majority_nothing_is_selected() {
        for two in [
            [(Ntp, 9_000 * MS, 1000), (Phc, 0, 1000)],
            [(Ntp, 9_000 * MS, 1000), (Ntp, 0, 2000)],
            [(Ntp, 9_000 * MS, 1000), (Rtc, 0, 2000)],
        ] {
            assert!(matches!(choice(&two), Choice::Contradiction(_)), "{two:?}");
        }
        let four = [(Ntp, 0, 10), (Ntp, 0, 10), (Ntp, MS, 10), (Ntp, MS, 10)];
        assert!(matches!(choice(&four), Choice::Contradiction(_)));
    }

    /// It was set by somebody, and one of three servers lies.
    #[test]
    fn an_rtc_does_not_help_a_liar_by_its_vote() {
        let (rtc, liar) = ((Rtc, 2_000 * MS, 900_000_000), (Ntp, 5_000 * MS, 1_000_000));
        let right = [(Ntp, 0, 1_000_000), (Ntp, 0, 2_000_000)];
        let of = [rtc, liar, right[0], right[1]];
        let choice = |of: &[_], needed| choose(&all_fresh(of), needed, 0);
        let Choice::Of(selected) = choice(&of, 2) else { panic!() };
        assert_eq!((selected.source, selected.agreeing), (2, (2, 3)));
        // Fewer than may be liars, one that is the only one, and a host that shows the time.
        assert!(matches!(choice(&of, 3), Choice::Contradiction(_)));
        assert!(matches!(choice(&of[..2], 1), Choice::Contradiction(_)));
        let with_page = [(VmClock, 2_000 * MS, 1000), liar, right[0], right[1]];
        assert!(matches!(choice(&with_page, 2), Choice::Contradiction(_)));
    }

    #[test]
    fn a_better_source_without_a_fresh_sample_is_waited_for() {
        let offset = |offset_ns| OffsetBound { offset_ns, bound_ns: 1_000_000, at_monotonic_ns: 0 };
        let server = Candidate { source: 0, kind: Ntp, offset: offset(0), is_fresh: false };
        let rtc = Candidate { source: 1, kind: Rtc, offset: offset(0), is_fresh: true };
        assert_eq!(choose(&[server, rtc], 1, 0), Choice::Nothing);
        let choice = choose(&[Candidate { is_fresh: true, ..server }, rtc], 1, 0);
        assert_eq!(source(choice), 0);
    }

    #[test]
    fn the_largest_figures_do_not_overflow() {
        let of = [(Ntp, i64::MAX, u64::MAX), (Ntp, i64::MIN, u64::MAX), (Ntp, 0, 0)];
        let Choice::Of(selected) = choice(&of) else { panic!() };
        assert_eq!((selected.offset.offset_ns, selected.offset.bound_ns), (0, 1));
    }
}
