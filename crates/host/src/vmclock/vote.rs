//! Which of several intervals to believe: those points that all allow but as many as may
//! lie (Marzullo's algorithm; RFC 5905, section 11.2.1, seeks the same).

use alloc::vec::Vec;

use super::line::Interval;

/// The span of all points that are outside at most `liars` of the intervals: the truth is
/// in it while no more sources lie. With three at 0 ± 5, 3 ± 4 and 90 ± 1, one of which
/// may lie: −1 to 5. `None` where all may lie, or too many contradict each other.
pub(crate) fn agreed(intervals: &[Interval], liars: usize) -> Option<Interval> {
    let quorum = intervals.len().checked_sub(liars).filter(|&quorum| quorum > 0)?;
    // At equal times begins come before ends: intervals that touch agree.
    let mut edges: Vec<(i128, bool)> = Vec::with_capacity(2 * intervals.len());
    for interval in intervals {
        edges.push((interval.earliest, false));
        edges.push((interval.latest, true));
    }
    edges.sort_unstable();
    let (mut inside, mut earliest, mut latest) = (0_usize, None, None);
    for (at, ends) in edges {
        if ends {
            if inside >= quorum {
                latest = Some(at);
            }
            inside = inside.saturating_sub(1);
        } else {
            inside += 1;
            if inside >= quorum {
                earliest.get_or_insert(at);
            }
        }
    }
    Some(Interval { earliest: earliest?, latest: latest? })
}

/// The value that at least `quorum` of them have.
pub(crate) fn common<T: Copy + PartialEq>(
    values: impl Iterator<Item = T> + Clone,
    quorum: usize,
) -> Option<T> {
    let mut candidates = values.clone();
    candidates.find(|candidate| values.clone().filter(|value| value == candidate).count() >= quorum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agreed_span_is_where_enough_intervals_overlap() {
        let around = |at: i128, error: i128| Interval { earliest: at - error, latest: at + error };
        let all = [around(0, 5), around(3, 4), around(90, 1)];
        assert_eq!(agreed(&all, 1), Some(Interval { earliest: -1, latest: 5 }));
        assert_eq!(agreed(&all, 0), None);
        assert_eq!(agreed(&all[..1], 0), Some(around(0, 5)));
        // Either of the two may be the liar.
        assert_eq!(agreed(&all[1..], 1), Some(Interval { earliest: -1, latest: 91 }));
        let touching = [around(0, 5), around(10, 5)];
        assert_eq!(agreed(&touching, 0), Some(Interval { earliest: 5, latest: 5 }));
        assert_eq!(agreed(&[], 0), None);
        assert_eq!(common([37, 38, 37].into_iter(), 2), Some(37));
        assert_eq!(common([37, 38].into_iter(), 2), None);
    }
}
